"""The zoo: every named method on one dataset, at equal real bits, each with a step size of its own.

The step size is tuned on a prefix of the first seed's stream, with the same grid for every method; so is the budget,
once, where a method's bits on the wire differ from what its formula counts. What is done is kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import jax
import numpy as np

from ofediq.errors import InputError, require, require_fraction, require_positive
from ofediq.experiment.config import Config
from ofediq.experiment.runner import Listener
from ofediq.experiment.setup import Experiment
from ofediq.methods import Method, Terms
from ofediq.methods.registry import entries, entry, make, parse
from ofediq.models import Model, build
from ofediq.report import value_text
from ofediq.report.figures.dots import draw_dots
from ofediq.simulation import InterruptedRunError, Result, simulate
from ofediq.storage import save_json
from ofediq.streams import Stream, naive_references

STEP_SIZES = (0.004, 0.016, 0.064, 0.25, 1.0)
"""The grid that every method is tuned on."""
_KERNELS = 8
_FITTED = 0.9, 1.05  # real bits over the budget within which nothing is corrected


@dataclass(frozen=True)
class Effort:
    """How methods are tuned: the same for all.

    Attributes:
        step_sizes: tried one after another.
        prefix: the share of the stream that is looked at.
    """

    step_sizes: tuple[float, ...] = STEP_SIZES
    prefix: float = 0.25

    def __post_init__(self) -> None:
        require(len(self.step_sizes) > 0, "step_sizes", "must name at least one", self.step_sizes)
        for one in self.step_sizes:
            require_positive("step_sizes", one)
        require_fraction("prefix", self.prefix)


def every_method() -> tuple[str, ...]:
    """The names of all methods, and Fed-POE without a scale; what wraps another is around OFedIQ."""
    return (*entries(), "fedpoe(ofediq, mixing=adaptive)")


def zoo(
    config: Config,
    partitions: Sequence[str],
    path: Path,
    listener: Listener,
    *,
    effort: Effort | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Run every method of `config` on every partition; one row for each, in `path`/zoo.json and a picture.

    Args:
        config: data, model, methods, budget and seeds; the step size and partition of its own are not used.
        partitions: how samples are dealt; those of a file with clients of its own are `column`.
        path: the folder; rows that are there are not run again.
        listener: told about progress.
        effort: how methods are tuned.
        force: run again what is there.
    """
    effort = effort or Effort()
    require(len(partitions) > 0, "partitions", "must name at least one", partitions)
    path.mkdir(parents=True, exist_ok=True)
    asked = {
        "config": {**config.to_dict(), "methods": []},
        "partitions": list(partitions),
        "tuning": {"step_sizes": list(effort.step_sizes), "prefix": effort.prefix},
    }
    found = _before(path / "zoo.json", asked, force)
    for partition in partitions:
        part = found["parts"].setdefault(partition, {"rows": {}})
        try:
            _Cage(replace(config, partition=partition, methods=("fedogd",)), effort, listener).fill(
                part, config.methods, lambda: save_json(path / "zoo.json", found)
            )
        except (KeyboardInterrupt, InterruptedRunError):
            found["interrupted"] = True
            break
    save_json(path / "zoo.json", found)
    if any(part["rows"] for part in found["parts"].values()):
        found["figure"] = str(path / "zoo.png")
        _draw(found, path / "zoo.png")
    return found


def _before(path: Path, asked: Mapping[str, Any], force: bool) -> dict[str, Any]:
    """What an earlier call with the same question left, or an empty answer."""
    fresh = {**asked, "parts": {}, "interrupted": False}
    if force or not path.is_file():
        return fresh
    try:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"`out` must hold a zoo that can be read, got {str(path)!r}: {error}") from None
    for name, value in asked.items():
        if kept.get(name) != value:
            raise InputError(f"`out` must be of the same question, got another {name} (--force runs anew)")
    return {**kept, "interrupted": False}


