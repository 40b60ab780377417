"""Who sends at a transmission step.

Every draw is addressed by (seed, step, client), so a client decides alone, and a server that knows the seed can
tell who is due without a message.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.errors import InputError, require, require_fraction, require_nonnegative, require_positive
from ofediq.methods.budgets.loudness import loudness
from ofediq.methods.pieces import piece
from ofediq.randomness import Address, Purpose, stream_key, uniform, words
from ofediq.settings import Count, Fraction, Positive, Ranged


class Participation(Ranged, abc.ABC):
    """Who sends, and with which probability.

    Attributes:
        independent: whether every client sends with its rate whatever the others, other steps and the updates are.
            Without it no regret bound is claimed.
        foreseeable: whether anyone who knows the seed can tell who sends, without seeing an update.
        signal: the broadcast number that decides with the clients' offers; None for none.
        scheduled: whether steps depend on each other: who has just sent will not send at the next one.
    """

    independent: bool = False
    foreseeable: bool = True
    scheduled: bool = False
    signal: str | None = None

    @property
    def proportional(self) -> tuple[float, float] | None:
        """Spread and floor, if probabilities are those of `NormProportional`; None for any other rule."""
        return None

    @property
    def everyone(self) -> bool:
        """Whether every client always sends."""
        return False

    @abc.abstractmethod
    def rates(self, clients: int) -> Vector:
        """p_k: the probability that client k sends at a transmission step, [clients]."""

    @abc.abstractmethod
    def active(self, seed: Array, step: Array, ids: Array, clients: int) -> Array:
        """Which of the clients `ids` (an array) send at `step`; `clients` is their number in all."""

    def draw(
        self, address: Address, clients: int, offers: Array = None, signal: Array = None
    ) -> tuple[Array, Array]:
        """Who sends, and with which probability, [n] each, of the clients at `address`.

        Where it is not foreseeable, `offers` say how much each has to say and `signal` is the server's number.
        """
        sends = self.active(address.seed, address.step, address.client, clients)
        return sends, namespace(sends).asarray(self.rates(clients))[address.client]


@piece
@dataclass(frozen=True)
class Bernoulli(Participation):
    """Client k sends with probability p_k, independently of the others and of other steps."""

    rate: float | tuple[float, ...]
    independent = True

    def __post_init__(self) -> None:
        rates = self.rate if isinstance(self.rate, tuple) else (self.rate,)
        require(len(rates) > 0, "rate", "must have one entry per client", self.rate)
        for one in rates:
            require_fraction("rate", one)

    @property
    def everyone(self) -> bool:
        """Whether every client always sends."""
        return self.rate == 1.0 if isinstance(self.rate, float) else min(self.rate) == 1.0

    def rates(self, clients: int) -> Vector:
        """p_k of every client."""
        if isinstance(self.rate, float):
            return np.full(clients, self.rate, np.float32)
        if len(self.rate) != clients:
            raise InputError(f"`rate` must have one entry per client ({clients}), got {len(self.rate)}")
        return np.asarray(self.rate, np.float32)

    def active(self, seed: Array, step: Array, ids: Array, clients: int) -> Array:
        """A draw below p_k."""
        draws = uniform(stream_key(seed, step, ids, Purpose.PARTICIPATE), np.zeros(1, np.uint32))
        if isinstance(self.rate, float):
            return draws < np.float32(self.rate)
        return draws < namespace(draws).asarray(self.rates(clients))[ids]


@piece
@dataclass(frozen=True)
class FixedSize(Participation):
    """Exactly floor(K p) clients send, drawn without replacement: the authors' sampling.

    The clients with the smallest random words are the sample, so membership can be recomputed anywhere. The authors
    never have K p < 1. There one client is drawn and sends with probability K p, so that no budget is exceeded.
    """

    rate: Fraction

    @property
    def everyone(self) -> bool:
        """Whether every client always sends."""
        return self.rate == 1.0

    def count(self, clients: int) -> int:
        """The number of clients drawn."""
        return max(1, math.floor(clients * self.rate + 1e-9))

    def rates(self, clients: int) -> Vector:
        """The share of clients that send: what each update must be divided by to be unbiased."""
        return np.full(clients, min(self.rate, self.count(clients) / clients), np.float32)

    def active(self, seed: Array, step: Array, ids: Array, clients: int) -> Array:
        """Membership of the sample of `step`."""
        everyone = np.arange(clients, dtype=np.uint32)
        drawn = words(stream_key(seed, step, everyone, Purpose.PARTICIPATE), np.zeros(1, np.uint32))
        xp = namespace(drawn)
        rank = xp.argsort(xp.argsort(drawn, stable=True), stable=True)
        chosen = rank[ids] < self.count(clients)
        if clients * self.rate >= 1:
            return chosen
        second = uniform(stream_key(seed, step, ids, Purpose.PARTICIPATE), np.ones(1, np.uint32))
        return chosen & (second < np.float32(clients * self.rate))


@piece
@dataclass(frozen=True)
class InTurns(Participation):
    """Clients are dealt into g groups that send one after another, step by step: client k at every g-th step.

    Nobody sends more often than that, whatever happens, so it is known beforehand how much anyone can ever say.

    Attributes:
        groups: g.
    """

    groups: Count
    scheduled = True

    @property
    def everyone(self) -> bool:
        """Whether every client always sends."""
        return self.groups == 1

    def rates(self, clients: int) -> Vector:
        """1 / g."""
        return np.full(clients, 1 / self.groups, np.float32)

    def active(self, seed: Array, step: Array, ids: Array, clients: int) -> Array:
        """Whose turn it is: groups are equal up to one client, and dealt by the seed alone."""
        everyone = np.arange(clients, dtype=np.uint32)
        drawn = words(stream_key(seed, 0, everyone, Purpose.PARTICIPATE), np.zeros(1, np.uint32))
        xp = namespace(drawn)
        rank = xp.argsort(xp.argsort(drawn, stable=True), stable=True)
        return (rank[ids] + step) % self.groups == 0


@piece
@dataclass(frozen=True)
class NormProportional(Participation):
    """Client k sends with probability p_k = min(1, max(floor, ||u_k|| / (spread z))), divided out of its update.

    Unbiased for any z, since z comes from earlier steps. Among all choices with the same expected number of
    senders, p_k proportional to ||u_k|| minimises sum ||u_k||^2 / p_k, the variance of the sum; an update that is
    sent with p_k < 1 has norm spread z, whatever it was before. No probability is
    below `floor`, the smallest that draws can tell apart. `loudness` says what z limits besides.
    """

    spread: Positive
    floor: Fraction = 2.0**-24
    foreseeable = False
    signal = "grid_step"

    @property
    def proportional(self) -> tuple[float, float]:
        """Spread and floor."""
        return self.spread, self.floor

    def rates(self, clients: int) -> Vector:
        """The lowest possible rate: the real ones depend on the updates."""
        return np.full(clients, self.floor, np.float32)

    def probabilities(self, norms: Array, signal: Array) -> Array:
        """p_k of clients whose updates have these norms; nothing to say means nothing is sent."""
        xp = namespace(norms)
        loud = loudness(norms, signal, self.spread)
        return xp.where(loud > 0, xp.clip(loud, np.float32(self.floor), np.float32(1)), np.float32(0))

    def active(self, seed: Array, step: Array, ids: Array, clients: int) -> Array:
        """Not known beforehand."""
        raise InputError("`participation` proportional to norms needs the updates, got none")

    def draw(
        self, address: Address, clients: int, offers: Array = None, signal: Array = None
    ) -> tuple[Array, Array]:
        """A draw below the probability that the offered norm buys."""
        rates = self.probabilities(offers, signal)
        return uniform(address.key(Purpose.PARTICIPATE), np.zeros(1, np.uint32)) < rates, rates


def norm_proportional(spread: float, floor: float = 2.0**-24) -> NormProportional:
    """Send with probability ||u|| / (`spread` z), between `floor` and 1; z is the server's signal.

    >>> from ofediq.methods.budgets.loudness import pack
    >>> norm_proportional(spread=10.0).probabilities(np.array([0.0, 1.0, 50.0], np.float32), pack(1.0))
    array([0. , 0.1, 1. ], dtype=float32)
    """
    return NormProportional(require_positive("spread", spread), require_nonnegative("floor", floor))


def bernoulli(rate: float | Sequence[float]) -> Bernoulli:
    """Each client sends with probability `rate` (p), or client k with `rate[k]` (p_k), independently.

    >>> bernoulli(0.1).rates(3)
    array([0.1, 0.1, 0.1], dtype=float32)
    """
    given: Any = rate  # a text is a sequence, too
    if isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str):
        return Bernoulli(tuple(require_nonnegative("rate", one) for one in given))
    return Bernoulli(require_fraction("rate", given))


def fixed_size(rate: float) -> FixedSize:
    """Exactly floor(K `rate`) clients send, drawn without replacement; one now and then where K `rate` < 1.

    >>> int(fixed_size(0.25).active(0, 1, np.arange(8), 8).sum())
    2
    """
    return FixedSize(require_fraction("rate", rate))


def in_turns(groups: int) -> InTurns:
    """`groups` groups of clients send one after another.

    >>> [int(in_turns(4).active(0, step, np.arange(8), 8).sum()) for step in (1, 2, 3, 4)]
    [2, 2, 2, 2]
    """
    return InTurns(groups)


def everyone() -> Bernoulli:
    """All clients send at every transmission step."""
    return Bernoulli(1.0)
