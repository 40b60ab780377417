"""A fleet without a model: clients with given norms, messages of real sizes, and a budget that steers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ofediq.codec.kit import MAX_LEVELS, payload_bits
from ofediq.methods.loudness import loudness, own_step
from ofediq.methods.steering import Budget, Signal

Floats = npt.NDArray[np.float64]
Shape = str  # of an update: which coordinates carry its energy

SHAPES = ("normal", "sparse", "heavy", "signs")
_REACHES = 2.0 ** np.arange(-2, 24, 0.5)


@dataclass(frozen=True)
class Spending:
    """What a run spent: bits and messages of each step, and the signal after it."""

    bits: Floats
    senders: Floats
    signals: tuple[Signal, ...]


def run(
    rule: Budget,
    dim: int,
    clients: int,
    steps: int,
    norms: Callable[[int, np.random.Generator], Any],
    *,
    shape: Shape = "normal",
    alignment: float = 0.3,
    seed: int = 0,
) -> Spending:
    """`steps` rounds of clients whose updates have the norms that `norms(t, rng)` gives, [clients].

    Every message costs what the codec takes for an update of that `shape` and length; `alignment` says how much of
    the updates point in one direction.
    """
    rng = np.random.default_rng(seed)
    sizes = _sizes(dim, shape)
    signal = rule.init(dim, clients)
    bits, senders, signals = [], [], []
    for step in range(1, steps + 1):
        lengths = np.broadcast_to(np.asarray(norms(step, rng), np.float32), (clients,))
        loud = loudness(lengths, signal.value, rule.spread)
        rates = np.where(loud > 0, np.clip(loud, np.float32(2.0**-24), np.float32(1)), np.float32(0))
        sends = rng.random(clients, np.float32) < rates
        sent = lengths[sends] / rates[sends]
        reach = sent.astype(np.float64) / own_step(sent, signal.value, rule.spread)
        cost = np.interp(np.log2(reach), np.log2(_REACHES), sizes).sum()
        total = np.zeros(dim, np.float32)
        total[0] = np.hypot(alignment * sent.sum(), np.sqrt((sent.astype(np.float64) ** 2).sum()))
        signal = rule.next(
            signal, total=total, bits=np.float32(cost), senders=sends.sum(), clients=clients, step=step
        )
        bits.append(cost + rule.extra_bits * sends.sum())
        senders.append(sends.sum())
        signals.append(signal)
    return Spending(np.array(bits), np.array(senders, np.float64), tuple(signals))


def long_run(
    rule: Budget,
    dim: int,
    clients: int,
    steps: int,
    factor: Callable[[Any], Any],
    *,
    shape: Shape = "normal",
    seed: int = 0,
) -> tuple[Floats, Signal]:
    """`run` compiled, for many steps: bits of each, and the signal after each; norms are `factor(t)` in the mean."""
    sizes, one = jnp.asarray(_sizes(dim, shape), jnp.float32), jnp.zeros(dim).at[0].set(1)

    def round_(signal: Signal, step: Any) -> tuple[Signal, tuple[Any, Signal]]:
        sizes_key, draws_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), step))
        lengths = factor(step) * jnp.exp(0.5 * jax.random.normal(sizes_key, (clients,)))
        loud = loudness(lengths, signal.value, rule.spread)
        rates = jnp.where(loud > 0, jnp.clip(loud, 2.0**-24, 1), 0)
        sends = jax.random.uniform(draws_key, (clients,)) < rates
        sent = jnp.where(sends, lengths / jnp.where(sends, rates, 1), 0)
        reach = jnp.log2(jnp.where(sends, sent / own_step(sent, signal.value, rule.spread), 1))
        bits = jnp.where(sends, jnp.interp(reach, np.log2(_REACHES), sizes), 0).sum()
        total = jnp.hypot(0.3 * sent.sum(), jnp.linalg.norm(sent)) * one
        signal = rule.next(signal, total=total, bits=bits, senders=sends.sum(), clients=clients, step=step)
        return signal, (bits, signal)

    start = jax.tree.map(jnp.asarray, rule.init(dim, clients))
    _, (bits, signals) = jax.lax.scan(round_, start, jnp.arange(1, steps + 1))
    return np.asarray(bits, np.float64), jax.tree.map(np.asarray, signals)


@lru_cache(maxsize=64)
def _sizes(dim: int, shape: Shape) -> Floats:
    """Bits of a message of each length in `_REACHES`, as the codec counts them."""
    rng = np.random.default_rng(1)
    direction = rng.standard_normal(dim)
    if shape == "sparse":
        direction[rng.permutation(dim)[max(1, dim // 20) :]] = 0
    if shape == "heavy":
        direction = direction**3
    if shape == "signs":
        direction = np.sign(direction)
    magnitudes = abs(direction) / np.linalg.norm(direction)
    scaled = magnitudes * np.minimum(_REACHES, MAX_LEVELS / magnitudes.max())[:, None]
    symbols = np.floor(scaled + rng.random(scaled.shape)).clip(0, MAX_LEVELS).astype(np.int32)
    norms = np.ones((len(symbols), 1), np.float32)
    return np.asarray(np.minimum(payload_bits(symbols, norms, MAX_LEVELS), 32.0 * dim), np.float64)


def largest_message(dim: int, shape: Shape) -> float:
    """Bits of the finest message there is."""
    return float(_sizes(dim, shape).max())
