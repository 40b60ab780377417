"""Run every method with every seed, and keep what is done."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import jax
from jax.sharding import Mesh

from ofediq.arrays import Floats
from ofediq.errors import CheckpointError
from ofediq.experiment.alarm import Alarm, diverging
from ofediq.experiment.archive import save_result
from ofediq.experiment.folder import Folder
from ofediq.experiment.listener import Listener
from ofediq.experiment.marks import keep_marks, require_same
from ofediq.experiment.parallel import Errand, compute, diverges, processes_for, run_errands
from ofediq.experiment.setup import Experiment
from ofediq.methods import Method
from ofediq.report import Comparison, bits_text, value_text
from ofediq.simulation import Comparator, InterruptedRunError, Regret, Result, client_mesh
from ofediq.simulation.interrupt import deferred_interrupt
from ofediq.simulation.meeting import anyone
from ofediq.streams import APART, Stream, naive_references

_FAR_ABOVE = 2.0  # times the error of a naive forecast: something is wrong, and is said


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """What a run came to.

    Attributes:
        comparison: results, references and regrets; None if nothing at all was done.
        notes: sentences a user should know.
        interrupted: whether something is missing.
    """

    comparison: Comparison | None
    notes: tuple[str, ...]
    interrupted: bool


def run(
    experiment: Experiment,
    folder: Folder,
    listener: Listener,
    *,
    resume: bool = False,
    checkpoint_every: int | None = None,
    jobs: int | None = 1,
) -> RunOutcome:
    """Run all methods with all seeds in an open `folder`.

    Seed i deals the data, starts the model and makes every draw. All methods of a seed run before the next seed,
    so that an interrupted experiment still compares them. An interruption keeps what is done.

    Args:
        experiment: what to run.
        folder: where states and finished results are kept; `Folder.open` comes first.
        listener: told about progress.
        resume: continue from what the folder holds.
        checkpoint_every: save the state of a method about every so many steps.
        jobs: processes for methods and seeds; None for one per core where that is sooner done. More than one needs a
            program that may be imported again, as `multiprocessing` asks.
    """
    _mark(experiment, folder, resume)
    mesh = _mesh(experiment.config.devices)
    work = _Work(experiment, folder, listener, resume, checkpoint_every, mesh)
    interrupted = False
    try:
        work.compute_apart(jobs)
        work.simulate_all()
        work.measure_regrets()
    except KeyboardInterrupt:
        interrupted = True
        work.read_fresh()
    return RunOutcome(work.comparison(), tuple(work.notes), interrupted)


def finished(experiment: Experiment, folder: Folder) -> Comparison | None:
    """What is finished in `folder`, without running anything; a file that is damaged or of another run is not."""
    runs: dict[str, list[Result]] = {key: [] for key in experiment.methods}
    naive: dict[str, list[Floats]] = {}
    for seed in experiment.config.all_seeds:
        paths = {key: folder.archive(key, seed) for key in experiment.methods}
        if not any(path.exists() for path in paths.values()):
            continue
        stream = experiment.deal(seed)
        for name, curve in naive_references(stream).items():
            naive.setdefault(name, []).append(curve)
        for key, path in paths.items():
            with suppress(CheckpointError):
                runs[key].append(experiment.load(path, key, stream, seed))
    return Comparison(runs, naive) if any(runs.values()) else None


def errands(
    experiment: Experiment,
    folder: Folder,
    steps: int,
    resume: bool = False,
    checkpoint_every: int | None = None,
    shared: bool = True,
) -> list[Errand]:
    """What of an experiment is not finished in its open `folder`, seed after seed; none if it cannot be made again.

    Args:
        experiment: whose methods and seeds.
        folder: where results go.
        steps: T.
        resume: whether what is finished there counts.
        checkpoint_every: see `Errand`.
        shared: whether those who run them see the folder too.
    """
    if experiment.origin is None:
        return []
    return [
        Errand(
            experiment.origin,
            key,
            seed,
            steps,
            folder.archive(key, seed),
            folder.checkpoint(key, seed) if shared else None,
            checkpoint_every if shared else None,
        )
        for seed in experiment.config.all_seeds
        for key in experiment.methods
        if not (resume and folder.archive(key, seed).exists())
    ]


def _mark(experiment: Experiment, folder: Folder, resume: bool) -> None:
    """A user's file as it was when the run began; a resumed run needs the same."""
    config, readings = experiment.config, experiment.readings
    if config.data is None or readings is None:
        return
    if resume:
        require_same(folder.marks, readings, Path(config.data).name)
    else:
        keep_marks(folder.marks, readings)


