"""ofediq on a task's file, as a process of its own, reporting as the peers do: `python -m benchmarks.peers.ours`."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.peers.scripts import task as shared
from benchmarks.peers.scripts.task import Recorder, Task
from ofediq import methods, models, streams
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.simulation import simulate
from ofediq.streams import Stream


def parts(task: Task) -> tuple[Method, Stream, Model]:
    """The task in ofediq's terms."""
    classes = task.sizes[-1] if task.task == "classification" else None
    kind: streams.Task = "regression" if classes is None else "classification"
    data = streams.Dataset("work", task.x, task.y, kind, classes)
    name = "softmax" if len(task.sizes) == 2 else task.model
    model = models.build(name, data.sample_shape, data.task, classes=classes, l2=task.l2)
    if task.levels:
        method = methods.ofediq(task.rate, task.levels, task.blocks, task.period, task.step_size)
    else:
        method = methods.fedogd(task.step_size)
    return method, Stream(data, task.order), model


def main() -> None:
    """Simulate the whole stream; the time of a block of steps is shared out evenly among its windows."""
    given = shared.arguments()
    task = given.task
    method, stream, model = parts(task)
    recorder = Recorder(task, given.seconds)
    blocks: list[tuple[int, float, float]] = []

    def progress(done: int, _: int) -> None:
        if not recorder.first:
            recorder.first = time.time()
        blocks.append((done // task.period, time.perf_counter(), time.process_time()))

    result = simulate(method, stream, model, initial=task.initial, progress=progress)
    recorder.errors = [float(error) for error in result.error]
    last, begun, worked = 0, recorder.began, recorder.worked
    for done, ended, work in blocks:
        recorder.times += [(ended - begun) / (done - last)] * (done - last)
        recorder.work += [(work - worked) / (done - last)] * (done - last)
        last, begun, worked = done, ended, work
    recorder.report(result.params, Path(given.out), block=blocks[0][0])


if __name__ == "__main__":
    main()
