"""`Swarm`: a federation in one process that takes samples as they come, one client after another.

`simulate` knows the whole stream; a swarm does not. It is what the estimators for River and scikit-learn learn with:
NumPy only, `methods.round` and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Flags, Floats, Numbers, Vector, column, map_leaves
from ofediq.errors import InputError, require, require_integer, require_kind
from ofediq.methods import Method, at_budget, untuned
from ofediq.methods import round as rounds
from ofediq.methods.client import Outcome
from ofediq.methods.robust.scales import Scales
from ofediq.methods.server.rule import Totals
from ofediq.models import Model, linear, softmax
from ofediq.randomness import Address
from ofediq.streams.cells import NO_NUMBER
from ofediq.streams.features.readings import known
from ofediq.streams.features.running import RunningMoments, no_moments, scaled, update


class Swarm:
    """K clients and a server, fed sample by sample.

    A step is over when every client has had a sample, or one a second one; `method.period` steps are a window.

    >>> from ofediq import methods, models
    >>> swarm = Swarm(methods.fedogd(0.1), models.linear(features=1), clients=2)
    >>> for step in range(40):
    ...     x = np.array([step % 5 - 2.0], np.float32)
    ...     swarm.learn(step % 2, x, 3 * x[0])
    >>> round(float(swarm.predict(0, np.array([1.0], np.float32))), 1), swarm.bits_wire
    (3.0, 2560.0)

    Attributes:
        method: how they learn.
        model: what they learn.
        clients: K.
        bits_wire: uplink bits so far, as encoded.
        bits_each: the same of each client, [K].
        bits_downlink: bits of all broadcasts so far, each counted once.
    """

    def __init__(
        self, method: Method, model: Model, clients: int, *, seed: int = 0, initial: Vector | None = None
    ) -> None:
        require_kind(Method, "method", method)
        require_kind(Model, "model", model)
        require_integer("clients", clients, 1)
        require_integer("seed", seed, 0, 2**32 - 1)
        require(method.topology == "federated", "method", "must be federated", method.name)
        self.method, self.model, self.clients, self.seed = method, model, clients, seed
        self.bits_wire = self.bits_downlink = 0.0
        self.bits_each = np.zeros(clients)
        self.step = 0
        first = model.initial(seed) if initial is None else initial
        self._state = rounds.first_state(method, first, clients)
        self._memory = rounds.first_memory(method, first, clients)
        self._scales = Scales(method, clients, model.dim) if method.combine.remembers else None
        self._waiting: dict[int, tuple[Vector, Any]] = {}
        self._open()

    @property
    def params(self) -> Vector:
        """w, the server's model."""
        return np.asarray(self._state.params)

    def predict(self, client: int, x: npt.ArrayLike) -> Any:
        """A client's prediction for one sample: a class, or a number."""
        row = np.asarray(x, np.float32)[None]
        return np.asarray(self.model.predict_mixture(self._experts(client), row))[0].item()

    def probabilities(self, client: int, x: npt.ArrayLike) -> Vector | None:
        """The probability of each class, or None for a number."""
        found = self.model.probabilities(self._experts(client), np.asarray(x, np.float32)[None])
        return None if found is None else np.asarray(found)[0]

    def learn(self, client: int, x: npt.ArrayLike, y: Any) -> None:
        """One labelled sample of a client."""
        require(0 <= client < self.clients, "client", f"must be from 0 to {self.clients - 1}", client)
        if client in self._waiting:
            self._advance()
        self._waiting[client] = (np.asarray(x, np.float32), y)
        if len(self._waiting) == self.clients:
            self._advance()

    def _experts(self, client: int) -> Any:
        """What one client predicts with: its rows of what all of them have."""
        all_of_them = self.method.client.experts(self._window, self._down, self._memory)
        one = slice(client, client + 1)
        return tuple(
            (weight[one] if np.ndim(weight) else weight, params[one] if np.ndim(params) == 2 else params)
            for weight, params in all_of_them
        )

    def _open(self) -> None:
        self._end = self.step + self.method.window(self.step)
        address = Address(self.seed, self._end, np.arange(self.clients))
        self._down = self._state.down._replace(address=address)
        self._window = rounds.open_window(self.method, self._down, self._memory, self.clients)

    def _advance(self) -> None:
        """One step with the samples that wait; those without one are absent."""
        who = np.array(sorted(self._waiting))
        rows = np.stack([self._waiting[int(k)][0] for k in who])
        labels = np.asarray([self._waiting[int(k)][1] for k in who])
        x, y = np.zeros((self.clients, *rows.shape[1:]), np.float32), np.zeros(self.clients, labels.dtype)
        x[who], y[who] = rows, labels
        if self.model.task == "regression":
            y = y.astype(np.float32)
        present = np.isin(np.arange(self.clients), who)
        self._waiting = {}
        self.take(x, y, present, judged=self.method.client.personal)

    def take(self, x: Numbers, y: Numbers, present: Flags, *, judged: bool = True) -> Floats | None:
        """One step with a sample for every client; returns the errors of their predictions, [K], if `judged`.

        Arguments:
            x: the samples, [K, ...]; those of absent clients may be anything.
            y: their targets, [K].
            present: who has one, [K].
            judged: whether everyone predicts first; personal methods must.
        """
        errors, losses = None, ()
        with np.errstate(over="ignore", invalid="ignore"):  # a model that diverges says so in its predictions
            if judged:
                _, found, losses = rounds.predict(
                    self.method, self.model, self._window, x, y, self._down, self._memory
                )
                errors = np.where(present, np.asarray(found, np.float64), 0.0)
            self._window = rounds.learn(
                self.method,
                self._window,
                lambda at: np.asarray(self.model.client_gradients(at, x, y)),
                present,
                self._down,
                self._memory,
                losses,
            )
            self.step += 1
            if self.step == self._end:
                self._close()
        return errors

    def _close(self) -> None:
        """The end of a window: who sends, what arrives, and what everyone knows then."""
        method, down = self.method, self._down
        address = Address(self.seed, self.step, np.arange(self.clients))
        wanted, sends = rounds.decide(method, self._window, down, self._memory, address, self.clients)
        # As live: an update that is not finite is nothing to send.
        fine = [np.isfinite(vector).all(axis=1) for vector in wanted.values()]
        sends = np.logical_and.reduce([np.asarray(sends), *fine])
        arrived = {name: np.zeros_like(vector) for name, vector in wanted.items()}
        bits = np.zeros(self.clients, np.float32)
        if sends.any():
            who = np.flatnonzero(sends)
            some = {name: vector[who] for name, vector in wanted.items()}
            decoded, each = rounds.transmit(method, some, down, Address(self.seed, self.step, who))
            bits[who] = each
            for name, vectors in decoded.items():
                arrived[name][who] = vectors
        totals, counted = self._totals(arrived, sends, bits)
        outcome = Outcome(wanted, arrived, counted)
        settled = rounds.settle(method, self._memory, self._window, outcome, down)
        if method.client.idle:  # a rule that leaves out who does not send
            settled = map_leaves(
                lambda new, old: np.where(column(sends, new), new, old), settled, self._memory
            )
        self._memory = settled
        self._state, back = rounds.server_round(method, self._state, totals, np.uint32(self.seed))
        self.bits_each += bits
        self.bits_wire += float(bits.sum(dtype=np.float64))
        self.bits_downlink += float(back)
        self._open()

    def _totals(self, arrived: dict[str, Vector], sends: Flags, bits: Vector) -> tuple[Totals, Flags]:
        """What the server gets of what `arrived`, by name, with so many bits of each; and whose counted."""
        if self._scales is not None:
            return self._scales.totals(self._down, arrived, sends, bits, step=self.step)
        vectors = {
            name: self.method.combine.total(one, sends) if name == "update" else sends @ one
            for name, one in arrived.items()
        }
        counted, cost = np.int32(sends.sum()), np.float32(bits.sum(dtype=np.float64))
        return Totals(vectors, counted, cost, self.clients, np.int32(self.step), np.uint32(self.seed)), sends


