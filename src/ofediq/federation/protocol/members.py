"""`Members`: who takes part in a live federation, who is there, and who has been silent for long."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ofediq.methods import Method

PATIENCE = 3
"""After so many due rounds in a row without a word a client is not waited for, until it is heard again."""

DOUBT = 2.0
"""Seconds to answer, for a client who came back after it was said to be gone: whoever said so may say it again."""


class Members:
    """The clients of a federation.

    Attributes:
        numbers: by name.
        present: names of those that are connected.
        moving: those who come from another version and have not greeted yet: what they say is about that one.

    >>> members = Members(("a", "b"))
    >>> members.greet("c")
    >>> members.numbers["c"], sorted(members.present)
    (2, ['c'])
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.numbers: dict[str, int] = {name: number for number, name in enumerate(names)}
        self.present: set[str] = set()
        self.moving: set[str] = set()
        self._silent: dict[str, int] = {}  # due rounds in a row without a word
        self._granted: set[str] = set()  # who was given another chance since it was last heard
        self._left: set[str] = set()  # said to be gone, and believed
        self._returned: set[str] = set()  # and back
        self._asked: dict[str, float] = {}  # said to be gone again, by time

    def __len__(self) -> int:
        return len(self.numbers)

    def __contains__(self, name: object) -> bool:
        return name in self.numbers

    def add(self, name: str) -> None:
        """Number a client, unless it has a number."""
        self.numbers.setdefault(name, len(self.numbers))

    def greet(self, name: str) -> None:
        """A client is there; one that was silent has one more chance until it is heard, however often it greets."""
        self.add(name)
        self._there(name)
        self.moving.discard(name)
        if not self.awaited(name) and name not in self._granted:
            self._silent[name] = PATIENCE - 1
            self._granted.add(name)

    def heard(self, name: str) -> None:
        """A client spoke: whoever is heard is there."""
        self._silent.pop(name, None)
        self._granted.discard(name)
        self._there(name)

    def leaves(self, name: str, now: float) -> bool:
        """Somebody says that a client is gone: whether that counts at once, or it is asked first."""
        if name in self._returned:
            self._asked.setdefault(name, now)
            return False
        self._left.add(name)
        self.present.discard(name)
        return True

    @property
    def settled(self) -> bool:
        """Whether nobody is asked whether it is gone."""
        return not self._asked

    def unanswered(self, now: float) -> list[str]:
        """Who was asked and has not answered: they are gone."""
        found = [name for name, when in self._asked.items() if now - when > DOUBT]
        for name in found:
            del self._asked[name]
            self._returned.discard(name)
            self.leaves(name, now)
        return found

    def _there(self, name: str) -> None:
        self.present.add(name)
        self._asked.pop(name, None)
        if name in self._left:
            self._left.remove(name)
            self._returned.add(name)

    def missed(self, names: Iterable[str]) -> None:
        """These should have spoken in the round that closed."""
        for name in names:
            self._silent[name] = self._silent.get(name, 0) + 1

    def awaited(self, name: str) -> bool:
        """Whether a round waits for this client, if it is due and there."""
        return self._silent.get(name, 0) < PATIENCE

    def due(self, method: Method, seed: int, step: int) -> frozenset[str]:
        """Who should send at `step`: every draw follows from seed, step and number."""
        names = list(self.numbers)
        active = method.participation.active(seed, step, np.arange(len(names)), len(names))
        return frozenset(name for name, is_active in zip(names, np.asarray(active), strict=True) if is_active)
