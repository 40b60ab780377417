"""`Steered`: a server rule that wraps another one and broadcasts the number that keeps a bit budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ofediq.arrays import Array
from ofediq.methods.budgets.loudness import pack
from ofediq.methods.budgets.steering import Budget
from ofediq.methods.composition import Method
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import Keeping, ServerRule, Totals
from ofediq.wrapping import of_inner


class Steering(Protocol):
    """What moves z: a `Budget`, or another rule whose state has the broadcast number as `value`."""

    def init(self, dim: int, clients: int, period: int = 1) -> Any:
        """Before the first round."""

    def regroup(self, signal: Any, dim: int, clients: int) -> Any:
        """For another number of clients."""

    @property
    def next(self) -> Callable[..., Any]:
        """After a round: see `Budget.next`."""


class SteeredState(NamedTuple):
    """What the wrapped rule keeps, and what the budget keeps."""

    inner: Any
    signal: Any


class Fixed(NamedTuple):
    """What `Still` keeps."""

    value: Array


@piece
@dataclass(frozen=True)
class Still:
    """A grid that never changes, for comparisons in which two runs must see the same one; nobody is too loud.

    Attributes:
        value: z.
    """

    value: float

    def init(self, *_: Any, **__: Any) -> Fixed:
        """z."""
        return Fixed(pack(np.float32(self.value)))

    def next(self, signal: Fixed, *_: Any, **__: Any) -> Fixed:
        """The same z."""
        return signal

    def regroup(self, signal: Fixed, *_: Any) -> Fixed:
        """The same z."""
        return signal


@piece
@dataclass(frozen=True)
class Steered(Keeping):
    """`inner` moves the model; `budget` moves z, also after rounds in which nobody sent.

    Attributes:
        budget: what may be spent, and how z follows it.
    """

    budget: Steering
    descent = of_inner()

    @property
    def scalars(self) -> tuple[str, ...]:  # type: ignore[override]  # derived here, an attribute in the base class
        """Those of the inner rule, and z."""
        return (*self.inner.scalars, "grid_step")

    def begin(self, params: Array, clients: int, period: int) -> SteeredState:
        """Both states before the first round."""
        inner = self.inner.begin(params, clients, period)
        return SteeredState(inner, self.budget.init(params.shape[-1], clients, period))

    def regroup(self, params: Array, clients: int, state: Any) -> Any:
        """The budget shared out among another number of clients."""
        signal = self.budget.regroup(state.signal, params.shape[-1], clients)
        return SteeredState(self.inner.regroup(params, clients, state.inner), signal)

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """The wrapped rule on what arrived, then the next z."""
        params, inner = self.inner.close(params, totals, period, state.inner)
        signal = self.budget.next(
            state.signal,
            total=totals.vectors["update"],
            bits=totals.bits,
            senders=totals.senders,
            clients=totals.clients,
            step=totals.step,
            period=period,
        )
        return params, SteeredState(inner, signal)

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """What the wrapped rule says, and z."""
        vectors, scalars = super().say(params, state)
        return vectors, {**scalars, "grid_step": state.signal.value}


def steered(inner: ServerRule, budget: Steering) -> Steered:
    """`inner`, with the number that steers `budget` in every broadcast."""
    return Steered(inner, budget)


def budget_of(method: Method) -> Budget | None:
    """The budget that the server of `method` steers to; None if it steers to none."""
    rule = method.server.part(Steered)
    return rule.budget if rule is not None and isinstance(rule.budget, Budget) else None


def attended(method: Method, share: float) -> Method:
    """`method` where only a `share` of the clients has a sample at a step: FedOGD sends nothing for the others.

    A budget in bits per step is then that share of it, or who is there would spend everybody's. A method whose
    clients send when they are told to needs nothing.

    >>> from ofediq.methods import ofedgrid
    >>> rule = attended(ofedgrid(bits_per_step=1000.0), 0.25).server.budget
    >>> rule.bits_per_step, rule.attendance
    (250.0, 0.25)
    """
    budget = budget_of(method)
    if budget is None or share >= 1:
        return method
    bits = share * budget.bits_per_step
    return _steering(method, replace(budget, bits_per_step=bits, attendance=share * budget.attendance))


def for_each(method: Method, clients: int) -> Method:
    """`method`, whose budget was made for `clients`, with as much for each however many will come.

    >>> from ofediq.methods import ofedgrid
    >>> for_each(ofedgrid(bits_per_step=1000.0), 4).server.budget.bits_per_step
    250.0
    """
    budget = budget_of(method)
    if budget is None:
        return method
    return _steering(method, replace(budget, bits_per_step=budget.bits_per_step / clients, each=True))


def _steering(method: Method, budget: Budget) -> Method:
    """`method` with another budget, where its server steers to one."""
    server = method.server
    return replace(method, server=replace(server, budget=budget)) if isinstance(server, Steered) else method
