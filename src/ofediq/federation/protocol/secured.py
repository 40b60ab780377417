"""Secure aggregation inside a round: what server and client say to each other beside model and update.

    s/<name>        client    keys, sealed shares, or the answer
    cohort          server    everyone's keys; later, who was heard
    shares/<name>   server    the shares that were sealed for one client

Each starts with a kind and the round's step. The masked symbols are an update like any other. A round that loses too
many members at any point ends empty, as if nobody had sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from ofediq.codec import Additive, Encoded
from ofediq.errors import InputError, WireError, require
from ofediq.federation.protocol.messages import Publish, write_body
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.secure import MIN_COHORT, Aggregator, Member
from ofediq.methods import Method
from ofediq.methods.privacy import least_of
from ofediq.randomness import Address

_HEAD = struct.Struct("<BQ")  # kind, step
_NUMBER = struct.Struct("<IH")  # member, length of what follows
KEYS, SHARES, ANSWER, HEARD = range(4)


def require_additive(method: Method) -> Additive:
    """The method's compressor, if its messages add up unread; else `InputError`."""
    piece = method.compress
    if not isinstance(piece, Additive) or list(method.client.sends(1)) != ["update"]:
        raise InputError(
            f"`secure` needs a method whose messages add up unread, such as secure or private, got {method.name}"
        )
    require(
        method.combine.adds, "combine", "must be the plain sum where nobody reads updates", method.combine
    )
    require(piece.senders >= MIN_COHORT, "senders", f"must be at least {MIN_COHORT}", piece.senders)
    return piece


def patient(rules: Rules, method: Method) -> Rules:
    """`rules` by which no round opens that could only end empty, where updates are added up unread."""
    least = max(MIN_COHORT, least_of(method)) if rules.secure else 0
    return replace(rules, min_clients=max(rules.min_clients, least))


def round_name(federation: str, epoch: int, step: int) -> bytes:
    """What members and server call a round; a server that is restarted has another epoch."""
    return f"{federation}|{epoch}|{step}".encode()


def pack(kind: int, step: int, parts: Mapping[int, bytes]) -> bytes:
    """A message: for each member its number and what belongs to it.

    >>> unpack(pack(KEYS, 7, {3: b"key"}))
    (0, 7, {3: b'key'})
    """
    rows = (_NUMBER.pack(number, len(part)) + part for number, part in parts.items())
    return _HEAD.pack(kind, step) + b"".join(rows)


def unpack(data: bytes) -> tuple[int, int, dict[int, bytes]]:
    """The inverse of `pack`, or `WireError`."""
    try:
        kind, step = _HEAD.unpack_from(data)
        parts, at = {}, _HEAD.size
        while at < len(data):
            number, size = _NUMBER.unpack_from(data, at)
            parts[number] = data[at + _NUMBER.size : at + _NUMBER.size + size]
            at += _NUMBER.size + size
    except struct.error:
        raise WireError("secure: a message is cut short") from None
    if at != len(data):
        raise WireError("secure: a message is cut short")
    return kind, step, parts


