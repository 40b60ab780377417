"""Private methods: the server rule that keeps a promise, and what a promise asks of a method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ofediq.arrays import Array, namespace
from ofediq.errors import require_integer
from ofediq.methods.composition import Method
from ofediq.methods.pieces import piece
from ofediq.methods.server import ServerRule, Totals
from ofediq.theory.privacy import Promise


@piece
@dataclass(frozen=True)
class Promised(ServerRule):
    """`inner` moves the model, if enough messages were added up, and as long as the promise lasts.

    Each member adds its share of the noise. A sum of fewer than `least` messages has too little of it, and one after
    `horizon` was not accounted for: both leave everything as it is. A server with secure aggregation cannot even read
    them.

    Attributes:
        inner: the rule that moves the model.
        least: how many messages make the noise that was promised.
        promise: what is kept; None if nothing is promised and sums are only kept from being small.
        horizon: the last step that was accounted for; None for no end.
    """

    inner: ServerRule
    least: int
    promise: Promise | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        require_integer("least", self.least, 1)

    @property
    def name(self) -> str:
        """The name of the rule that moves the model."""
        return self.inner.name

    @property
    def descent(self) -> float | None:
        """As the wrapped rule says."""
        return getattr(self.inner, "descent", None)

    @property
    def vectors(self) -> tuple[str, ...]:  # type: ignore[override]  # what the wrapped rule says
        """As the wrapped rule."""
        return self.inner.vectors

    @property
    def scalars(self) -> tuple[str, ...]:  # type: ignore[override]  # what the wrapped rule says
        """As the wrapped rule."""
        return self.inner.scalars

    def start(self, params: Array) -> Array:
        """As the wrapped rule."""
        return self.inner.start(params)

    def init(self, params: Array) -> Any:
        """As the wrapped rule."""
        return self.inner.init(params)

    def begin(self, params: Array, clients: int, period: int) -> Any:
        """As the wrapped rule."""
        return self.inner.begin(params, clients, period)

    def regroup(self, params: Array, clients: int, state: Any) -> Any:
        """As the wrapped rule."""
        return self.inner.regroup(params, clients, state)

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """As the wrapped rule."""
        return self.inner.apply(params, total, clients, state)

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """As the wrapped rule; a round that breaks the promise is an empty one."""
        xp = namespace(params)
        kept = totals.senders >= self.least
        if self.horizon is not None:
            kept = kept & (totals.step <= self.horizon)
        senders = xp.where(kept, totals.senders, 0)
        return self.inner.close(params, totals._replace(senders=senders), period, state)

    def around(self, rule: ServerRule) -> ServerRule:
        """The same promise around another rule."""
        return replace(self, inner=self.inner.around(rule))

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """As the wrapped rule."""
        return self.inner.say(params, state)


def promise_of(method: Method) -> Promise | None:
    """What `method` promises, if anything.

    >>> from ofediq.methods import fedogd
    >>> promise_of(fedogd()) is None
    True
    """
    promise: Promise | None = getattr(method.server, "promise", None)
    return promise
