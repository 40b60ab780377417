"""Contracts of who sends: as often as stated, and anyone can tell who it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from ofediq.methods.budgets.loudness import pack
from ofediq.randomness import Address
from ofediq.testing.case import SEED, STEP, Case
from ofediq.testing.compare import compiled, demand, likely

_STEPS = 2000


def rates_are_probabilities(case: Case) -> str:
    """`rates` holds one probability in (0, 1] for every client."""
    clients = case.stream.clients
    rates = np.asarray(case.method.participation.rates(clients))
    demand(rates.shape == (clients,), f"`rates` must have shape ({clients},), got {rates.shape}.")
    demand(
        bool(((rates > 0) & (rates <= 1)).all()),
        f"`rates` must lie in (0, 1], got {rates.min():g} to {rates.max():g}.",
    )
    demand(
        not case.method.participation.everyone or bool((rates == 1).all()),
        f"`everyone` is True, but the lowest rate is {rates.min():g}.",
    )
    return f"{clients} clients."


def rates_match_draws(case: Case) -> str:
    """Every client sends as often as its rate says, independently from step to step unless it is `scheduled`."""
    rates, drawn = _rates_and_draws(case)
    odd, even = drawn[0::2], drawn[1::2]
    both, pairs = (odd & even).sum(0), _STEPS // 2
    chance = stats.hypergeom(pairs, odd.sum(0), even.sum(0))  # of both, given how often each sends
    apart = np.ones(len(rates), bool) if case.method.participation.scheduled else likely(both, chance)
    for client in np.flatnonzero(~apart)[:1]:
        demand(
            False,
            f"client {client} sends at both of two steps {both[client]} times in {pairs}, where independent draws "
            f"would do so {chance.mean()[client]:.0f} times.",
        )
    for client in np.flatnonzero(~likely(drawn.sum(0), stats.binom(_STEPS, rates)))[:1]:
        demand(
            False,
            f"client {client} sends with rate {rates[client]:.4g} by `rates`, but at "
            f"{drawn[:, client].mean():.4g} of {_STEPS} steps: updates are divided by the rate, so the model would "
            "be biased.",
        )
    return f"{_STEPS} steps, exact tails: a false alarm in a billion for each client."


def draws_are_addressed(case: Case) -> str:
    """A client alone, a server and the compiled simulator draw the same, in any order."""
    ids = np.arange(case.stream.clients)
    active = _active(case)
    together = active(SEED, STEP, ids)
    turned = active(SEED, STEP, ids[::-1].copy())[::-1]
    demand(bool((together == turned).all()), "who sends depends on the order in which clients are asked.")
    active(SEED, STEP + 1, ids)
    alone = [bool(active(SEED, STEP, np.array([k]))[0]) for k in ids]
    demand(together.tolist() == alone, "a client alone does not draw what it draws together with others.")
    rates, drawn = _rates_and_draws(case)
    if ((rates > 0) & (rates < 1)).any():
        other = np.array([active(SEED + 1, step, ids) for step in range(1, _STEPS + 1)])
        demand(bool((drawn != other).any()), "who sends does not depend on the seed.")
        demand(len(np.unique(drawn, axis=0)) > 1, "who sends does not depend on the step.")
    return "alone, together, in reverse, after other calls."


def same_in_jax(case: Case) -> str:
    """NumPy on a device and JAX in the simulator choose the same clients."""
    piece, clients = case.method.participation, case.stream.clients
    ids = np.arange(clients, dtype=np.int32)
    here = _active(case)(SEED, STEP, ids)
    offers, signal = _offers(case)

    def senders(seed: Any, step: Any, numbers: Any) -> Any:
        return piece.draw(Address(seed, step, numbers), clients, offers, signal)[0]

    there = compiled("participation", senders)(np.uint32(SEED), np.int32(STEP), ids)
    demand(bool((here == there).all()), "other clients send in JAX than in NumPy.")
    return f"{clients} clients inside jax.jit."


def _rates_and_draws(case: Case) -> tuple[Any, Any]:
    """Stated probabilities, [clients], and who sends at steps 1, 2, ..., [steps, clients]."""
    piece, ids = case.method.participation, np.arange(case.stream.clients)
    rates = np.asarray(piece.draw(Address(SEED, STEP, ids), len(ids), *_offers(case))[1], np.float64)
    active = _active(case)
    return rates, np.array([active(SEED, step, ids) for step in range(1, _STEPS + 1)])


def _active(case: Case) -> Any:
    """(seed, step, ids) -> who of them sends; for a participation that looks at offers, with offers of all sizes."""
    piece, clients = case.method.participation, case.stream.clients
    offers, signal = _offers(case)

    def active(seed: Any, step: Any, ids: Any) -> Any:
        some = None if offers is None else offers[ids]
        return np.asarray(piece.draw(Address(seed, step, ids), clients, some, signal)[0])

    return active


def _offers(case: Case) -> tuple[Any, Any]:
    """Offers that make all probabilities from none to one, and a signal of 1; None where nobody looks at them."""
    piece = case.method.participation
    if piece.foreseeable:
        return None, None
    most = 1.2 * (piece.proportional or (1.0,))[0]
    return np.linspace(0, most, case.stream.clients).astype(np.float32), pack(1.0)