class SecureRound:
    """The server's side of one round.

    Args:
        federation: name, first part of all topics.
        piece: what is added up.
        epoch: of the server.
        step: of the round.
        since: when it opened.
        deadline: seconds that it may take in all; each of the four phases has a quarter.
        least: members whose sum may be known.
    """

    def __init__(
        self,
        federation: str,
        piece: Additive,
        epoch: int,
        step: int,
        since: float,
        deadline: float,
        least: int = 0,
    ) -> None:
        self._federation, self._step, self._piece = federation, step, piece
        self._since, self._quarter = since, deadline / 4
        self.aggregator = Aggregator(round_name(federation, epoch, step), piece.keep, piece.bits, least)
        self.phase = 0  # keys, shares, symbols, answers; 4 is the end

    @property
    def ends(self) -> float:
        """When the present phase ends at the latest."""
        return self._since + (min(self.phase, 3) + 1) * self._quarter

    @property
    def shortage(self) -> str:
        """Why no sum came out, in words."""
        one = self.aggregator
        said = (len(one.keys), len(one.sealed), len(one.masked))  # nobody goes on where too few are left
        stayed, enough = min(filter(None, said), default=0), max(MIN_COHORT, one.smallest)
        return f"{stayed} members stayed to the end, at least {enough} are needed, and the answers of {one.needed}"

    def receive(self, number: int, payload: bytes) -> None:
        """A message of a member, or `WireError`."""
        kind, step, parts = unpack(payload)
        if step != self._step or kind != (KEYS, SHARES, None, ANSWER, None)[self.phase]:
            raise WireError("secure: a message out of turn")
        if kind == KEYS:
            self.aggregator.take_keys(number, parts.get(number, b""))
        elif kind == SHARES:
            self.aggregator.take_shares(number, parts)
        else:
            self.aggregator.take_answer(number, parts.get(number, b""))

    def take(self, number: int, payload: bytes) -> None:
        """A member's masked symbols, or `WireError`."""
        if self.phase != 2:
            raise WireError("secure: symbols out of turn")
        self.aggregator.take_masked(number, self._piece.read(payload))

    def advance(self, names: Mapping[int, str], awaited: Callable[[int], bool], now: float) -> list[Publish]:
        """Go on to the next phase once everyone who is awaited was heard, or in time."""
        made: list[Publish] = []
        sum_ = self.aggregator
        while self.phase < 4:
            before, after = self._before_and_after(names)
            if now < self.ends and any(awaited(number) for number in before if number not in after):
                break
            enough = (MIN_COHORT, 1, 1, 1)[self.phase], sum_.needed if self.phase == 3 else sum_.smallest
            if len(after) < max(enough):
                self.phase = 4
                break
            self.phase += 1
            made += self._say(names)
        return made

    def _before_and_after(self, names: Iterable[int]) -> tuple[list[int], list[int]]:
        """Who may speak in this phase, and who has spoken."""
        one = self.aggregator
        said: tuple[Iterable[int], ...] = (names, one.keys, one.sealed, one.masked, one.answers)
        return list(said[self.phase]), list(said[self.phase + 1])

    def _say(self, names: Mapping[int, str]) -> list[Publish]:
        """What opens the phase."""
        one = self.aggregator
        if self.phase == 1:
            return [self._publish("cohort", pack(KEYS, self._step, one.keys))]
        if self.phase == 2:
            return [
                self._publish(f"shares/{names[number]}", pack(SHARES, self._step, one.shares_for(number)))
                for number in one.sealed
            ]
        if self.phase == 3:
            return [self._publish("cohort", pack(HEARD, self._step, dict.fromkeys(one.heard, b"")))]
        return []

    def total(self, dim: int, address: Address) -> np.ndarray[tuple[int], np.dtype[np.float32]] | None:
        """The sum of what the members sent; None if too few stayed to the end, or if they contradict each other.

        It is cut to what honest members could have sent: nobody can look at one member's part of it.
        """
        try:
            symbols = self._piece.lift(self.aggregator.total())
        except InputError:
            return None
        longest = self._piece.longest_sum(len(self.aggregator.masked))
        length = float(np.linalg.norm(symbols.astype(np.float64)))
        total: np.ndarray[tuple[int], np.dtype[np.float32]] = self._piece.values(symbols[None], dim, address)[
            0
        ]
        return total if length <= longest else total * np.float32(longest / length)

    def _publish(self, kind: str, payload: bytes) -> Publish:
        return Publish(f"{self._federation}/{kind}", payload)


class SecureMember:
    """A client's side of one round: it knows its symbols when its window is done, and sends them when it may.

    Args:
        federation: name, first part of all topics.
        name: the client's own.
        number: its number.
        piece: what is added up.
        epoch: of the server.
        step: of the round.
        least: members whose sum may be known.
    """

    def __init__(
        self, federation: str, name: str, number: int, piece: Additive, epoch: int, step: int, least: int = 0
    ) -> None:
        self._topic, self._number, self._piece, self._step = f"{federation}/s/{name}", number, piece, step
        self._member = Member(number, round_name(federation, epoch, step), least)
        self._shares: dict[int, bytes] | None = None
        self.payload: bytes | None = None  # its own symbols, not masked

    def hello(self) -> Publish:
        """Its public keys."""
        return self._said(KEYS, {self._number: self._member.keys()})

    def receive(self, kind: str, payload: bytes) -> tuple[list[Publish], bytes]:
        """A message of the server: what to answer, and the body of its update if it can be sent now."""
        which, step, parts = unpack(payload)
        if step != self._step:
            return [], b""
        if kind == "shares":
            self._shares = parts
            return [], self.body()
        if self._number not in parts:
            return [], b""  # it was too late for this round
        if which == KEYS:
            return [self._said(SHARES, self._member.shares(parts))], b""
        return [self._said(ANSWER, {self._number: self._member.answer(parts)})], b""

    def body(self) -> bytes:
        """The body of its update, once it has its symbols and the others' shares; else nothing."""
        if self._shares is None or self.payload is None:
            return b""
        symbols = self._piece.read(self.payload)
        masked = self._member.masked(symbols, self._piece.bits, self._shares)
        return write_body({"update": Encoded(self._piece.write(masked))}, self._step)

    def _said(self, kind: int, parts: Mapping[int, bytes]) -> Publish:
        return Publish(self._topic, pack(kind, self._step, parts))
