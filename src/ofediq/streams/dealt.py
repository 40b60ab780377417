"""Who sees what, made when it is asked for: streams too long to be laid out beforehand.

Every place is a function of its number and the seed, so any block of steps and any share of the clients can be made
alone, by whoever needs it: a million clients for a thousand steps cost no memory and no wait.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Numbers
from ofediq.errors import InputError
from ofediq.randomness import Purpose, stream_key, words

_ROUNDS = 6
_LARGEST = 2**62  # places: sums of two digits must stay below 2^32


@dataclass(frozen=True)
class Dealt:
    """Indices [steps, clients] of samples, which look like an array but are made block by block.

        place i of K T  ->  digits (i div b, i mod b), a b >= K T
        six times, in turn: digit <- digit + hash(other digit, seed, round) mod its base
        "random": the place's new number modulo N, and a random order of the N samples

    The digits' steps can be undone, so every place gets a number of its own, and each sample comes floor(K T / N)
    times or once more, in random order: what `partition` deals where it fits, by other draws. "passes": pass after
    pass over the samples, each in an order of its own; "sequential": one after another.

    Attributes:
        samples: N.
        steps: T.
        clients: K.
        kind: "random", "passes" or "sequential".
        seed: of all draws.
        whole: T of the stream that this is the head of; the order of its places depends on it.

    >>> order = Dealt(samples=5, steps=4, clients=3, kind="random", seed=0)
    >>> sorted(np.bincount(order[:].ravel()).tolist()), bool((order[1:3, 1:] == order[:][1:3, 1:]).all())
    ([2, 2, 2, 3, 3], True)
    """

    samples: int
    steps: int
    clients: int
    kind: str
    seed: int
    whole: int = 0

    def __post_init__(self) -> None:
        if not self.whole:
            object.__setattr__(self, "whole", self.steps)
        if self.whole * self.clients > _LARGEST:
            raise InputError(
                f"`clients` x `steps` must be at most 2^62, got {self.clients:,} x {self.whole:,}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """[steps, clients]."""
        return self.steps, self.clients

    @property
    def dtype(self) -> np.dtype[np.int32]:
        """Of what is made."""
        return np.dtype(np.int32)

    def __len__(self) -> int:
        return self.steps

    def head(self, steps: int) -> Dealt:
        """The first steps."""
        return replace(self, steps=steps)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Numbers:
        return self.rows(range(self.steps), range(self.clients)).astype(dtype or np.int32, copy=False)

    def __getitem__(self, key: Any) -> Any:
        across: Any = slice(None)
        steps = key
        if isinstance(key, tuple):
            steps, across = key
        if isinstance(steps, (int, np.integer)):
            return self[steps : steps + 1 or None, across][0]
        if not isinstance(steps, slice) or not isinstance(across, slice):
            return np.asarray(self)[key]
        return self.rows(range(self.steps)[steps], range(self.clients)[across])

    def rows(self, steps: range, clients: range) -> NDArray[np.int32]:
        """Some steps of some clients."""
        first = np.asarray(steps, np.uint64)[:, None] * np.uint64(self.clients)
        places = first + np.asarray(clients, np.uint64)
        if self.kind == "sequential":
            return (places % np.uint64(self.samples)).astype(np.int32)
        if self.kind == "passes":
            return self._passes(places)
        numbers = self._moved(places) % np.uint64(self.samples)
        made: NDArray[np.int32] = _order(self.samples, self.seed, 0)[numbers]
        return made

    def _passes(self, places: NDArray[np.uint64]) -> NDArray[np.int32]:
        passes, at = np.divmod(places, np.uint64(self.samples))
        made = np.empty(places.shape, np.int32)
        for number in range(int(passes.min()), int(passes.max()) + 1) if places.size else ():
            here = passes == np.uint64(number)
            made[here] = _order(self.samples, self.seed, number + 1)[at[here]]
        return made

    def _moved(self, places: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """A random number of its own for each place, below K T."""
        total = self.whole * self.clients
        base = math.isqrt(total - 1) + 1
        bases = (-(-total // base), base)
        moved = _shuffled(places.ravel(), bases, self.seed)
        beyond = np.flatnonzero(moved >= np.uint64(total))
        while beyond.size:  # a few, which go on to where the same way takes them: still a number of their own
            moved[beyond] = _shuffled(moved[beyond], bases, self.seed)
            beyond = beyond[moved[beyond] >= np.uint64(total)]
        return moved.reshape(places.shape)


def _shuffled(numbers: NDArray[np.uint64], bases: tuple[int, int], seed: int) -> NDArray[np.uint64]:
    digits = [part.astype(np.uint32) for part in np.divmod(numbers, np.uint64(bases[1]))]
    for number in range(_ROUNDS):
        here, other = number % 2, 1 - number % 2
        key = stream_key(seed, number, np.uint32(0), Purpose.ORDER)
        moved = digits[here] + words(key, digits[other]) % np.uint32(bases[here])
        digits[here] = np.where(moved >= np.uint32(bases[here]), moved - np.uint32(bases[here]), moved)
    return digits[0].astype(np.uint64) * np.uint64(bases[1]) + digits[1]


@functools.lru_cache(maxsize=4)
def _order(samples: int, seed: int, number: int) -> NDArray[np.int32]:
    """A random order of the samples."""
    return np.random.default_rng([seed, number]).permutation(samples).astype(np.int32)
