"""Secure aggregation in four messages, after K. Bonawitz et al.: Practical Secure Aggregation, 2017.

    member -> server    keys: two public keys, one for masks and one for sealing
    server -> members   everyone's keys
    member -> server    for each other member, sealed: a share of its mask key and a share of its own mask's seed
    server -> members   the shares for each of them
    member -> server    symbols + own mask + masks with every other member, modulo 2^m
    server -> members   who was heard
    member -> server    shares: of the own mask's seed of who was heard, of the mask key of who was not

Masks between two members cancel in the sum; those with a member that dropped out are rebuilt from its key. The own
mask keeps a late message unread, whose mask key was given away already. Against a server that follows the protocol
and wants to know more (honest but curious), alone or together with fewer than `least_answers` members. It learns the
sum of those who were heard, and nothing if they are too few.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import combinations, islice
from typing import TypeVar

import numpy as np

from ofediq.errors import WireError, require
from ofediq.federation.secure.masking import (
    KEY_BYTES,
    Residues,
    agree,
    mask,
    new_key,
    restored_key,
    seal,
    unseal,
)
from ofediq.federation.secure.shamir import MAX_SHARES, join, split

MIN_COHORT = 8
"""Members of a smaller cohort say nothing."""

MAX_COHORT = MAX_SHARES

TRIES = 500
"""So many ways to leave out members whose answers contradict the others' are tried."""

Value = TypeVar("Value")


