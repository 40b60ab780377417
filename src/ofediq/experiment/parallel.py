"""Many runs at once: the methods and seeds of experiments in processes of their own, here or on a cluster.

A run is a function of where its experiment comes from, a method and a seed, so it may be computed anywhere. What
comes back is the file that a finished run leaves: the results are those of one process, bit for bit.
"""

from __future__ import annotations

import functools
import os
import pickle
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from ofediq.errors import InputError, OFedIQError, require_integer
from ofediq.experiment.alarm import Alarm, diverging
from ofediq.experiment.listener import Listener
from ofediq.machine import cores
from ofediq.simulation.interrupt import deferred_interrupt
from ofediq.storage import save_bytes

if TYPE_CHECKING:
    from ofediq.experiment.setup import Experiment

_Work = TypeVar("_Work", bound="Work")

_WORTH = 2e10  # clients x steps x parameters of all runs: what several processes do sooner than they start
_GLANCE = 0.2  # seconds between two looks at the progress


class Work(Protocol):
    """What a process is sent out for: so many steps, whose content goes to `archive` if there is any."""

    @property
    def steps(self) -> int:
        """How far it is to the end."""

    @property
    def archive(self) -> Path:
        """Where the content goes."""


Compute = Callable[[_Work, str | None, int], bytes | None]
"""Does the work, and shows its steps at a place of the board."""


@dataclass(frozen=True)
class Errand:
    """One method with one seed.

    Attributes:
        origin: makes the experiment, in whatever process.
        key: of the method.
        seed: of everything.
        steps: T.
        archive: where the finished result goes; only the process that hands out errands writes it.
        checkpoint: where an interrupted one saves its state, and continues from; None where no disk is shared.
        checkpoint_every: save it about every so many steps as well.
    """

    origin: Callable[[], Experiment]
    key: str
    seed: int
    steps: int
    archive: Path
    checkpoint: Path | None
    checkpoint_every: int | None = None


def processes_for(work: float, errands: int, jobs: int | None = None) -> int:
    """How many processes to use for `errands` runs of `work` client-steps times parameters in all; 1 for this one.

    Args:
        work: of all errands.
        errands: how many there are.
        jobs: as many as somebody asked for; None for as many as there are cores, if they are worth their start.

    >>> processes_for(1e6, 8), processes_for(1e6, 8, jobs=3), processes_for(1e6, 2, jobs=3)
    (1, 3, 2)
    """
    if jobs is not None:
        return min(require_integer("jobs", jobs, 1, 1024), max(errands, 1))
    return min(cores(), errands) if errands > 1 and work >= _WORTH else 1


def run_errands(
    errands: Sequence[_Work],
    listener: Listener,
    work: Compute[_Work],
    *,
    processes: int,
    alarm: Callable[[_Work, int], str] | None = None,
) -> None:
    """Run all errands in so many processes; raises `KeyboardInterrupt` if that was asked for, all states saved.

    Args:
        errands: what is to be done.
        listener: hears how far they are.
        work: does one.
        processes: how many at a time.
        alarm: what to tell of one that marks a step as the one at which it diverges; only for work that does.
    """
    with tempfile.TemporaryDirectory() as folder:
        board = Path(folder) / "board"
        size = len(errands)
        # Steps done of each, those after which it was seen to diverge, and the wish to stop.
        shown = np.memmap(board, np.int64, "w+", shape=2 * size + 1)
        said = np.zeros(size, np.int64)
        with _pool(processes) as pool, deferred_interrupt(listener.stopping) as check:
            futures = {
                pool.submit(work, errand, str(board), place): errand for place, errand in enumerate(errands)
            }
            listener.started(
                f"{len(errands)} runs in {processes} processes", sum(errand.steps for errand in errands)
            )
            stopped = False
            for _ in _kept(futures):
                listener.advanced(int(shown[:size].sum()))
                for place in np.flatnonzero(shown[size:-1] > said):
                    said[place] = shown[size + place]
                    if alarm is not None:
                        listener.note(alarm(errands[int(place)], int(said[place])))
                try:
                    check()
                except KeyboardInterrupt:
                    stopped, shown[-1] = True, 1  # those at work finish their block; the others do not begin
            if stopped:
                raise KeyboardInterrupt
    listener.finished("done")