class ScaledSwarm:
    """A `Swarm` on rows of numbers in any unit: each client scales readings and targets by what it has seen.

    The step size is found on the way (`methods.untuned`), so there is nothing to tune. The estimators for River and
    scikit-learn are made of it.

    Args:
        method: a name, as for `ofediq run --methods`.
        features: how many readings a row has.
        classes: how many labels there are; None for a number.
        clients: K.
        budget: share of FedOGD's uplink bits.
        seed: of all draws.
    """

    def __init__(
        self, method: str, features: int, classes: int | None, clients: int, budget: float, seed: int
    ) -> None:
        model = linear(features) if classes is None else softmax(features, classes)
        chosen = at_budget(method, budget, model.dim, clients, steps=_HORIZON)
        outputs, busy = (1, features) if classes is None else (0, None)
        fitted = untuned(chosen, clients=clients, outputs=outputs, busy=busy)
        self.swarm = Swarm(fitted, model, clients, seed=seed)
        self.readings = no_moments(clients, features)
        self.targets = no_moments(clients)

    @property
    def regression(self) -> bool:
        """Whether a number is predicted."""
        return self.swarm.model.task == "regression"

    def predict(self, client: int, row: Floats) -> Any:
        """A label's place or a number; the mean so far where nothing else is known."""
        answer = self.swarm.predict(client, self._scaled(client, row))
        if not self.regression:
            return answer
        return float(self.targets.mean[client] + self.targets.deviation[client] * answer)

    def probabilities(self, client: int, row: Floats) -> Vector:
        """Of the labels."""
        found = self.swarm.probabilities(client, self._scaled(client, row))
        assert found is not None  # a classification
        return found

    def learn(self, client: int, row: Floats, target: Any) -> None:
        """One row with its target; it is scaled by what came before it and by itself."""
        if self.regression and not abs(target) < NO_NUMBER:  # one of them would end the model of all
            raise InputError(f"`y` must be finite and less than {NO_NUMBER:g} in size, got {target!r}")
        row = known(row)
        self.readings = _put(self.readings, client, row)
        if self.regression:
            self.targets = _put(self.targets, client, np.float64(target))
            width = self.targets.deviation[client]
            target = (target - self.targets.mean[client]) / width if width > 0 else 0.0
            target = min(max(target, -_LIMIT), _LIMIT)
        self.swarm.learn(client, self._scaled(client, row), target)

    def _scaled(self, client: int, row: Floats) -> Vector:
        found = scaled(known(row), self.readings.mean[client], self.readings.deviation[client], _LIMIT)
        return found.astype(np.float32)


_HORIZON = 10_000  # steps over which a steered method plans its budget
_LIMIT = 5.0  # deviations at which a reading or a target is cut


def _put(moments: RunningMoments, client: int, values: Any) -> RunningMoments:
    """`moments` with one client's values taken in."""
    one = update(RunningMoments(*(part[client] for part in moments)), values, horizon=1e4)
    parts = [part.copy() for part in moments]
    for part, new in zip(parts, one, strict=True):
        part[client] = new
    return RunningMoments(*parts)
