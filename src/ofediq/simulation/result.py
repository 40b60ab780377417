"""`Result`: what one run of one method recorded, step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ofediq.arrays import Floats, Vector
from ofediq.drift import alarms
from ofediq.errors import InputError, extra
from ofediq.methods.budgets.connection import Connection
from ofediq.methods.privacy import promise_of

if TYPE_CHECKING:
    from ofediq.methods import Method
    from ofediq.models import Model
    from ofediq.simulation.comparator import Comparator
    from ofediq.simulation.regret import DynamicRegret, Regret
    from ofediq.streams import Stream


@dataclass(frozen=True, eq=False)
class Result:
    """One method on one stream with one seed. Arrays have one entry per step, summed over the clients present.

    Attributes:
        method: what ran.
        model: the model that learnt.
        stream: the stream it learnt from.
        seed: of participation, quantisation and the model's start.
        loss: sum of the losses that the clients suffered.
        error: sum of the errors: mistakes in classification, squared errors in regression.
        present: number of clients with a sample.
        senders: number of clients that sent.
        bits_formula: uplink bits by the paper's formula.
        bits_wire: uplink bits of the encoded payloads.
        bits_downlink: bits of what the server broadcasts, counted once per broadcast, with 32 for a signal.
        params: the model after the last step ([clients, dim] if each client learnt alone).
        seconds: wall-clock time, compilation included.
        initial: the parameters that it started from; None for the model's own, `model.initial(seed)`.
        engine: what computed it, and why not something faster.
    """

    method: Method
    model: Model
    stream: Stream
    seed: int
    loss: Floats
    error: Floats
    present: Floats
    senders: Floats
    bits_formula: Floats
    bits_wire: Floats
    bits_downlink: Floats
    params: Vector
    seconds: float
    initial: Vector | None = None
    engine: str = "plain loop"

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method.name

    @property
    def steps(self) -> int:
        """Number of steps recorded."""
        return len(self.loss)

    @property
    def metric(self) -> str:
        """What the task is measured by: accuracy or mse."""
        return "accuracy" if self.model.task == "classification" else "mse"

    @cached_property
    def running_error(self) -> Floats:
        """Mean error over all predictions so far."""
        return np.cumsum(self.error) / np.maximum(np.cumsum(self.present), 1)

    @property
    def accuracy(self) -> Floats:
        """Accuracy(t) of the paper: share of right predictions up to each step."""
        self._needs("classification", "accuracy")
        return 1.0 - self.running_error

    @property
    def mse(self) -> Floats:
        """MSE(t) of the paper: mean squared error of the predictions up to each step."""
        self._needs("regression", "mse")
        return self.running_error

    @property
    def curve(self) -> Floats:
        """Accuracy(t) or MSE(t), whichever the task has."""
        return self.accuracy if self.metric == "accuracy" else self.mse

    @cached_property
    def bytes_total(self) -> Floats:
        """Bytes on all clients' sockets at each step, up and down, frames and acknowledgements included.

        As live over MQTT by a clock, once the clients have joined: see `methods.budgets.connection`.
        """
        return Connection().total(
            self.method,
            self.model.dim,
            self.stream.clients,
            senders=self.senders,
            wire=self.bits_wire,
            downlink=self.bits_downlink,
        )

    @property
    def ccr(self) -> float:
        """Communication-cost reduction: 1 - bits by the formula / bits of FedOGD on the same stream."""
        return 1.0 - float(self.bits_formula.sum()) / (32.0 * self.model.dim * float(self.present.sum()))

    @property
    def diverged(self) -> bool:
        """Whether a loss left the range of finite numbers."""
        return not math.isfinite(float(self.loss.sum()))

    def regret(self, tolerance: float = 1e-6, comparator: Comparator | None = None) -> Regret:
        """Regret against the best fixed model in hindsight, and the theorem's bound beside it.

        Args:
            tolerance: for `hindsight`.
            comparator: the best model in hindsight of the same stream and model, where it is known already.
        """
        from ofediq.simulation.regret import regret_of

        return regret_of(self, tolerance, comparator)

    def dynamic_regret(self, window: int, tolerance: float = 1e-6) -> DynamicRegret:
        """Regret against the best model of each window of `window` steps, for streams that drift.

        One window as long as the run gives `regret`; shorter ones are harder to follow, so this is never smaller at
        the end. No theorem of the paper bounds it.

        Args:
            window: steps in a window; the last one may be shorter.
            tolerance: for `hindsight`.

        >>> from ofediq import methods, models, simulate, streams
        >>> stream = streams.synthetic(task="regression", clients=10, steps=100, features=3, drift="abrupt")
        >>> result = simulate(methods.fedogd(0.1), stream, models.linear(3))
        >>> moving = result.dynamic_regret(window=10)
        >>> bool(moving.curve[-1] > result.regret().curve[-1]), len(moving.comparators)
        (True, 10)
        """
        from ofediq.simulation.regret import dynamic_regret_of

        return dynamic_regret_of(self, window, tolerance)

    @cached_property
    def drift(self) -> list[int]:
        """The steps after which errors have risen by more than chance allows (`ofediq.drift`)."""
        known = self.present > 0
        steps = np.flatnonzero(known) + 1
        return [int(steps[found - 1]) for found in alarms(self.error[known] / self.present[known])]

    def summary(self) -> dict[str, Any]:
        """The run in a few numbers, JSON-ready."""
        predictions, promise = float(self.present.sum()), promise_of(self.method)
        return {
            self.metric: finite(float(self.curve[-1])),
            f"recent_{self.metric}": finite(self._recent()),
            "loss": finite(float(self.loss.sum()) / predictions),
            "bits_formula": float(self.bits_formula.sum()),
            "bits_wire": float(self.bits_wire.sum()),
            "bits_downlink": float(self.bits_downlink.sum()),
            "bytes_total": float(self.bytes_total.sum()),
            "ccr": self.ccr,
            "ccr_wire": 1.0 - float(self.bits_wire.sum()) / (32.0 * self.model.dim * predictions),
            "epsilon": None if promise is None else promise.epsilon,
            "senders_per_step": float(self.senders.mean()),
            "steps": self.steps,
            "diverged": self.diverged,
            "engine": self.engine,
            "seconds": round(self.seconds, 3),
        }

    def table(self) -> dict[str, Any]:
        """Columns of the per-step table: one row per step."""
        return {
            "method": [self.name] * self.steps,
            "seed": np.full(self.steps, self.seed),
            "step": np.arange(1, self.steps + 1),
            self.metric: self.curve,
            "loss": self.loss,
            "error": self.error,
            "present": self.present.astype(np.int64),
            "senders": self.senders.astype(np.int64),
            "bits_formula": self.bits_formula,
            "bits_wire": self.bits_wire,
            "bits_downlink": self.bits_downlink,
            "bytes_total": self.bytes_total,
        }

    def to_pandas(self) -> Any:
        """The per-step table as a pandas DataFrame."""
        return extra("pandas", "sim").DataFrame(self.table())

    def _recent(self) -> float:
        """The metric over the last tenth of the steps: what a running mean hides when the stream changes."""
        last = slice(-max(1, self.steps // 10), None)
        predictions = float(self.present[last].sum())
        error = float(self.error[last].sum()) / predictions if predictions else math.nan
        return 1 - error if self.metric == "accuracy" else error

    def _needs(self, task: str, what: str) -> None:
        if self.model.task != task:
            raise InputError(f"`{what}` needs a {task} task, got {self.model.task}")


def finite(value: float) -> float | None:
    """JSON has no NaN and no infinity: a diverged value is null."""
    return value if math.isfinite(value) else None
