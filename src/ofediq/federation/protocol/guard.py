"""What the server does about updates that are valid and yet not to be trusted.

Three limits, none of which an honest member notices. How long a member's updates are *on average* may exceed what
is usual among members by half; a single one may be long, and the next ones then have less room. An update that is
`clip` times as long as usual does not count at all. And a member whose updates point against those of most others,
while most others agree, does not count until they no longer do. Whoever loses most of what it sends, again and again,
is quarantined: its updates are not even read until the operator lets it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.errors import require

Floats = npt.NDArray[np.float64]

CLIP = 20.0
"""Default limit of a single update, in usual ones."""

RATE, BURST, FIRST = 1.5, 5.0, 2.0
"""Usual lengths that a member may spend per update, save up, and has saved at its start."""

START, ASSUMED = 1.0, 8
"""Before so many updates came, the missing ones are taken for updates of length START."""

RECENT = 512
"""What is usual is read from the members of so many last updates."""

_SHORT = 16  # updates over which a member's mean length is taken
_TELLING = 4  # updates after which a member's direction says something
_MEMORY = 64  # updates over which it is remembered
_PANEL = 64  # members that a direction is compared with
_SKETCH = 64  # numbers that a direction is kept in
_AGREE = 0.05  # median cosine from which most members agree
_AGAINST = (
    0.5  # share of that agreement; an honest member of another kind does not oppose the others so clearly
)
_DOUBT, _MOST_DOUBT = (
    3,
    24,
)  # times that an update pointed against the others: when it no longer counts, and at most
_LOSING, _PATIENCE = 0.7, 16  # mean share that was cut away, over so many updates


class Guard:
    """Weighs the updates of a round.

    Args:
        clip: an update of so many usual lengths does not count, above 1; None to let everything pass.
        regular: whether members send when they are told to. Where they decide themselves, what they may spend grows
            with the rounds and the usual number of updates, not with their own.

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
        self.clip, self.regular = clip, regular
        self.rounds, self.updates, self.frequency = 0, 0, 1.0
        self._room: dict[str, npt.NDArray[np.float32]] = {}  # by part of the message, [members]
        self._usual: dict[str, npt.NDArray[np.float32]] = {}
        self._count = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)  # number of the member's last update among all
        self._round = np.zeros(0, np.int64)  # and its round
        self._lost = np.zeros(0, np.float32)
        self._doubt = np.zeros(0, np.int64)
        self._sketch = np.zeros((0, _SKETCH), np.float16)
        self._banned = np.zeros(0, bool)
        self._signs = np.zeros(0, np.float32)

    @property
    def quarantined(self) -> frozenset[int]:
        """The members whose updates are not read."""
        return frozenset(np.flatnonzero(self._banned).tolist())

    def admit(self, number: int) -> None:
        """Let a member back, as if it were new."""
        self._grow(number + 1)
        for table in (self._count, self._lost, self._doubt, self._sketch, self._banned):
            table[number] = 0

    def usual(self, part: str = "update") -> float:
        """The length that is usual among members, from earlier rounds: the lower median of their means."""
        known = self._usual.get(part, np.zeros(0, np.float32))
        recent = (self._count > 0) & (self._last > self.updates - RECENT) & ~self._banned
        means = known[recent[: known.size]] if known.size else known
        assumed = [START] * max(0, ASSUMED - self.updates)
        ordered = np.sort(np.concatenate([means, assumed]))
        return float(ordered[(ordered.size - 1) // 2]) if ordered.size else START

    def weigh(
        self, updates: Mapping[int, Mapping[str, npt.NDArray[Any]]], *, unit: float = 1.0
    ) -> dict[int, float]:
        """What each update of a round is multiplied by, by the member's number; 0 if it does not count.

        Args:
            updates: vectors by name, by number.
            unit: what lengths are measured in, where the server has announced such a scale.
        """
        if self.clip is None or not updates:
            return dict.fromkeys(updates, 1.0)
        numbers = np.array(list(updates))
        self._grow(int(numbers.max()) + 1)
        parts = sorted(next(iter(updates.values())))
        factors = np.ones(len(numbers))
        lengths = {}
        elapsed = np.minimum(self.rounds - self._round[numbers], 2 * RECENT) + 1
        for part in parts:
            lengths[part] = np.array([_length(one[part]) for one in updates.values()]) / unit
            factors = np.minimum(factors, self._cut(part, numbers, lengths[part], elapsed))
        self._count[numbers] += 1
        self._round[numbers] = self.rounds + 1
        self._lost[numbers] += ((1 - factors) - self._lost[numbers]) / np.minimum(
            self._count[numbers], _PATIENCE
        )
        self._last[numbers] = self.updates + 1 + np.arange(len(numbers))
        self.rounds, self.updates = self.rounds + 1, self.updates + len(numbers)
        doubted = self._directions(
            numbers, [one["update"] for one in updates.values()], lengths["update"] * unit
        )
        self._quarantine(numbers)
        factors[doubted | self._banned[numbers]] = 0
        return dict(zip(updates, factors.tolist(), strict=True))

    def closed(self, senders: int, members: int) -> None:
        """A round is over: how often members send is learnt from all of them, also from those with none."""
        self.frequency += (senders / max(1, members) - self.frequency) / min(self.rounds + 1, 32)

    def export(self) -> dict[str, Any]:
        """Everything that a server which takes over needs, as arrays."""
        names = ("count", "last", "round", "lost", "doubt", "sketch", "banned")
        counters = np.array([self.rounds, self.updates, self.frequency])
        tables = {name: getattr(self, f"_{name}") for name in names}
        return {**tables, "counters": counters, "room": dict(self._room), "usual": dict(self._usual)}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from an earlier `export`, whose arrays have names such as "usual/update"."""
        for name, array in arrays.items():
            table, _, part = name.partition("/")
            if part:
                getattr(self, f"_{table}")[part] = array.astype(np.float32)
            elif name == "counters":
                self.rounds, self.updates, self.frequency = int(array[0]), int(array[1]), float(array[2])
            else:
                setattr(self, f"_{name}", array.astype(getattr(self, f"_{name}").dtype))

    # Lengths ----------------------------------------------------------------------------------------------------

    def _cut(
        self, part: str, numbers: npt.NDArray[Any], lengths: Floats, elapsed: npt.NDArray[Any]
    ) -> Floats:
        """Factors for one part of the messages, all of them from what was known before the round."""
        usual = self.usual(part) or START
        room, mean = self._table(self._room, part, FIRST), self._table(self._usual, part, 0.0)
        gained = RATE if self.regular else 2 * RATE * min(1.0, self.frequency) * elapsed
        most = min(BURST, self.clip or BURST)
        room[numbers] = np.minimum(room[numbers] + gained, most)
        spent = np.minimum(lengths / usual, room[numbers])
        room[numbers] -= spent
        kept = spent * usual
        # Where most lose much the scale of all has changed: the newest lengths alone are believed, step by step.
        memory = np.minimum(self._count[numbers] + 1, _SHORT if self._calm else 1)
        mean[numbers] += (np.minimum(lengths, most * usual) - mean[numbers]) / memory
        factors = np.where(lengths > kept, kept / np.maximum(lengths, 1e-300), 1.0)
        far = lengths > (self.clip or np.inf) * usual
        return np.where(far & (self.updates >= ASSUMED), 0.0, factors)

    def _table(self, tables: dict[str, Any], part: str, first: float) -> npt.NDArray[np.float32]:
        known: npt.NDArray[np.float32] = tables.get(part, np.zeros(0, np.float32))
        if known.size < self._count.size:
            more = np.full(self._count.size - known.size, first, np.float32)
            known = np.concatenate([known, more])
        tables[part] = known
        return known

    # Directions -------------------------------------------------------------------------------------------------

    def _directions(
        self, numbers: npt.NDArray[Any], vectors: Sequence[Any], lengths: Floats
    ) -> npt.NDArray[np.bool_]:
        """Whose updates point against those of most others, where most others agree."""
        for number, vector, length in zip(numbers, vectors, lengths, strict=True):
            if length > 0:
                kept = self._sketch[number].astype(np.float32) * np.float32(1 - 1 / _MEMORY)
                self._sketch[number] = kept + self._short(np.asarray(vector, np.float64) / length)
        telling = np.flatnonzero((self._count >= _TELLING) & ~self._banned)
        known = self._count[numbers] >= _TELLING
        if telling.size <= _TELLING or not known.any():
            return self._doubted(numbers)
        panel = telling[np.argsort(-self._last[telling], kind="stable")[:_PANEL]]
        agreement = float(np.median(self._alike(panel, panel)))
        against = (self._alike(numbers[known], panel) < -_AGAINST * agreement) & (agreement > _AGREE)
        changed = self._doubt[numbers[known]] + np.where(against, 1, -1)
        self._doubt[numbers[known]] = np.clip(changed, 0, _MOST_DOUBT)
        return self._doubted(numbers)

    def _doubted(self, numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return np.asarray(self._doubt[numbers] >= _DOUBT, bool)

    def _alike(self, some: npt.NDArray[Any], panel: npt.NDArray[Any]) -> Floats:
        """The median cosine of each with the others of the panel."""
        first, second = (_unit(self._sketch[one].astype(np.float64)) for one in (some, panel))
        cosines = first @ second.T
        cosines[some[:, None] == panel[None]] = np.nan
        found: Floats = np.nanmedian(cosines, axis=1)
        return found

    def _short(self, vector: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """A sketch that keeps angles about as they are: coordinates with random signs, added up in groups."""
        if self._signs.size != vector.size:
            self._signs = np.random.default_rng(vector.size).choice(
                np.array([-1, 1], np.float32), vector.size
            )
        padded = np.zeros(-(-vector.size // _SKETCH) * _SKETCH, np.float32)
        padded[: vector.size] = vector * self._signs
        folded: npt.NDArray[np.float32] = padded.reshape(-1, _SKETCH).sum(0)
        return folded

    # Quarantine -------------------------------------------------------------------------------------------------

    @property
    def _calm(self) -> bool:
        """Whether most members lose little of what they send."""
        members = (self._count > 0) & ~self._banned
        return not members.any() or float(np.median(self._lost[members])) < 1 - _LOSING

    def _quarantine(self, numbers: npt.NDArray[Any]) -> None:
        """Those who lose most of what they send while others lose little.

        To point the other way is no proof: honest members of another kind do so for weeks, and what they send then
        does not count anyway.
        """
        calm = self.updates > ASSUMED and self._calm
        loses = (self._lost[numbers] > _LOSING) & (self._count[numbers] >= _PATIENCE) & calm
        guilty = numbers[loses]
        room = (self._count > 0).sum() // 2 - self._banned.sum()  # never half of them or more
        self._banned[guilty[: max(0, int(room))]] = True

    def _grow(self, members: int) -> None:
        for name in ("count", "last", "round", "lost", "doubt", "sketch", "banned"):
            table = getattr(self, f"_{name}")
            if len(table) < members:
                more = np.zeros((members - len(table), *table.shape[1:]), table.dtype)
                setattr(self, f"_{name}", np.concatenate([table, more]))


def _length(vector: npt.NDArray[Any]) -> float:
    return float(np.linalg.norm(np.asarray(vector, np.float64)))


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    return unit
