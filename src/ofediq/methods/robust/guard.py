"""What the server does about updates that are valid and yet not to be trusted.

Limits, none of which an honest member notices. How long a member's updates are *on average* may exceed what
is usual among members by half; a single one may be long, and the next ones then have less room. An update that is
`clip` times as long as usual does not count at all. And how far a member pulls the model *away from where the others
pull it*, over its last updates together, may exceed what is usual among members by half: samples differ, so
deviations of honest members cancel in time, and those of a member who wants something else do not, however small each
is. Among few members that leaves much to chance, and each is also judged by what the others have said against it in
many rounds: see `votes`. Where data differ all of this says little, and the last limit is on whom the model follows:
see `balance`. Whoever sends updates of `clip` lengths again and again is quarantined: its updates are not even read
until the operator lets it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Flags, Floats, Numbers, Vector
from ofediq.errors import require
from ofediq.methods.robust.balance import balanced
from ofediq.methods.robust.directions import chance, deviation, dots, lower_median, normed, within
from ofediq.methods.robust.measures import SKETCH, folded, measured
from ofediq.methods.robust.votes import trusted

CLIP = 20.0
"""Default limit of a single update, in usual ones."""

RATE, BURST, FIRST = 1.5, 5.0, 2.0
"""Usual lengths that a member may spend per update, save up, and has saved at its start."""

START, ASSUMED = 1.0, 4
"""Before so many updates came, the missing ones are taken for updates of length START."""

RECENT = 512
"""What is usual is read from the members of so many last updates."""

MEMORY = 64
"""How far a member deviates is counted over so many of its last updates; see `directions`."""

_FEW = 4  # so few members say nothing about what is usual
_MEASURED = 5  # more than so many may say together what is usual
_HUGE = 1e30  # length of an update, for the mean
_SHORT = 16  # updates over which a member's mean length is taken
_LOSING, _PATIENCE = 0.7, 16  # share of updates beyond all measure, over so many
_AGREE = 0.3  # median cosine of members' sums with their centre from which most agree
_LEFT = 0.25  # share within the limit below which a member does not count
_TABLES = (
    "count",
    "last",
    "round",
    "lost",
    "far",
    "weight",
    "share",
    "sum",
    "wish",
    "banned",
)
_VOTERS = 64  # so many members vote on each other; where there are more, balance says enough
_WIDE, _MANY = 512, 128  # numbers that a direction is kept in where there are so few members


class Guard:
    """Weighs the updates of a round.

    Args:
        clip: an update of so many usual lengths does not count, above 1; None to let everything pass.
        regular: whether members send when they are told to. Where they decide themselves, what they may spend grows
            with the rounds and the usual number of updates, not with their own.

    Attributes:
        secret: what the signs of sketches are drawn from. Whoever knows it can send what no sketch shows: a live
            server draws one before its first round, and keeps it with its state.

    >>> guard = Guard(clip=20.0)
    >>> update = np.ones(4, np.float32) / 2
    >>> for _ in range(8):
    ...     factors = guard.weigh({number: {"update": update} for number in range(3)})
    >>> factors
    {0: 1.0, 1: 1.0, 2: 1.0}
    >>> guard.weigh({0: {"update": 1000 * update}, 1: {"update": -update}})[0]
    0.0
    """

    def __init__(self, clip: float | None = CLIP, *, regular: bool = True) -> None:
        require(clip is None or clip > 1, "clip", "must be above 1, or left out", clip)
        self.clip, self.regular, self.secret = clip, regular, 0
        self.rounds, self.updates, self.frequency = 0, 0, 1.0
        self._room: dict[str, Vector] = {}  # by part of the message, [members]
        self._usual: dict[str, Vector] = {}
        self._count = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)  # number of the member's last update among all
        self._round = np.zeros(0, np.int64)  # and its round
        self._lost = np.zeros(0, np.float32)  # mean share that was cut away
        self._far = np.zeros(0, np.float32)  # share of updates beyond `clip`
        self._weight = np.zeros(0, np.float32)  # of its last updates, older ones less
        self._sum = np.zeros((0, SKETCH), np.float16)  # what they came to, as it counted, in usual lengths
        self._wish = np.zeros((0, _WIDE), np.float16)  # what they came to, as it was sent
        self._votes = np.zeros((2, 0, 0), np.float32)  # products of updates with wishes, and their squares
        self._moved = np.zeros(_WIDE)  # what all of them came to, as it counted
        self._share = np.zeros(0, np.float32)  # mean share of them that was within the limit
        self._banned = np.zeros(0, bool)
        self._dim = 1  # of updates
        self._signs: dict[int, Vector] = {}  # by size

    @property
    def quarantined(self) -> frozenset[int]:
        """The members whose updates are not read."""
        return frozenset(np.flatnonzero(self._banned).tolist())

    def reads(self, number: int) -> bool:
        """Whether updates of this member are read."""
        return number >= len(self._banned) or not self._banned[number]

    def admit(self, number: int) -> None:
        """Let a member back, as if it were new."""
        self.grow(number + 1)
        for name in ("count", "lost", "far", "weight", "share", "sum", "wish", "banned"):
            getattr(self, f"_{name}")[number] = 0
        self._votes[:, number : number + 1] = self._votes[:, :, number : number + 1] = 0

    def kept(self, numbers: npt.ArrayLike) -> Floats:
        """The mean share that was left of these members' last updates, by their lengths."""
        who = np.asarray(numbers, np.int64)
        if who.max(initial=-1) >= len(self._lost):
            self.grow(int(who.max()) + 1)
        found: Floats = 1.0 - self._lost[who].astype(np.float64)
        return found

    def usual(self, part: str = "update") -> float:
        """The length that is usual among members, from earlier rounds: the lower median of their means."""
        known = self._usual.get(part, np.zeros(0, np.float32))
        means = known[self._recent()[: known.size]] if known.size else known
        assumed = [START] * max(0, ASSUMED - self.updates)
        return lower_median(np.concatenate([means, assumed])) if means.size or assumed else START

    def weigh(
        self,
        updates: Mapping[int, Mapping[str, Numbers]],
        *,
        unit: float = 1.0,
        least: float = 0.0,
    ) -> dict[int, float]:
        """What each update of a round is multiplied by, by the member's number; 0 if it does not count.

        Args:
            updates: vectors by name, by number.
            unit: what lengths are measured in.
            least: a length in these units that the server has asked for: usual updates are not shorter.
        """
        if self.clip is None or not updates:
            return dict.fromkeys(updates, 1.0)
        numbers = np.array(list(updates))
        self.grow(int(numbers.max()) + 1)
        elapsed = np.minimum(self.rounds - self._round[numbers], 2 * RECENT) + 1
        factors, usual = np.ones(len(numbers)), START
        sketches = np.zeros((len(numbers), self._moved.size))
        for part in sorted(next(iter(updates.values()))):
            vectors = [one[part] for one in updates.values()]
            lengths, found = measured(vectors, self._signs_of(vectors[0].size), self._moved.size)
            known = max(self.usual(part) or START, least if part == "update" else 0.0)
            known = self._at_first(known, lengths / unit)
            factors = np.minimum(factors, self._cut(part, known, numbers, lengths / unit, elapsed))
            if part == "update":
                sketches, self._dim, usual = found, vectors[0].size, known
        self._count[numbers] += 1
        self._round[numbers] = self.rounds + 1
        self._last[numbers] = self.updates + 1 + np.arange(len(numbers))
        self.rounds, self.updates = self.rounds + 1, self.updates + len(numbers)
        memory = np.minimum(self._count[numbers], _PATIENCE)
        self._lost[numbers] += ((1 - factors) - self._lost[numbers]) / memory
        self._far[numbers] += ((factors == 0) - self._far[numbers]) / memory
        self._quarantine(numbers)
        factors[self._banned[numbers]] = 0
        rows = sketches * (factors / (unit * usual))[:, None]
        held = self._held(numbers, folded(rows, SKETCH), elapsed) * self._voted(numbers, rows, elapsed)
        factors *= self._balanced(numbers, rows, held, elapsed)
        return dict(zip(updates, factors.tolist(), strict=True))

    def closed(self, senders: int, members: int) -> None:
        """A round is over: how often members send is learnt from all of them, also from those with none."""
        self.frequency += (senders / max(1, members) - self.frequency) / min(self.rounds + 1, 32)

    def grow(self, members: int, parts: Iterable[str] = ()) -> None:
        """Make room for so many members, and for parts of their messages."""
        members = max(members, len(self._count))
        width = max(SKETCH, _WIDE >> max(0, (members - 1) // _MANY).bit_length())
        if width < self._moved.size:
            self._wish, self._moved = folded(self._wish, width), folded(self._moved[None], width)[0]
        for name in _TABLES:
            table = getattr(self, f"_{name}")
            if len(table) < members:
                more = np.zeros((members - len(table), *table.shape[1:]), table.dtype)
                setattr(self, f"_{name}", np.concatenate([table, more]))
        if members <= _VOTERS:
            new = int(members) - self._votes.shape[1]
            self._votes = np.pad(self._votes, ((0, 0), (0, new), (0, new)))
        for part in parts:
            self._table(self._room, part, FIRST)
            self._table(self._usual, part, 0.0)

    def export(self) -> dict[str, Any]:
        """Everything that a server which takes over needs, as arrays."""
        counters = np.array([self.rounds, self.updates, self.frequency])
        tables = {name: getattr(self, f"_{name}") for name in _TABLES}
        return {
            **tables,
            "counters": counters,
            "secret": np.array(self.secret, np.uint64),
            "moved": self._moved,
            "votes": self._votes,
            "room": dict(self._room),
            "usual": dict(self._usual),
        }

    def restore(self, arrays: Mapping[str, Numbers]) -> None:
        """Continue from an earlier `export`, whose arrays have names such as "usual/update"."""
        for name, array in arrays.items():
            table, _, part = name.partition("/")
            if part:
                getattr(self, f"_{table}")[part] = array.astype(np.float32)
            elif name == "counters":
                self.rounds, self.updates, self.frequency = int(array[0]), int(array[1]), float(array[2])
            elif name == "secret":
                self.secret = int(array)
            elif name in (*_TABLES, "moved", "votes"):  # an earlier version may have known more
                setattr(self, f"_{name}", array.astype(getattr(self, f"_{name}").dtype))

    def _recent(self) -> Flags:
        """Whose updates say what is usual."""
        return np.asarray((self._count > 0) & (self._last > self.updates - RECENT) & ~self._banned)

    # Lengths ----------------------------------------------------------------------------------------------------

    def _at_first(self, known: float, lengths: Floats) -> float:
        """What is usual in the first round: the middle of many says more than START, and is nobody's own."""
        if self.updates >= ASSUMED or len(lengths) <= _FEW:
            return known
        middle = lower_median(lengths) or START
        return middle if len(lengths) > _MEASURED else min(known, middle)

    def _cut(self, part: str, usual: float, numbers: Numbers, lengths: Floats, elapsed: Numbers) -> Floats:
        """Factors for one part of the messages, all of them from what was known before the round."""
        room, mean = self._table(self._room, part, FIRST), self._table(self._usual, part, 0.0)
        often = min(
            1.0, self.frequency
        )  # the seldomer members send, the more their numbers of updates differ
        gained = RATE if self.regular else (2 - often) * RATE * often * elapsed
        most = min(BURST, self.clip or BURST)
        room[numbers] = np.minimum(room[numbers] + gained, most)
        spent = np.minimum(lengths / usual, room[numbers])
        room[numbers] -= spent
        kept = spent * usual
        # Where most lose much the scale of all has changed: the newest lengths alone are believed, and as they are
        # where so many members sent some that the middle one is honest.
        memory, longest = np.minimum(self._count[numbers] + 1, _SHORT), most * usual
        if not self._calm:
            memory = np.ones(len(numbers))
            longest = _HUGE if np.count_nonzero(self._recent()) > _MEASURED else longest
        mean[numbers] += (np.minimum(lengths, longest) - mean[numbers]) / memory
        factors = np.where(lengths > kept, kept / np.maximum(lengths, 1e-300), 1.0)
        far = lengths > (self.clip or np.inf) * usual
        # Where most of a round is far away the scale has moved: they are cut, like before anything was known.
        alone = self.updates >= ASSUMED and 2 * far.sum() <= len(far)
        return np.where(far & alone, 0.0, factors)

    def _table(self, tables: dict[str, Any], part: str, first: float) -> Vector:
        known: Vector = tables.get(part, np.zeros(0, np.float32))
        if known.size < self._count.size:
            more = np.full(self._count.size - known.size, first, np.float32)
            known = np.concatenate([known, more])
        tables[part] = known
        return known

    # Deviations -------------------------------------------------------------------------------------------------

    def _held(self, numbers: Numbers, rows: Floats, elapsed: Numbers) -> Floats:
        """What is left of updates, as sketches in usual lengths, so that nobody pulls away more than is usual.

        With s the sum of a member's last updates, n their number (both with a memory of `MEMORY`), and c the median
        of all members' means s / n in each coordinate, its deviation is that of s from the line from 0 to n c: to
        pull as the others do, or less, is none. A member whose s points against c while most agree with it, and one
        of whom hardly anything is left again and again, do not count.
        """
        forgotten = self._forgotten(elapsed)
        sums, weights = self._sum[numbers] * forgotten[:, None], self._weight[numbers] * forgotten
        known = np.flatnonzero(self._recent() & (self._weight > 0))
        factors, opposed = np.ones(len(numbers)), np.zeros(len(numbers), bool)
        if known.size > _FEW:
            own, weight = self._sum[known].astype(np.float64), self._weight[known]
            centre = np.median(own / weight[:, None], axis=0)
            before, after = deviation(sums, weights, centre), deviation(sums + rows, weights + 1, centre)
            factors = within(deviation(own, weight, centre), before, after, self._dim)
            towards = normed(centre[None])[0]
            agreement = float(np.median(dots(normed(own), towards)))
            line = max(agreement / 2, chance(min(self._dim, SKETCH)))
            opposed = dots(normed(sums + rows), towards) < -line
            most = agreement > np.sqrt(_AGREE**2 + 1 / known.size)  # each of them is a part of their centre
            opposed &= most & (self._count[numbers] >= _FEW)
        self._sum[numbers] = sums + factors[:, None] * rows
        self._weight[numbers] = weights + factors
        memory = np.minimum(self._count[numbers], _PATIENCE)
        self._share[numbers] += (factors - self._share[numbers]) / memory
        nothing_left = (self._share[numbers] < _LEFT) & (memory == _PATIENCE)
        return np.where(opposed | nothing_left, 0.0, factors)

    def _voted(self, numbers: Numbers, rows: Floats, elapsed: Numbers) -> Floats:
        """How far the others let these members count; what is learnt from `rows` counts in the next rounds, too."""
        if len(self._count) > _VOTERS:
            return np.ones(len(numbers))
        products = rows @ normed(self._wish.astype(np.float64)).T
        for table, one in zip(self._votes, (products, products * products), strict=True):
            table[numbers] = table[numbers] * self._forgotten(elapsed)[:, None] + one
        found, known = np.ones(len(self._count)), np.flatnonzero(self._recent())
        if known.size > _FEW:
            sums, squares = self._votes[:, known][:, :, known].astype(np.float64)
            found[known] = trusted(sums, squares, self._weight[known].astype(np.float64))
        kept: Floats = found[numbers]
        return kept

    def _balanced(self, numbers: Numbers, rows: Floats, factors: Floats, elapsed: Numbers) -> Floats:
        """`factors`, and no more than keeps the model from following few members."""
        self._wish[numbers] = self._wish[numbers] * self._forgotten(elapsed)[:, None] + rows
        moved = self._moved * (1 - 1 / MEMORY) ** min(1.0, self.frequency)
        recent = self._recent()
        recent[numbers] = ~self._banned[numbers]  # in a large round not all senders are among the last ones
        known = np.flatnonzero(recent)
        if known.size > _FEW:
            wishes, places = self._wish[known].astype(np.float64), np.searchsorted(known, numbers)
            places = np.minimum(places, known.size - 1)  # of those in quarantine, whose factor is 0
            enough, dim = self._count[numbers] > _FEW, min(self._dim, moved.size)
            factors = np.minimum(factors, balanced(wishes, moved, rows, places, enough, dim))
        self._moved = moved + np.einsum("i,ij->j", factors, rows)
        return factors

    def _forgotten(self, elapsed: Numbers) -> Floats:
        """What is left of a member's sums when its next update comes."""
        found: Floats = (1 - 1 / MEMORY) ** (
            np.ones(len(elapsed)) if self.regular else self.frequency * elapsed
        )
        return found

    def _signs_of(self, size: int) -> Vector:
        """Random signs of coordinates, the same for all rounds."""
        if size not in self._signs:
            rng = np.random.default_rng(self.secret + size)
            self._signs[size] = rng.choice(np.array([-1, 1], np.float32), size)
        return self._signs[size]

    # Quarantine -------------------------------------------------------------------------------------------------

    @property
    def _calm(self) -> bool:
        """Whether most members lose little of what they send."""
        members = (self._count > 0) & ~self._banned
        return not members.any() or float(np.median(self._lost[members])) < 1 - _LOSING

    def _quarantine(self, numbers: Numbers) -> None:
        """Those whose updates are beyond all measure most of the time, while others lose little.

        To deviate is no proof, nor to send updates a few times as long as usual: honest members of another kind do so
        for weeks, and what they send is cut anyway.
        """
        calm = self.updates > ASSUMED and self._calm
        guilty = numbers[(self._far[numbers] > _LOSING) & (self._count[numbers] >= _PATIENCE) & calm]
        room = (self._count > 0).sum() // 2 - self._banned.sum()  # never half of them or more
        self._banned[guilty[: max(0, int(room))]] = True
