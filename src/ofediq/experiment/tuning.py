"""One stream of the zoo: every method tuned by the same rule, then run with every seed.

A run of a method is a unit. Units are kept as soon as they are done, one file for the units of a method: whoever
asks for a row again, after an interruption or with more seeds, methods or step sizes, runs only what is missing.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

import jax
import numpy as np

from ofediq.errors import InputError, require, require_positive
from ofediq.experiment.config import Config
from ofediq.experiment.listener import Listener
from ofediq.experiment.setup import Experiment
from ofediq.methods import Method, Terms
from ofediq.methods.registry import entry, make, parse
from ofediq.models import Model, build
from ofediq.report import value_text
from ofediq.settings import Fraction, Ranged, limited
from ofediq.simulation import InterruptedRunError, Result, simulate
from ofediq.storage import save_json
from ofediq.streams import Stream, naive_references

STEP_SIZES = (0.004, 0.016, 0.064, 0.25, 1.0)
"""The grid that every method is tuned on."""
_KERNELS = 8
_FITTED = 0.9, 1.05  # real bits over the budget within which nothing is corrected

Unit = dict[str, Any]
"""What is kept of one run, JSON-ready."""


@dataclass(frozen=True)
class Effort(Ranged):
    """How methods are tuned: the same rule for all.

    Attributes:
        step_sizes: tried one after another.
        prefix: the share of the stream that is looked at.
        further: how many step sizes beyond the grid may be tried while the best one is at its edge.
        fits: how often the budget that a method is given may be corrected to meet the one that is asked for.
    """

    step_sizes: tuple[float, ...] = STEP_SIZES
    prefix: Fraction = 0.25
    further: Annotated[int, limited(0, 100)] = 4
    fits: Annotated[int, limited(0, 100)] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.step_sizes) > 0, "step_sizes", "must name at least one", self.step_sizes)
        for one in self.step_sizes:
            require_positive("step_sizes", one)
        distinct = len(set(self.step_sizes)) == len(self.step_sizes)
        require(distinct, "step_sizes", "must differ", ",".join(f"{one:g}" for one in self.step_sizes))

    def beyond(self, losses: dict[float, float]) -> float | None:
        """The next step size to try: one further out where the best is the last of the grid; None if it is inside.

        >>> Effort((0.1, 1.0)).beyond({0.1: 2.0, 1.0: 1.0})
        10.0
        >>> Effort((0.1, 1.0)).beyond({0.1: 2.0, 1.0: 1.0, 10.0: 3.0})
        """
        sizes = sorted(losses)
        if len(self.step_sizes) < 2 or len(sizes) >= len(self.step_sizes) + self.further:
            return None
        best = min(losses, key=lambda size: losses[size])
        if not math.isfinite(losses[best]):  # all of them diverge
            return _rounded(sizes[0] ** 2 / sizes[1])
        if best == sizes[-1]:
            return _rounded(sizes[-1] ** 2 / sizes[-2])
        better = best == sizes[0] and losses[sizes[0]] < losses[sizes[1]]  # alike where nothing is sent
        return _rounded(sizes[0] ** 2 / sizes[1]) if better else None


def _rounded(size: float) -> float:
    """Two digits, as a person would write it."""
    return float(f"{size:.2g}")


class MissingError(Exception):
    """A unit that was asked for is not there, and may not be run now."""


class Tuning:
    """How methods are tuned on one partition: its streams, its model, and what is asked of every method."""

    def __init__(self, config: Config, effort: Effort, folder: Path, listener: Listener) -> None:
        self.config, self.effort, self.folder, self.listener = config, effort, folder, listener
        made = Experiment.set_up(config)
        self.deal, self.model = made.deal, made.model
        self.first: Stream = made.deal(config.seed)
        self.budget = float(config.budget or 0.01)

    def describe(self) -> dict[str, Any]:
        """What is the same for all methods."""
        naive = {name: float(curve[-1]) for name, curve in naive_references(self.first).items()}
        return {
            "naive": {name: value for name, value in naive.items() if math.isfinite(value)},
            "metric": "accuracy" if self.model.task == "classification" else "mse",
            "clients": self.first.clients,
            "steps": self.first.steps,
            "dim": self.model.dim,
            "dataset": self.first.dataset.name,
        }

    def row(self, text: str, run: bool = True, check: Callable[[int], None] = lambda done: None) -> Unit:
        """Tuned on the prefix, then run with every seed.

        Args:
            text: the method.
            run: whether what is missing is run; if not, it raises `MissingError`.
            check: called with the number of units that are done, and may raise.
        """
        visit = _Visit(self, text, run, check)
        try:
            return visit.row()
        except InputError as error:
            return {"name": text, "value": None, "refused": str(error)}
        finally:
            if visit.ran:  # compiled for this method alone
                jax.clear_caches()


class _Visit:
    """One method, tuned and run."""

    def __init__(self, tuning: Tuning, text: str, run: bool, check: Callable[[int], None]) -> None:
        self.tuning, self.text, self.run, self.check = tuning, text, run, check
        plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        self.path = tuning.folder / f"{plain}-{digest}.json"
        self.units: dict[str, Unit] = _read(self.path)
        self.model, self.done, self.ran = self._model(), 0, False
        steps = math.ceil(tuning.effort.prefix * tuning.first.steps)
        self.prefix = tuning.first.head(max(1, steps))

    def row(self) -> Unit:
        """The numbers of the table."""
        tuning = self.tuning
        budget = min(
            1.0, tuning.budget * tuning.model.dim / self.model.dim
        )  # the same bits, whatever the model
        chosen, tried = self._tuned(budget)
        given = self._fitted(chosen, budget, tried[chosen])
        runs = [self._unit(chosen, given, tuning.deal(seed), seed) for seed in tuning.config.all_seeds]
        losses = {f"{size:g}": tried[size]["loss"] for size in sorted(tried)}
        return {**_row(runs), "step_size": chosen, "tried": losses, "budget": given}

    def _tuned(self, budget: float) -> tuple[float, dict[float, Unit]]:
        """The step size with the smallest loss on the prefix, and all that were tried."""
        effort, tried = self.tuning.effort, dict[float, Unit]()
        wanted: float | None = None
        for size in effort.step_sizes:
            tried[size] = self._unit(size, budget, self.prefix)
        while True:
            losses = {size: math.inf if unit["diverged"] else unit["loss"] for size, unit in tried.items()}
            wanted = effort.beyond(losses)
            if wanted is None or wanted in tried:
                return min(losses, key=lambda size: losses[size]), tried
            tried[wanted] = self._unit(wanted, budget, self.prefix)

    def _fitted(self, size: float, budget: float, unit: Unit) -> float:
        """The budget with which the method really spends `budget` on the prefix, as near as it gets from below."""
        if not entry(parse(self.text)[0]).budgeted:
            return budget
        low, high = _FITTED
        spent: dict[float, float] = {}  # by the budget that was given: real bits over the budget
        given = budget
        while given not in spent and len(spent) <= self.tuning.effort.fits:
            if spent:
                unit = self._unit(size, given, self.prefix)
            spent[given] = real = unit["share_windows"] / self.tuning.budget
            if real <= 0 or low <= real <= high:
                break
            below = max((one for one, share in spent.items() if share < low), default=None)
            above = min((one for one, share in spent.items() if share > high), default=None)
            wanted = given / real if below is None or above is None else math.sqrt(below * above)
            given = float(f"{min(1.0, wanted):.4g}")
        kept = [one for one, share in spent.items() if 0 < share <= high]
        if kept:
            return max(kept, key=lambda one: spent[one])
        return min(spent, key=lambda one: spent[one])

    def _unit(self, size: float, budget: float, stream: Stream, seed: int | None = None) -> Unit:
        """One run: kept, or run now."""
        key = f"step_size={size:g} budget={budget:.6g} " + (
            f"steps={stream.steps}" if seed is None else f"seed={seed}"
        )
        if key not in self.units:
            features = math.prod(stream.x.shape[1:])
            terms = Terms(budget, self.model.dim, stream.clients, stream.steps, features=features)
            method = make(self.text, terms, step_size=size)  # or a sentence why not
            if not self.run:
                raise MissingError(key)
            self.units[key] = self._simulate(method, size, stream, seed)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_json(self.path, self.units)
        self.done += 1
        self.check(self.done)
        return self.units[key]

    def _simulate(self, method: Method, size: float, stream: Stream, seed: int | None) -> Unit:
        tuning = self.tuning
        what = f"{method.name}, {'step size ' + format(size, 'g') if seed is None else f'seed {seed}'}"
        tuning.listener.started(f"{tuning.config.partition}: {what}", stream.steps)

        def progress(done: int, _: int) -> None:
            tuning.listener.advanced(done)
            self.check(self.done)

        first = tuning.config.seed if seed is None else seed
        try:
            result = simulate(method, stream, self.model, first, progress=progress)
        except InterruptedRunError:
            raise KeyboardInterrupt from None
        self.ran = True
        if seed is not None:
            value = value_text(float(result.curve[-1]), result.metric)
            tuning.listener.finished(f"{result.metric} {value}, {result.seconds:.1f} s")
        return _kept(result, tuning.model.dim)

    def _model(self) -> Model:
        """The stream's model, or random features of about its size."""
        wanted = entry(parse(self.text)[0]).model
        if not wanted:
            return self.tuning.model
        data = self.tuning.first.dataset
        outputs = data.classes or 1
        pairs = min(100, max(10, self.tuning.model.dim // (2 * _KERNELS * outputs)))
        return build(
            f"{wanted}(kernels={_KERNELS}, pairs={pairs})", data.sample_shape, data.task, classes=data.classes
        )


def _read(path: Path) -> dict[str, Unit]:
    """The units of a method that are done."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise InputError(f"`out` must hold units that can be read, got {str(path)!r}: {error}") from None
    require(isinstance(kept, dict), "out", "must hold units that can be read", str(path))
    return dict(kept)


def _kept(result: Result, dim: int) -> Unit:
    """What the table needs of a run; shares are of FedOGD's bits with a model of `dim` parameters."""
    method, finite = result.method, not result.diverged and math.isfinite(float(result.curve[-1]))
    memory = jax.tree.leaves(method.client.memory(np.zeros(result.model.dim, np.float32)))
    all_bits = 32.0 * dim * result.present
    last = result.steps - result.steps % method.period  # of the last whole window
    uplink = float(result.bits_wire.sum())
    return {
        "name": method.name,
        "model": result.model.name,
        "diverged": not finite,
        "value": float(result.curve[-1]) if finite else None,
        "loss": float(result.loss.sum() / result.present.sum()) if finite else None,
        "share": uplink / float(all_bits.sum()),
        "share_windows": float(result.bits_wire[:last].sum()) / max(1.0, float(all_bits[:last].sum())),
        "uplink": uplink,
        "downlink": float(result.bits_downlink.sum()),
        "memory": 4 * result.model.dim
        if method.topology == "separate"
        else sum(np.asarray(leaf).nbytes for leaf in memory),
        "milliseconds": 1000 * result.seconds / result.steps,
        "personal": method.client.personal,
        "federated": method.topology == "federated",
    }


def _row(runs: Sequence[Unit]) -> Unit:
    """Means over seeds; the time of the fastest seed, whose code was compiled."""
    finite = not any(run["diverged"] for run in runs)
    values = [run["value"] for run in runs]
    same = ("name", "model", "memory", "personal", "federated")
    return {
        **{name: runs[0][name] for name in same},
        "value": fmean(values) if finite else None,
        "std": stdev(values) if finite and len(values) > 1 else None,
        "values": values if finite else None,
        "loss": fmean(run["loss"] for run in runs) if finite else None,
        **{name: fmean(run[name] for run in runs) for name in ("share", "uplink", "downlink")},
        "milliseconds": min(run["milliseconds"] for run in runs),
    }
