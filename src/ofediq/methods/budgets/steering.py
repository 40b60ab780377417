"""Spending a bit budget where it matters: one number that the server broadcasts with the model.

Clients with large updates send more often and more finely; a common step of the grid, z, sets the price for all of
them. The server watches how many bits arrive and moves z so that the run meets its budget. It costs 32 bits of
downlink per broadcast and no uplink. What the number says to clients is in `loudness`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Array, float32, namespace
from ofediq.methods.budgets.loudness import (
    OWN_BITS,
    UNKNOWN,
    best_spread,
    length,
    longest_message,
    message_bits,
    pack,
    reach_for,
    unpack,
)
from ofediq.methods.budgets.windows import Growing
from ofediq.methods.compress import Compressor
from ofediq.methods.pieces import piece
from ofediq.settings import Count, Fading, Fraction, NonNegative, Positive, Ranged

_WINDOW = 1000  # steps over which an endless run makes up for what it did not spend
_GAIN = 0.7  # of the whole correction in one step: what arrives is random
_FASTEST = 16.0  # largest factor that z moves by in one step
_LOST = 12.0  # expected messages that fail to come before the scale counts as lost: by chance once in e^12
_TELLING = 2.0**10  # louder messages reach the largest symbol: their size says nothing of the update's shape
_AHEAD = 64.0  # steps that a run without an end in sight may spend before they are due, and
_BEYOND = 0.03  # of the budget that one with an end may spend beyond it
_PATIENCE = 8  # rounds at least over which a credit or a debt is made up for, or an eighth of them
_LEAST, _MOST = 2.0**-110, 2.0**112  # between them lies every step of a grid: 2^15 of them are a float
_LARGEST = 2.0**127  # size of an update: more is no float


class Signal(NamedTuple):
    """What the server keeps about the budget."""

    value: Array  # what it broadcasts: z and the largest loudness, see `loudness.pack`
    step: Array  # z in full, or UNKNOWN
    clients: Array  # K, who share
    wanted: Array  # the bits that they should spend, and
    purse: Array  # those that they may spend at most
    ahead: Array  # bits spent beyond what an even run would have spent, in mean steps
    usual: Array  # mean of the updates' sizes so far, and
    recent: Array  # of the last third: how fast they shrink
    quiet: Array  # messages that were expected since the last one arrived
    density: Array  # of the updates, as seen when all were equally loud, see `message_bits`


@piece
@dataclass(frozen=True)
class Budget(Ranged):
    """Meet `bits_per_step` uplink bits on average over `steps` steps.

    Minimising the sum of all variances under one total budget asks for a constant z, so the bits follow the size of
    the updates: if those shrink like t^-a, the budget left at step t is shared out like t^-a over the steps to come.
    a is read off the updates themselves, between 0 (every step gets the same) and `front`; the first step is planned
    with `front`, because early gradients are large. What could not be spent is spread over the rest of the run in the
    same way. After T the run goes on with `bits_per_step`.

    In the first round no scale is known: all clients are equally loud, as loud as the first step's share pays for.
    What arrives gives the first z. From then on z follows the bits: up when too many arrived, down when too few,
    through the cost of a message (`message_bits`), because halving the step of a fine grid costs one bit per
    coordinate but halving that of a coarse one doubles the bits. If no message comes where a dozen should have, the
    scale is lost, and all clients become equally loud again.

    No client may be louder than what a step may cost if all were that loud: four times what is due, or an eighth of
    the whole budget if that is more, but never above half of what is left of the budget. So updates that explode,
    bursts and a thousand clients who come back at once spend at most what `most_spent` says. Without an end in sight
    what is left is 64 steps' worth, and what was saved.

    Attributes:
        bits_per_step: mean uplink bits per step, all clients together.
        steps: T, the horizon; None for a run without end.
        front: the largest a, in [0, 1): how much the budget may lean towards early steps.
        spread: norm of a sampled update in grid steps, as in `NormProportional`.
        extra_bits: what a message costs beside its payload; counted against the budget.
        message: the compressor, if it is not the grid: one whose messages have about the same size each.
        windows: of what lengths, where they grow.
        attendance: the mean share of the clients that are there, in (0, 1]; those have the bits of all.
        each: whether `bits_per_step` are those of one client, and grow with how many there are.
    """

    bits_per_step: Positive
    steps: Count | None = None
    front: Fading = 0.5
    spread: Positive = best_spread()
    extra_bits: NonNegative = 0.0
    message: Compressor | None = None
    windows: Growing | None = None
    attendance: Fraction = 1.0
    each: bool = False

    def init(self, dim: int, clients: int, period: int = 1) -> Signal:
        """Before the first round of `clients` clients with `dim` parameters each."""
        one, zero = np.float32(1), np.float32(0)
        shared = self._shared(clients)
        due = self._mean(shared) * self._nominal(zero, period, np.float32(self.front))[0]
        value = pack(np.float32(UNKNOWN), self._loudest(due / shared, dim, one))
        return Signal(value, np.float32(UNKNOWN), shared, due, due, zero, one, one, zero, one)

    def regroup(self, signal: Signal, dim: int, clients: int) -> Signal:
        """The signal for `clients` clients: what is due is shared out anew if there were more or fewer."""
        shared = self._shared(clients)
        if signal.clients == shared:
            return signal
        if self.each:
            more = shared / signal.clients
            return signal._replace(clients=shared, wanted=signal.wanted * more, purse=signal.purse * more)
        before, after = (
            self._loudness(signal.wanted / one, dim, signal.density) for one in (signal.clients, shared)
        )
        known = signal.step > np.float32(UNKNOWN)
        step = np.float32(np.clip(signal.step * before / after, _LEAST, _MOST) if known else UNKNOWN)
        loudest = self._loudest(signal.purse / shared, dim, signal.density)
        return signal._replace(value=pack(step, loudest), step=step, clients=shared)

    def next(
        self,
        signal: Signal,
        *,
        total: Array,
        bits: Array,
        senders: Array,
        clients: Array,
        step: Array,
        period: Array = 1,
    ) -> Signal:
        """After the round at `step` (from 1).

        Args:
            signal: before it.
            total: [dim] the sum of what arrived.
            bits: of the payloads.
            senders: how many sent.
            clients: K, how many could have.
            step: t.
            period: L.
        """
        xp = namespace(total)
        bits, senders, clients = (xp.asarray(one, dtype=np.float32) for one in (bits, senders, clients))
        bits, clients = bits + np.float32(self.extra_bits) * senders, self._shared(clients)
        return self.after(
            signal, Arrived(bits, senders, clients, length(total), total.shape[-1]), step, period
        )

    def after(self, signal: Signal, came: Arrived, step: Array, period: Array) -> Signal:
        """`next`, once what arrived is measured."""
        xp = namespace(came.size)
        coming = period if self.windows is None else self.windows.length(step)
        step, period, coming = (xp.asarray(one, dtype=np.float32) for one in (step, period, coming))
        bits, senders, clients = came.bits, came.senders, came.clients
        unknown = signal.step <= np.float32(UNKNOWN)
        density = xp.where(unknown & (senders > 0), self._density(signal, came), signal.density)
        got = self._loudness(bits / clients, came.dim, density)
        heard = xp.minimum(got, np.float32(_LARGEST) / xp.maximum(signal.step, np.float32(1))) * signal.step
        usual, recent = _sizes(signal, heard, step / period, unknown)
        ahead = signal.ahead + bits / self._mean(clients) - period
        ahead = xp.maximum(ahead, -self._most_credit(step))
        left = self._mean(clients) * self._left(ahead, step)
        wanted = self._plan(ahead, left, recent / usual, step, coming, self._mean(clients))

        aim = self._loudness(wanted / clients, came.dim, density)
        expected = self._loudness(signal.wanted / clients, came.dim, density)
        surprise = (got - expected) / (
            expected + 1 / clients
        )  # in units of what was expected, or of a message
        followed = self._next_step(signal, came, _factor(surprise, expected / aim))
        moved = xp.where(unknown, self._first_step(signal, came, aim), followed)
        quiet = xp.where(senders > 0, 0, signal.quiet + xp.minimum(aim * clients, 4)).astype(np.float32)
        lost = (quiet > np.float32(_LOST)) | (unknown & ~(came.size > 0))
        value = xp.where(lost, np.float32(UNKNOWN), xp.clip(moved, np.float32(_LEAST), np.float32(_MOST)))
        burst = self._mean(clients) * np.float32(self._horizon / 8)
        purse = xp.where(lost, wanted, _purse(wanted, left, burst, unknown | (surprise > 1)))
        loudest = self._loudest(purse / clients, came.dim, density)
        return Signal(
            pack(value, loudest), value, clients, wanted, purse, ahead, usual, recent, quiet, density
        )

    def most_spent(self, step: int) -> float:
        """Bits that the first `step` steps do not exceed by more than chance, which is a few messages.

        1.05 T `bits_per_step` up to the horizon T, and 1.05 (t + 64) `bits_per_step` after it or without one; for one
        client if `each`.

        >>> [round(float(budget(100.0, steps).most_spent(50))) for steps in (200, None)]
        [21000, 11970]
        """
        open_ended = self.steps is None or step > self.steps
        return 1.05 * self.bits_per_step * (step + _AHEAD if open_ended else float(self.steps or 0))

    def _shared(self, clients: Array) -> Array:
        """How many clients share the bits of a step."""
        return namespace(float32(clients)).maximum(
            float32(clients) * np.float32(self.attendance), np.float32(1)
        )

    def _mean(self, shared: Array) -> Array:
        """The mean bits of a step if so many share them."""
        return np.float32(self.bits_per_step) * (shared if self.each else np.float32(1))

    # What is due ------------------------------------------------------------------------------------------------

    def _nominal(self, step: Array, period: Array, lean: Array) -> tuple[Array, Array]:
        """What the round after `step` gets of an even run's rest, in mean steps, and its share w of that rest.

        w = ((t+L)^(1-a) - t^(1-a)) / (E^(1-a) - t^(1-a)), where E is half-way between the end of the last
        window within T, after which nothing is sent, and T: the other half is for surprises, which nothing could make
        up for then. L steps' worth where no end is in sight.
        """
        xp, window = namespace(step), float32(period)
        if self.steps is None:
            return xp.full_like(step, window), xp.full_like(step, window / _WINDOW)
        rest = xp.maximum(np.float32(self.steps) - step, window)
        power, end = 1 - lean, np.float32(self._end)
        # With x = t/E and y = L/E: (x + y)^b - x^b, exact also where y is far below x.
        start, growth = step / end, window / xp.maximum(step, np.float32(0.5))
        gained = xp.where(
            step > 0, start**power * xp.expm1(power * xp.log1p(growth)), (window / end) ** power
        )
        share = xp.minimum(gained / xp.maximum(1 - start**power, gained), np.float32(1))
        inside = step < end
        return xp.where(inside, rest * share, window), xp.where(inside, share, np.float32(1 / self._patience))

    def _left(self, ahead: Array, step: Array) -> Array:
        """What may be spent from `step` on, or ahead of what is due where no end is in sight, in mean steps."""
        xp, rest = namespace(ahead), np.float32(_AHEAD)
        if self.steps is not None:
            end = np.float32((1 + _BEYOND) * self.steps)
            rest = xp.where(step < self.steps, end - step, rest)
        return rest - ahead

    def _plan(
        self, ahead: Array, left: Array, slowing: Array, step: Array, period: Array, mean: Array
    ) -> Array:
        """The bits that the next round should spend; `slowing` is how recent updates compare with the usual ones."""
        xp = namespace(ahead)
        # Sizes like t^-a have the mean t^-a / (1 - a), and over the last third t^-a 3 / (3 - a). What is learnt early
        # helps all later steps: twice the a of the sizes, and in the first fifth of a run nothing is known yet.
        slowing = xp.clip(slowing, np.float32(0), np.float32(1))
        seen = xp.minimum(6 * (1 - slowing) / (3 - slowing), np.float32(self.front))
        early = xp.clip(1 - step / np.float32(self._horizon / 5), np.float32(0), np.float32(1))
        lean = early * np.float32(self.front) + (1 - early) * seen
        nominal, share = self._nominal(step, period, lean)
        wanted = nominal - ahead * xp.minimum(share, np.float32(1 / self._patience))
        bits, nominal = mean * wanted, mean * nominal
        return xp.clip(xp.minimum(bits, left), nominal / 64, 8 * nominal)

    def _most_credit(self, step: Array) -> Array:
        """How far a run may stay behind and still make up for it, in mean steps."""
        if self.steps is None:
            return namespace(step).full_like(step, _WINDOW)
        return namespace(step).maximum(np.float32(self.steps), np.float32(_WINDOW))

    @property
    def _horizon(self) -> int:
        return _WINDOW if self.steps is None else self.steps

    @property
    def _patience(self) -> float:
        """Rounds at least over which a credit or a debt is made up for."""
        if self.windows is None:
            return _PATIENCE
        return min(_PATIENCE, max(1.0, len(self.windows.ends(self.windows.steps)) / 8))

    @property
    def _end(self) -> float:
        """E: the step up to which the budget is shared out."""
        if self.windows is None or self.steps is None:
            return self._horizon
        ends = self.windows.ends(self.steps)
        return (int(ends[-1]) + self.steps) / 2 if ends.size else self.steps

    # What a message costs ---------------------------------------------------------------------------------------

    def _loudness(self, bits: Array, dim: int, density: Array, beside: float = 0.0) -> Array:
        """How loud all clients are if each spends `bits` on average, `beside` of them in every message."""
        xp, extra, spread = namespace(bits), np.float32(self.extra_bits), np.float32(self.spread)
        if self.message is not None:
            return xp.minimum(bits / (np.float32(self.message.usual_bits(dim)) + extra), np.float32(1))
        longest, more = np.float32(longest_message(dim)), np.float32(beside)
        one = xp.minimum(message_bits(spread, dim, density) + more, longest) + extra
        each = xp.where(bits - extra < longest, bits - extra - more, longest)
        finer = reach_for(each, dim, density) / spread
        return xp.where(bits < one, bits / one, xp.maximum(finer, np.float32(1)))

    def _loudest(self, bits: Array, dim: int, density: Array) -> Array:
        """`_loudness` if each is on a grid of its own, as those are whom the server holds back.

        With a density of one half at least: it was seen at another loudness, where equal numbers cost less.
        """
        return self._loudness(bits, dim, namespace(bits).maximum(density, np.float32(0.5)), OWN_BITS)

    def _density(self, signal: Signal, came: Arrived) -> Array:
        """How evenly the updates' energy lies, from a round in which all were equally loud."""
        xp = namespace(came.bits)
        loud = unpack(signal.value)[1]
        reach = np.float32(self.spread) * xp.maximum(loud, np.float32(1))
        each = came.bits / xp.maximum(came.senders, np.float32(1)) - np.float32(self.extra_bits + OWN_BITS)
        seen = reach_for(each, came.dim, np.float32(1)) / reach
        return xp.where(loud < _TELLING, xp.clip(seen, np.float32(0.05), np.float32(1)), signal.density)

    # The step of the grid ---------------------------------------------------------------------------------------

    def _first_step(self, signal: Signal, came: Arrived, aim: Array) -> Array:
        """z after a round in which all were equally loud, as if the updates that arrived were independent."""
        xp = namespace(came.size)
        rate = xp.minimum(unpack(signal.value)[1], np.float32(1))
        norm = came.size * rate / xp.sqrt(xp.maximum(came.senders, np.float32(1)))
        steps = np.float32(self.spread) * aim
        return xp.minimum(norm, np.float32(_MOST) * xp.minimum(steps, np.float32(1))) / steps

    def _next_step(self, signal: Signal, came: Arrived, factor: Array) -> Array:
        """z times `factor`, and not so small that the mean sender had to be quieter than z asks it to be."""
        xp = namespace(came.size)
        longest = np.float32(self.spread) * xp.maximum(unpack(signal.value)[1], np.float32(1))
        least = came.size / xp.maximum(came.senders, np.float32(1)) / longest
        moved = signal.step * factor
        return xp.where(least > 2 * signal.step, xp.maximum(moved, least), moved)