def least_answers(cohort: int) -> int:
    """How many of `cohort` members must be there at every point: two in three.

    More than half of them, so that no two lists of who was heard can both be answered by enough members.

    >>> least_answers(8), least_answers(30)
    (6, 20)
    """
    return -(-2 * cohort // 3)


class Member:
    """One member in one round. Its methods are called in their order, each once; it says nothing twice.

    Args:
        number: its own.
        round_name: what the round is called, the same for everyone and never used again.
        least: it answers about no fewer members than that: their noise would not be what was promised.
    """

    def __init__(self, number: int, round_name: bytes, least: int = 0) -> None:
        self.number, self._name, self._least = number, round_name, least
        self._mask_key, self._seal_key = new_key(), new_key()
        self._own_seed = os.urandom(KEY_BYTES)
        self._keys: dict[int, bytes] = {}
        self._partners: tuple[int, ...] = ()
        self._sealed: dict[int, bytes] = {}
        self._answered = False

    def keys(self) -> bytes:
        """Its public keys."""
        return b"".join(key.public_key().public_bytes_raw() for key in (self._mask_key, self._seal_key))

    def shares(self, keys: Mapping[int, bytes]) -> dict[int, bytes]:
        """Sealed shares for the others, from everyone's keys; `WireError` if the cohort is not acceptable."""
        if self._keys:
            raise WireError("keys: they came already")
        if not MIN_COHORT <= len(keys) <= MAX_COHORT or keys.get(self.number) != self.keys():
            raise WireError(
                f"keys: {len(keys)} members, where {MIN_COHORT} to {MAX_COHORT} belong, this one among them"
            )
        if len(set(keys.values())) < len(keys) or any(len(key) != 2 * KEY_BYTES for key in keys.values()):
            raise WireError("keys: two members share them, or a length is wrong")
        self._keys = dict(sorted(keys.items()))
        needed, count = least_answers(len(keys)), len(keys)
        secrets = (self._mask_key.private_bytes_raw(), self._own_seed)
        pairs = zip(*(split(secret, needed, count) for secret in secrets), strict=True)
        made = {number: first + second for number, (first, second) in zip(self._keys, pairs, strict=True)}
        self._sealed[self.number] = made.pop(self.number)
        return {other: seal(self._seal_secret(self.number, other), both) for other, both in made.items()}

    def masked(self, symbols: Residues, bits: int, shares: Mapping[int, bytes]) -> Residues:
        """Its symbols under masks, from the shares that the others sealed for it: who they are is who takes part."""
        if self._partners or not self._keys:
            raise WireError("shares: they came already, or before the keys")
        if len(shares) + 1 < max(self._least, least_answers(len(self._keys))) or not set(shares) < set(
            self._keys
        ):
            raise WireError(f"shares: of {len(shares) + 1} members, which is too few, or of strangers")
        self._sealed |= {
            other: unseal(self._seal_secret(other, self.number), one) for other, one in shares.items()
        }
        self._partners = tuple(sorted((*shares, self.number)))
        total = symbols + mask(self._own_seed, len(symbols), bits)
        for other in shares:
            drawn = mask(self._mask_secret(other), len(symbols), bits)
            total = total + drawn if self.number < other else total - drawn
        return total & np.uint32(2**bits - 1)

    def answer(self, heard: Iterable[int]) -> bytes:
        """Shares that unmask the sum over `heard`: of own seeds of these, of mask keys of the other partners."""
        there = set(heard)
        if self._answered or not self._partners:
            raise WireError("heard: it came already, or before the shares")
        if len(there) < max(self._least, least_answers(len(self._keys))) or not there <= set(self._partners):
            raise WireError(f"heard: {len(there)} members, which is too few, or strangers")
        self._answered = True
        parts = (
            self._sealed[one][KEY_BYTES:] if one in there else self._sealed[one][:KEY_BYTES]
            for one in self._partners
        )
        return b"".join(parts)

    def _mask_secret(self, other: int) -> bytes:
        low, high = sorted((self.number, other))
        return agree(self._mask_key, self._keys[other][:KEY_BYTES], b"mask|%d|%d|" % (low, high) + self._name)

    def _seal_secret(self, sender: int, receiver: int) -> bytes:
        """Of one direction: a secret seals once."""
        other = receiver if sender == self.number else sender
        return agree(
            self._seal_key, self._keys[other][KEY_BYTES:], b"seal|%d|%d|" % (sender, receiver) + self._name
        )


class Aggregator:
    """The server in one round: what it collects, and the sum in the end.

    Args:
        round_name, least: as for `Member`.
        length: symbols in a message.
        bits: m.
    """

    def __init__(self, round_name: bytes, length: int, bits: int, least: int = 0) -> None:
        self._name, self.length, self.bits, self._least = round_name, length, bits, least
        self.keys: dict[int, bytes] = {}  # who said hello
        self.sealed: dict[int, dict[int, bytes]] = {}  # by sender, by receiver
        self.masked: dict[int, Residues] = {}
        self.answers: dict[int, bytes] = {}

    @property
    def needed(self) -> int:
        """How many members must answer."""
        return least_answers(len(self.keys))

    @property
    def smallest(self) -> int:
        """How many members a sum has at least."""
        return max(self._least, self.needed)

    def take_keys(self, number: int, keys: bytes) -> None:
        """A member's public keys."""
        _once(self.keys, number, keys, len(keys) == 2 * KEY_BYTES, "keys")

    def take_shares(self, number: int, sealed: Mapping[int, bytes]) -> None:
        """A member's sealed shares: one for each of the others."""
        fits = number in self.keys and set(sealed) == set(self.keys) - {number}
        _once(self.sealed, number, dict(sealed), fits, "shares")

    def shares_for(self, number: int) -> dict[int, bytes]:
        """What the others sealed for a member."""
        return {sender: one[number] for sender, one in self.sealed.items() if sender != number}

    def take_masked(self, number: int, symbols: Residues) -> None:
        """A member's masked symbols."""
        fits = number in self.sealed and len(symbols) == self.length
        _once(self.masked, number, symbols, fits, "masked symbols")

    @property
    def heard(self) -> tuple[int, ...]:
        """Whose symbols came, ascending."""
        return tuple(sorted(self.masked))

    def take_answer(self, number: int, answer: bytes) -> None:
        """A member's shares, one for each who sealed any, in the order of their numbers."""
        fits = number in self.masked and len(answer) == KEY_BYTES * len(self.sealed)
        _once(self.answers, number, answer, fits, "answer")

    def total(self) -> Residues:
        """The sum of the symbols of those who were heard, modulo 2^m; `InputError` if too few answered."""
        require(
            len(self.masked) >= self.smallest and len(self.answers) >= self.needed,
            "answers",
            f"must be at least {self.needed}, about {self.smallest} members",
            len(self.answers),
        )
        places = {number: place for place, number in enumerate(sorted(self.keys), 1)}
        partners, modulus = sorted(self.sealed), np.uint32(2**self.bits - 1)
        secrets = self._agreed({places[one]: answer for one, answer in sorted(self.answers.items())})
        total = np.zeros(self.length, np.uint32)
        for symbols in self.masked.values():
            total = total + symbols
        for index, number in enumerate(partners):
            secret = secrets[index * KEY_BYTES : (index + 1) * KEY_BYTES]
            if number in self.masked:
                total = total - mask(secret, self.length, self.bits)
            else:
                total = total - self._left_over(number, secret)
        return total & modulus

    def _agreed(self, answers: Mapping[int, bytes]) -> bytes:
        """What the answers, by place, give together: all of them, or all but one or two that contradict the others.

        A wrong answer would make the sum a random one. If just as many answered as are needed, nobody can tell.
        """
        left_out = (out for count in range(3) for out in combinations(answers, count))
        for out in islice(left_out, TRIES):
            rest = {place: answer for place, answer in answers.items() if place not in out}
            if out and len(rest) <= self.needed:
                break
            some = dict(islice(rest.items(), self.needed))
            if all(join(some, at=place) == answer for place, answer in rest.items()):
                return join(some)
        raise WireError("answers: they contradict each other")

    def _left_over(self, number: int, secret: bytes) -> Residues:
        """What the masks with a member that was not heard left in the sum."""
        key = restored_key(secret)
        if key.public_key().public_bytes_raw() != self.keys[number][:KEY_BYTES]:
            raise WireError(f"answers: they do not give the key of member {number}")
        total = np.zeros(self.length, np.uint32)
        for other in self.masked:
            low, high = sorted((number, other))
            shared = agree(key, self.keys[other][:KEY_BYTES], b"mask|%d|%d|" % (low, high) + self._name)
            drawn = mask(shared, self.length, self.bits)
            total = total + drawn if other < number else total - drawn
        return total


def _once(known: dict[int, Value], number: int, value: Value, fits: bool, what: str) -> None:
    if not fits or number in known:
        raise WireError(f"{what}: of member {number} they do not fit, or came already")
    known[number] = value