def run_on(executor: Executor, errands: Sequence[Errand], listener: Listener) -> None:
    """Run all errands on somebody else's `executor`, such as a Dask client's; what comes back is kept at once."""
    listener.started(f"{len(errands)} runs", len(errands))
    futures = {executor.submit(compute, errand): errand for errand in errands}
    with deferred_interrupt(listener.stopping) as check:
        try:
            for done in _kept(futures):
                listener.advanced(done)
                check()
        except KeyboardInterrupt:
            for future in futures:
                future.cancel()
            raise
    listener.finished("done")


def diverges(errand: Errand, step: int) -> str:
    """The alarm of `compute`."""
    return diverging(errand.key, errand.seed, step)


def compute(errand: Errand, board: str | None = None, place: int = 0) -> bytes | None:
    """One errand: the bytes of its finished result, or None if it was stopped on the way."""
    # Not sooner: they load JAX, and `_settle_in` says how many threads it may have.
    from ofediq.experiment.archive import save_result
    from ofediq.simulation import InterruptedRunError

    show = shown_on(board, place)
    try:
        show(0)
    except KeyboardInterrupt:
        return None
    experiment = _made(pickle.dumps(errand.origin))
    stream = experiment.deal(errand.seed)
    try:
        result = experiment.simulate(
            errand.key,
            stream,
            errand.seed,
            progress=lambda done, _: show(done),
            watch=Alarm(stream, marked_on(board, place)),
            checkpoint=errand.checkpoint,
            checkpoint_every=errand.checkpoint_every,
            resume=errand.checkpoint is not None,
        )
    except InterruptedRunError as error:
        if error.result is None or error.result.steps < stream.steps:
            return None
        result = error.result
    if errand.checkpoint is not None:
        errand.checkpoint.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        save_result(Path(folder) / "result.npz", result)
        return (Path(folder) / "result.npz").read_bytes()


def shown_on(board: str | None, place: int) -> Callable[[int], None]:
    """Shows the steps done at `place` of a board, and raises `KeyboardInterrupt` if everybody shall stop."""
    shown = None if board is None else np.memmap(board, np.int64, "r+")

    def show(done: int) -> None:
        if shown is not None:
            shown[place] = done
            if shown[-1]:
                raise KeyboardInterrupt

    return show


def marked_on(board: str | None, place: int) -> Callable[[int], None]:
    """Marks at `place` of a board after how many steps a run was seen to diverge."""
    shown = None if board is None else np.memmap(board, np.int64, "r+")

    def mark(done: int) -> None:
        if shown is not None:
            shown[len(shown) // 2 + place] = done

    return mark


def _kept(futures: Mapping[Future[bytes | None], Work]) -> Iterator[int]:
    """How many are done, again and again until all are; whatever has come back is on the disk by then."""
    waiting, total = set(futures), len(futures)
    while waiting:
        done, waiting = wait(waiting, _GLANCE, FIRST_COMPLETED)
        for future in done:
            try:
                content = future.result()
            except BrokenProcessPool:
                raise OFedIQError(
                    "a process of the run was ended from outside; less `jobs` need less memory"
                ) from None
            if content is not None:
                save_bytes(futures[future].archive, content)
        yield total - len(waiting)


@functools.lru_cache(maxsize=1)
def _made(origin: bytes) -> Experiment:
    """The experiment of the last errand: often that of the next one."""
    made: Experiment = pickle.loads(origin)()
    return made


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes, each with its share of the cores; Ctrl-C is the business of this one."""
    share = max(1, cores() // processes)
    context = get_context("spawn")  # a fork of a process with JAX's threads may hang
    with ProcessPoolExecutor(processes, context, _settle_in, (share,)) as pool:
        yield pool


def _settle_in(threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OFEDIQ_THREADS"] = str(threads)
    if threads == 1:  # JAX is not yet loaded
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of a Dask cluster whose scheduler is at `address`, such as tcp://10.0.0.1:8786."""
    from ofediq.errors import extra

    distributed: Any = extra("distributed", "dask")
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise InputError(f"`dask` must be the address of a scheduler, got {address!r} ({error})") from None
    with client:
        yield client.get_executor(pure=False)