def _purse(wanted: Array, left: Array, burst: Array, doubtful: Array) -> Array:
    """What a round may cost at most; chance has the other half of what is left."""
    xp = namespace(wanted)
    most = xp.where(doubtful, 2 * wanted, xp.maximum(4 * wanted, burst))
    return xp.minimum(most, xp.maximum(wanted, left / 2))


class Arrived(NamedTuple):
    """What a round brought: all bits, how many senders of how many clients, the norm of their sum."""

    bits: Array
    senders: Array
    clients: Array
    size: Array
    dim: int


def budget(
    bits_per_step: float,
    steps: int | None = None,
    front: float = 0.5,
    *,
    spread: float | None = None,
    extra_bits: float = 0.0,
    windows: Growing | None = None,
) -> Budget:
    """Steer towards `bits_per_step` uplink bits on average over `steps` steps, or for ever; see `Budget`.

    >>> rule = budget(1000.0, steps=100)
    >>> signal, sum_of_updates = rule.init(dim=50, clients=10), np.ones(50, np.float32)
    >>> signal = rule.next(signal, total=sum_of_updates, bits=900, senders=10, clients=10, step=1)
    >>> after = rule.next(signal, total=sum_of_updates, bits=20000, senders=10, clients=10, step=2)
    >>> bool(after.step > signal.step)  # too much was sent: the grid becomes coarser
    True
    """
    chosen = best_spread(extra_bits) if spread is None else spread
    return Budget(bits_per_step, steps, front, chosen, extra_bits, windows=windows)