class _Cage:
    """One partition: its streams, its model, and what is asked of every method."""

    def __init__(self, config: Config, effort: Effort, listener: Listener) -> None:
        self.config, self.effort, self.listener = config, effort, listener
        made = Experiment.set_up(config)
        self.deal, self.model = made.deal, made.model
        self.first: Stream = made.deal(config.seed)
        self.budget = float(config.budget or 0.01)

    def fill(self, part: dict[str, Any], methods: Sequence[str], keep: Any) -> None:
        """One row after another."""
        if "naive" not in part:
            naive = {name: float(curve[-1]) for name, curve in naive_references(self.first).items()}
            part |= {
                "naive": {name: value for name, value in naive.items() if math.isfinite(value)},
                "metric": "accuracy" if self.model.task == "classification" else "mse",
                "clients": self.first.clients,
                "steps": self.first.steps,
                "dim": self.model.dim,
                "dataset": self.first.dataset.name,
            }
        for text in methods:
            if text in part["rows"]:
                continue
            row = self.row(text)
            part["rows"][text] = row
            keep()

    def row(self, text: str) -> dict[str, Any]:
        """Tuned on the prefix, then run with every seed."""
        model, budget = self._model(text), self.budget
        budget = min(1.0, budget * self.model.dim / model.dim)  # the same bits, whatever the model
        prefix = self.first.head(max(1, math.ceil(self.effort.prefix * self.first.steps)))
        tried = {eta: self._run(text, eta, budget, prefix, model) for eta in self.effort.step_sizes}
        losses = {eta: one.loss.sum() for eta, one in tried.items() if not one.diverged}
        chosen = min(losses, key=lambda eta: losses[eta]) if losses else self.effort.step_sizes[0]
        low, high = _FITTED
        real = _share(tried[chosen], model.dim) / budget
        if entry(parse(text)[0]).spend is not None and real > 0 and not low <= real <= high:
            budget = min(1.0, budget / real)
        runs = [
            self._run(text, chosen, budget, self.deal(seed), model, seed) for seed in self.config.all_seeds
        ]
        return _numbers(runs, model, chosen, self.model.dim)

    def _model(self, text: str) -> Model:
        wanted = entry(parse(text)[0]).model
        if not wanted:
            return self.model
        data = self.first.dataset
        outputs = data.classes or 1
        pairs = min(100, max(10, self.model.dim // (2 * _KERNELS * outputs)))  # of about the same size
        return build(
            f"{wanted}(kernels={_KERNELS}, pairs={pairs})", data.sample_shape, data.task, data.classes
        )

    def _run(
        self, text: str, eta: float, budget: float, stream: Stream, model: Model, seed: int | None = None
    ) -> Result:
        terms = Terms(budget, model.dim, stream.clients, stream.steps, features=math.prod(stream.x.shape[1:]))
        method: Method = make(text, terms, step_size=eta)
        first = self.config.seed if seed is None else seed
        what = f"{method.name}, {'step size ' + format(eta, 'g') if seed is None else f'seed {seed}'}"
        self.listener.started(f"{self.config.partition}: {what}", stream.steps)
        result = simulate(method, stream, model, first, progress=lambda done, _: self.listener.advanced(done))
        if seed is not None:
            value = value_text(float(result.curve[-1]), result.metric)
            self.listener.finished(f"{result.metric} {value}, {result.seconds:.1f} s")
        return result


def _share(result: Result, dim: int) -> float:
    """Real uplink bits over those of FedOGD with a model of `dim` parameters."""
    return float(result.bits_wire.sum()) / (32.0 * dim * float(result.present.sum()))


def _numbers(runs: Sequence[Result], model: Model, step_size: float, dim: int) -> dict[str, Any]:
    """A row: means over seeds; memory in bytes per client; time of the fastest seed, whose code was compiled."""
    values = [float(run.curve[-1]) for run in runs]
    finite = all(math.isfinite(value) for value in values) and not any(run.diverged for run in runs)
    method, steps = runs[0].method, runs[0].steps
    kept = method.client.memory(np.zeros(model.dim, np.float32))
    memory = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(kept))
    if method.topology == "separate":
        memory = 4 * model.dim
    return {
        "name": method.name,
        "model": model.name,
        "step_size": step_size,
        "value": fmean(values) if finite else None,
        "std": stdev(values) if finite and len(values) > 1 else None,
        "values": values if finite else None,
        "loss": fmean(run.loss.sum() / run.present.sum() for run in runs) if finite else None,
        "share": fmean(_share(run, dim) for run in runs),
        "uplink": fmean(float(run.bits_wire.sum()) for run in runs),
        "downlink": fmean(float(run.bits_downlink.sum()) for run in runs),
        "memory": memory,
        "milliseconds": 1000 * min(run.seconds for run in runs) / steps,
        "personal": method.client.personal,
        "federated": method.topology == "federated",
    }


def _draw(found: Mapping[str, Any], path: Path) -> None:
    parts, budget = {}, float(found["config"]["budget"])
    for partition, part in found["parts"].items():
        rows = [row for row in part["rows"].values() if row["value"] is not None]
        better = -1 if part["metric"] == "accuracy" else 1
        rows.sort(key=lambda row: better * row["value"])
        parts[partition] = (
            {_label(row, budget): (row["value"], row["std"] or 0.0, _kind(row)) for row in rows},
            {name: value for name, value in part["naive"].items() if name != "constant"},
        )
    first = next(iter(found["parts"].values()))
    title = (
        f"{first['dataset']}: every method at {100 * found['config']['budget']:g} % of FedOGD's uplink bits, "
        f"K = {first['clients']:,}, T = {first['steps']:,}"
    )
    draw_dots(parts, first["metric"], path, title)


def _label(row: Mapping[str, Any], budget: float) -> str:
    """The name, and the real bits of a method that spends others than it may."""
    star = " *" if row["model"] == "random_features" else ""
    fits = not row["federated"] or row["share"] > 0.9 or 0.75 <= row["share"] / budget <= 1.25
    return f"{row['name']}{star}" + ("" if fits else f" ({100 * row['share']:.2g} %)")


def _kind(row: Mapping[str, Any]) -> str:
    if not row["federated"]:
        return "reference"
    if row["share"] > 0.9:
        return "all bits"
    return "personal" if row["personal"] else "common"
