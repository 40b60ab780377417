"""A fleet without a model: clients with given norms, messages of real sizes, and a budget that steers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ofediq.codec.kit import MAX_LEVELS, class_counts
from ofediq.codec.schemes.grid import grid_bits
from ofediq.methods.budgets.loudness import loudness, own_step, unpack
from ofediq.methods.budgets.steering import Arrived, Budget, Signal

Floats = npt.NDArray[np.float64]
Shape = str  # of an update: which coordinates carry its energy

SHAPES = ("normal", "sparse", "heavy", "signs")
REACHES = 2.0 ** np.arange(-4, 24, 0.5)
_ROUNDINGS = 8  # over which the size of a message is averaged


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
    sizes = message_sizes(dim, shape)
    signal = rule.init(dim, clients)
    bits, senders, signals = [], [], []
    for step in range(1, steps + 1):
        lengths = np.broadcast_to(np.asarray(norms(step, rng), np.float32), (clients,))
        loud = loudness(lengths, signal.value, rule.spread)
        rates = np.where(loud > 0, np.clip(loud, np.float32(2.0**-24), np.float32(1)), np.float32(0))
        sends = rng.random(clients, np.float32) < rates
        sent = lengths[sends] / rates[sends]
        grids = own_step(sent, signal.value, rule.spread)
        reach = np.log2(sent.astype(np.float64) / grids)
        plain, own = (np.interp(reach, np.log2(REACHES), size) for size in sizes)
        cost = np.where(grids > unpack(signal.value)[0], own, plain).sum()
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
    rule: Budget, dim: int, clients: int, steps: int, factor: Callable[[Any], Any]
) -> tuple[Floats, Signal]:
    """`run` compiled, for many steps: bits of each, and the signal after each; norms are `factor(t)` in the mean."""
    sizes = jnp.asarray(message_sizes(dim, "normal"), jnp.float32)

    def round_(signal: Signal, step: Any) -> tuple[Signal, tuple[Any, Signal]]:
        sizes_key, draws_key = jax.random.split(jax.random.fold_in(jax.random.key(0), step))
        lengths = factor(step) * jnp.exp(0.5 * jax.random.normal(sizes_key, (clients,)))
        loud = loudness(lengths, signal.value, rule.spread)
        rates = jnp.where(loud > 0, jnp.clip(loud, 2.0**-24, 1), 0)
        sends = jax.random.uniform(draws_key, (clients,)) < rates
        sent = jnp.where(sends, lengths / jnp.where(sends, rates, 1), 0)
        grids = own_step(sent, signal.value, rule.spread)
        reach = jnp.log2(jnp.where(sends, sent / grids, 1))
        plain, own = (jnp.interp(reach, np.log2(REACHES), size) for size in sizes)
        bits = jnp.where(sends, jnp.where(grids > unpack(signal.value)[0], own, plain), 0).sum()
        size = jnp.hypot(0.3 * sent.sum(), jnp.linalg.norm(sent))
        came = Arrived(bits, sends.sum().astype(jnp.float32), jnp.float32(clients), size, dim)
        signal = rule.after(signal, came, step, 1)
        return signal, (bits, signal)

    start = jax.tree.map(jnp.asarray, rule.init(dim, clients))
    _, (bits, signals) = jax.lax.scan(round_, start, jnp.arange(1, steps + 1))
    return np.asarray(bits, np.float64), jax.tree.map(np.asarray, signals)


class Lanes(NamedTuple):
    """Fleets of equal size beside each other, each with a course of its own; clients are in groups of equal norms."""

    factors: Callable[
        [int], Any
    ]  # [lanes, groups] in step t: norms in the mean; 0 of those who are not there
    uneven: Any  # [lanes]: how far the groups' norms lie apart, as the deviation of their logarithm
    alignment: Any  # [lanes]
    sizes: Any  # [lanes, 2, reaches]: see `message_sizes`


class Course(NamedTuple):
    """What fleets spent in each step, [lanes, steps] each, and whether all numbers of the signal were finite."""

    bits: Any
    senders: Any
    finite: Any
    step: Any  # z
    loudest: Any


def run_lanes(rule: Budget, dim: int, members: Any, steps: int, lanes: Lanes, seed: int = 0) -> Course:
    """`run` for many fleets at once, of groups with so many `members` each."""
    rng, count = np.random.default_rng(seed), len(lanes.uneven)
    clients, uneven = np.float32(sum(members)), np.asarray(lanes.uneven)[:, None]
    first = rule.init(dim, int(clients))
    signal = Signal(*(np.full(count, part, np.float32) for part in first))
    course = Course(*(np.zeros((steps, count)) for _ in Course._fields))
    for step in range(1, steps + 1):
        apart = np.exp(uneven * rng.standard_normal((count, len(members))))
        lengths = np.minimum(lanes.factors(step) * apart, 1e37).astype(np.float32)
        value = signal.value[:, None]
        loud = loudness(lengths, value, rule.spread)
        rates = np.where(loud > 0, np.clip(loud, np.float32(2.0**-24), np.float32(1)), np.float32(0))
        sends = rng.binomial(members, rates)
        sent = np.minimum(lengths / np.where(rates > 0, rates.astype(float), 1.0), 1e37).astype(np.float32)
        grids = own_step(sent, value, rule.spread)
        cost = _cost(lanes.sizes, sent / grids, grids > unpack(value)[0])
        bits = (sends * (cost + rule.extra_bits)).sum(1)
        exact = sent.astype(np.float64)
        size = np.hypot(lanes.alignment * (sends * exact).sum(1), np.sqrt((sends * exact**2).sum(1)))
        came = Arrived(
            bits.astype(np.float32),
            sends.sum(1).astype(np.float32),
            np.full(count, clients),
            np.minimum(size, 3e38).astype(np.float32),
            dim,
        )
        signal = rule.after(signal, came, np.float32(step), np.float32(1))
        now = bits, sends.sum(1), np.isfinite(signal).all(0), *unpack(signal.value)
        for kept, part in zip(course, now, strict=True):
            kept[step - 1] = part
    return Course(*(part.T for part in course))


def _cost(sizes: Any, reach: Any, own: Any) -> Any:
    """Bits of messages [lanes, groups]: between the two nearest entries of `sizes`."""
    place = np.clip((np.log2(np.maximum(reach, 2.0**-4)) + 4) * 2, 0, len(REACHES) - 1.001)
    low, lane, form = place.astype(np.int64), np.arange(len(sizes))[:, None], own.astype(np.int64)
    share = place - low
    return (1 - share) * sizes[lane, form, low] + share * sizes[lane, form, low + 1]


@lru_cache(maxsize=64)
def message_sizes(dim: int, shape: Shape) -> Floats:
    """Bits of a message of each length in `REACHES` on the common grid and on one of its own, [2, reaches].

    As the codec counts them, in the mean over roundings.
    """
    rng = np.random.default_rng(1)
    magnitudes = abs(direction(dim, shape, rng))
    scaled = magnitudes * np.minimum(REACHES, MAX_LEVELS / magnitudes.max())[:, None]
    sums, own = np.zeros((2, len(REACHES))), np.array([False, True])[:, None]
    for _ in range(_ROUNDINGS if dim < 10_000 else 1):
        symbols = np.floor(scaled + rng.random(scaled.shape)).clip(0, MAX_LEVELS).astype(np.int32)
        counts = class_counts(symbols, MAX_LEVELS).astype(np.float32)
        sums += np.asarray(grid_bits(counts, dim, own), np.float64)
    return sums / (_ROUNDINGS if dim < 10_000 else 1)


def direction(dim: int, shape: Shape, rng: np.random.Generator) -> Floats:
    """An update of norm 1."""
    vector = rng.standard_normal(dim)
    if shape == "sparse":
        vector[rng.permutation(dim)[max(1, dim // 20) :]] = 0
    if shape == "heavy":
        vector = vector**3
    if shape == "signs":
        vector = np.sign(vector)
    return np.asarray(vector / np.linalg.norm(vector), np.float64)


def largest_message(dim: int, shape: Shape) -> float:
    """Bits of the finest message there is."""
    return float(message_sizes(dim, shape)[0].max())
