"""What is measured: models, methods and streams by name, and their export for peers that know nothing of ofediq."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.limits import Load
from benchmarks.peers.scripts.task import Task, save
from ofediq import methods, models, streams
from ofediq.methods import Method
from ofediq.models import Model, Network
from ofediq.streams import Dataset, Stream
from ofediq.theory import plan

SAMPLES = 10_000  # of a dataset that are dealt, again and again: a small file, the same work
SEED = 0


@dataclass(frozen=True)
class Workload:
    """One dataset, one model, one method.

    Attributes:
        name: the row of the table.
        data: the dataset's name.
        model: its model's name.
        budget: share of FedOGD's bits by the paper's formula; 1 for FedOGD itself.
        period: L.
        clients: K.
        steps: T.
        step_size: eta.
    """

    name: str
    data: str
    model: str
    budget: float = 1.0
    period: int = 1
    clients: int = 1000
    steps: int = 160
    step_size: float = 0.05


def catalogue() -> list[Workload]:
    """The workloads of the tables.

    >>> [work.name for work in catalogue()][:2]
    ['Model I, FedOGD', 'Model I, OFedIQ 99 %']
    """
    image = ("mnist", "cnn")
    return [
        Workload("Model I, FedOGD", *image),
        Workload("Model I, OFedIQ 99 %", *image, budget=0.01),
        Workload("Model I, OFedIQ 90 %", *image, budget=0.1),
        Workload("Model I, OFedIQ 99 %, L = 8", *image, budget=0.01, period=8),
        Workload("Room MLP, FedOGD", "room", "mlp", steps=640),
        Workload("Room MLP, OFedIQ 99 %", "room", "mlp", budget=0.01, steps=640),
        Workload("Energy MLP, FedOGD", "energy", "mlp", steps=640),
        Workload("Energy MLP, OFedIQ 99 %", "energy", "mlp", budget=0.01, steps=640),
        Workload("softmax, FedOGD", "mnist", "softmax", steps=640),
        Workload("softmax, OFedIQ 99 %", "mnist", "softmax", budget=0.01, steps=640),
    ]


def growth() -> list[Workload]:
    """From 100 to 100,000 clients, the same number of samples in all; at least four steps."""
    counts = (100, 1000, 10_000, 100_000)
    return [
        Workload(f"K = {k:,}", "mnist", "cnn", budget=0.01, clients=k, steps=max(4, min(640, 160_000 // k)))
        for k in counts
    ]


@dataclass(frozen=True)
class Prepared:
    """A workload with its data: what ofediq runs, and what the peers get."""

    workload: Workload
    method: Method
    model: Model
    stream: Stream
    task: Task

    @property
    def features(self) -> int:
        """Numbers in one sample."""
        return int(np.prod(self.stream.x.shape[1:]))

    @property
    def load(self) -> Load:
        """What a step asks of the machine; the share of senders is the one that was drawn."""
        return Load(self.stream.clients, float(self.task.senders.mean()), self.method.period)


def prepare(workload: Workload) -> Prepared:
    """Deal the data, plan the method, and draw who sends when."""
    data = _few(streams.load(workload.data))
    model = models.build(workload.model, data.sample_shape, data.task, classes=data.classes)
    stream = streams.partition(data, workload.clients, workload.steps, kind="passes", seed=SEED)
    return assemble(workload, model, stream)


def assemble(workload: Workload, model: Model, stream: Stream) -> Prepared:
    """The method at the workload's budget, and the task with the draws that ofediq will make."""
    levels, blocks, rate, eta, period = 0, 0, 1.0, workload.step_size, workload.period
    if workload.budget < 1:
        chosen = plan(workload.budget, model.dim, clients=workload.clients, method="paper")
        levels, blocks = chosen.levels, chosen.blocks
        rate = min(1.0, float(np.mean(chosen.rate)) * period)
        method = methods.ofediq(rate, levels, blocks, period, eta)
    else:
        method = methods.fedogd(eta)
    ids = np.arange(stream.clients, dtype=np.int32)
    ends = range(period, stream.steps + 1, period)
    senders = [method.participation.active(np.uint32(SEED), np.int32(end), ids, len(ids)) for end in ends]
    task = Task(
        x=stream.x,
        y=stream.y,
        order=stream.order,
        senders=np.stack([np.asarray(flags, bool).reshape(-1) for flags in senders]),
        initial=model.initial(SEED),
        model="mlp" if workload.model == "softmax" else workload.model,
        sizes=_sizes(model, stream),
        task=stream.task,
        l2=float(getattr(model, "l2", 0.0)),
        step_size=eta,
        rate=rate,
        period=period,
        levels=levels,
        blocks=blocks,
    )
    return Prepared(workload, method, model, stream, task)


def export(prepared: Prepared, folder: Path) -> Path:
    """Write the task's file."""
    path = folder / "work.npz"
    save(prepared.task, path)
    return path


def _few(data: Dataset) -> Dataset:
    """At most `SAMPLES` samples, at random."""
    chosen = np.random.default_rng(SEED).permutation(len(data))[:SAMPLES]
    return Dataset(data.name, data.x[chosen], data.y[chosen], data.task, data.classes)


def _sizes(model: Model, stream: Stream) -> tuple[int, ...]:
    assert isinstance(model, Network)
    units = tuple(stage.outputs[-1] for stage in model.stages)
    return units if model.convolves else (int(np.prod(stream.x.shape[1:])), *units)