class _Work:
    """The state of an experiment: what is done so far."""

    def __init__(
        self,
        experiment: Experiment,
        folder: Folder,
        listener: Listener,
        resume: bool,
        checkpoint_every: int | None,
        mesh: Mesh | None,
    ) -> None:
        self.experiment, self.folder, self.listener = experiment, folder, listener
        self.resume, self.checkpoint_every, self.mesh = resume, checkpoint_every, mesh
        self.runs: dict[str, list[Result]] = {key: [] for key in experiment.methods}
        self.naive: dict[str, list[Floats]] = {}
        self.regrets: dict[str, dict[int, Regret]] = {}
        self.notes: list[str] = []
        self.steps = 0
        self.fresh: set[tuple[str, int]] = set()  # computed by other processes, not yet counted in

    def compute_apart(self, jobs: int | None) -> None:
        """What is not finished, in processes of their own where that is worth it; `simulate_all` then reads it."""
        experiment, folder = self.experiment, self.folder
        stream = experiment.deal(experiment.config.seed)
        wanted = errands(experiment, folder, stream.steps, self.resume, self.checkpoint_every)
        work = float(len(wanted)) * stream.clients * stream.steps * experiment.model.dim
        processes = processes_for(work, len(wanted), jobs)
        if processes == 1 or experiment.origin is None or self.mesh is not None:
            return
        self.resume = True  # from here on, what is there was made by this run
        try:
            run_errands(wanted, self.listener, compute, processes=processes, alarm=diverges)
        finally:
            self.fresh = {(one.key, one.seed) for one in wanted if one.archive.exists()}

    def read_fresh(self) -> None:
        """What other processes finished before an interruption."""
        for key, seed in sorted(
            self.fresh - {(key, one.seed) for key, runs in self.runs.items() for one in runs}
        ):
            stream = self.experiment.deal(seed)
            self.steps = stream.steps
            self.runs[key].append(self.experiment.load(self.folder.archive(key, seed), key, stream, seed))

    def simulate_all(self) -> None:
        """All methods of a seed, seed after seed."""
        self._tell(*self.experiment.notes)
        for seed in self.experiment.config.all_seeds:
            stream = self.experiment.deal(seed)
            self.steps = stream.steps
            for name, curve in naive_references(stream).items():
                self.naive.setdefault(name, []).append(curve)
            for key, method in self.experiment.methods.items():
                self._simulate_one(key, method, stream, seed)
        if self.experiment.config.automatic:
            self._tell(*self._outdone())

    def measure_regrets(self) -> None:
        """Regrets of all runs, where they are wanted; a diverged one has none."""
        results = [(key, result) for key, results in self.runs.items() for result in results]
        wanted = self.experiment.config.regret
        if wanted is None:
            wanted = self.experiment.model.convex and not self.experiment.config.automatic
        finite = [(key, result) for key, result in results if wanted and not result.diverged]
        if not finite:
            return
        best: dict[tuple[int, int], Comparator] = {}
        self.listener.started("regret", len(finite))
        for count, (key, result) in enumerate(finite):
            stream = (result.seed, result.steps)
            known = best.get(stream) if result.model.convex else None  # one optimum serves all methods
            regret = result.regret(comparator=known)
            best[stream] = regret.comparator
            self.regrets.setdefault(key, {})[result.seed] = regret
            self.listener.advanced(count + 1)
        self.listener.finished("measured against the best fixed model in hindsight")

    def comparison(self) -> Comparison | None:
        """Everything so far."""
        if not any(self.runs.values()):
            return None
        return Comparison(self.runs, self.naive, self.regrets, self.steps)

    def _simulate_one(self, key: str, method: Method, stream: Stream, seed: int) -> None:
        self.listener.started(f"{method.name}, seed {seed}", stream.steps)
        archive = self.folder.archive(key, seed)
        if anyone(self.resume and archive.exists()):
            if not archive.exists():
                return  # another process has it
            result = self.experiment.load(archive, key, stream, seed)
            if (key, seed) in self.fresh:
                self._count_in(key, result)
                return
            self.runs[key].append(result)
            self.listener.finished("finished before")
            return
        try:
            self._finish(key, self._simulate(key, method, stream, seed))
        except InterruptedRunError as error:
            if error.result is not None and error.result.steps == stream.steps:
                self._finish(key, error.result)
            elif error.result is not None:
                self.runs[key].append(error.result)
            raise KeyboardInterrupt from None

    def _simulate(self, key: str, method: Method, stream: Stream, seed: int) -> Result:
        with deferred_interrupt(self.listener.stopping) as check:

            def progress(done: int, steps: int) -> None:
                self.listener.advanced(done)
                asked = False
                try:
                    check()
                except KeyboardInterrupt:
                    asked = True
                if anyone(asked):  # whoever stops alone leaves the others waiting
                    raise KeyboardInterrupt

            def say(step: int) -> None:
                self.listener.note(diverging(method.name, seed, step))

            federated = method.topology == "federated"

            return self.experiment.simulate(
                key,
                stream,
                seed,
                progress=progress,
                watch=Alarm(stream, say, {name: curves[-1] for name, curves in self.naive.items()}),
                # References run whole in every process: nobody could tell the others where to continue.
                checkpoint=self.folder.checkpoint(key, seed)
                if federated or jax.process_count() == 1
                else None,
                checkpoint_every=self.checkpoint_every,
                resume=self.resume,
                mesh=self.mesh if federated else None,
            )

    def _finish(self, key: str, result: Result) -> None:
        """A result that is complete: saved, and its state no longer needed."""
        save_result(self.folder.archive(key, result.seed), result)
        self.folder.checkpoint(key, result.seed).unlink(missing_ok=True)
        self._count_in(key, result)

    def _count_in(self, key: str, result: Result) -> None:
        """A finished result, with a line about it, and a sentence where something is wrong."""
        self.runs[key].append(result)
        value = value_text(float(result.curve[-1]), result.metric)
        bits = bits_text(float(result.bits_wire.sum()))
        self.listener.finished(f"{result.metric} {value}, {bits} sent, {result.seconds:.1f} s")
        if result.diverged:
            self._tell(f"{result.name} diverged with seed {result.seed}{self._advice('a smaller step size')}")
        elif (ratio := self._against_naive(result)) > _FAR_ABOVE:
            worse = f"{ratio:.3g} times the error of the best naive forecast"
            advice = self._advice("another step size, or the preset auto")  # it may be too small or too large
            self._tell(f"{result.name} with seed {result.seed} has {worse}{advice}")

    def _outdone(self) -> list[str]:
        """Which methods are not the one to take here."""
        names = {key: method.name for key, method in self.experiment.methods.items()}
        return [
            f"{names[key]} has {ratio:.3g} times the error of {names[best]}, on as many bits: here take "
            f"{names[best]} (--methods {best})."
            for key, (best, ratio) in Comparison(self.runs).outdone().items()
        ]

    def _advice(self, what: str) -> str:
        return "." if self.experiment.config.automatic else f": try {what}."

    def _against_naive(self, result: Result) -> float:
        """The error of a result over that of the best naive forecast on the same stream."""
        curves = [seeds[-1] for name, seeds in self.naive.items() if name not in APART]
        ends = [float(curve[result.steps - 1]) for curve in curves]
        errors = [1 - end if result.metric == "accuracy" else end for end in ends]
        best = min((error for error in errors if error > 0), default=0.0)
        return float(result.running_error[-1]) / best if best else 0.0

    def _tell(self, *sentences: str) -> None:
        self.notes += sentences
        for sentence in sentences:
            self.listener.note(sentence)


def _mesh(devices: int) -> Mesh | None:
    """A mesh of so many devices; on a CPU they are made first, which only works before JAX is used.

    Processes that were joined pool all of theirs.
    """
    if jax.distributed.is_initialized() and jax.process_count() > 1:  # to count them alone would start JAX
        return client_mesh()
    if devices == 1:
        return None
    with suppress(RuntimeError):  # JAX is in use already: what it has must do
        jax.config.update("jax_num_cpu_devices", devices)
    return client_mesh(devices)