def _sizes(signal: Signal, size: Array, rounds: Array, unknown: Array) -> tuple[Array, Array]:
    """The mean size of the updates so far and that of about the last third of `rounds`."""
    xp = namespace(size)
    usual = signal.usual + (size - signal.usual) / xp.maximum(rounds, np.float32(1))
    recent = signal.recent + (size - signal.recent) * xp.minimum(3 / (rounds + 2), np.float32(1))
    least = np.float32(1e-37)
    return tuple(
        xp.maximum(xp.where(unknown, 0, xp.where(rounds <= 2, size, mean)), least) for mean in (usual, recent)
    )


def _factor(surprise: Array, change: Array) -> Array:
    """What z is multiplied by: the change of what is wanted, and a correction for what arrived.

    The correction is exp of a gain times a function that is linear near 0, so that chance has no bias, and
    logarithmic beyond.
    """
    xp = namespace(surprise)
    below = xp.log1p(xp.clip(surprise, np.float32(-0.99), np.float32(0)))
    above = xp.where(surprise < 1, surprise, 1 + xp.log(xp.maximum(surprise, np.float32(1))))
    move = np.float32(_GAIN) * xp.where(surprise < 0, below, above) + xp.log(change)
    most = np.float32(np.log(_FASTEST))
    return xp.exp(xp.clip(move, -most, most))
