"""What clients sent in a round: decoded, cut to size, added up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Vector
from ofediq.codec import Encoded
from ofediq.errors import WireError
from ofediq.federation.protocol.messages import UpdateMessage, read_body
from ofediq.federation.protocol.monitor import Round
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.secured import SecureRound
from ofediq.methods import Method
from ofediq.methods.client import Down
from ofediq.methods.robust.measures import added
from ofediq.methods.round import RoundState, formula_bits
from ofediq.methods.server.rule import Totals
from ofediq.randomness import Address

Vectors = dict[str, Vector]


class Update(NamedTuple):
    """What one client sent: the vectors by name, and the bits of their payloads."""

    vectors: Vectors
    bits: int


@dataclass
class OpenRound:
    """The open round."""

    step: int
    since: float
    clients: int
    due: frozenset[str] | None  # names; None when nobody can know beforehand
    updates: dict[str, Update]  # by name
    heard: set[str]  # everyone who spoke in this round, with or without an update
    served: set[str]  # who got the whole model alone
    catching_up: int = 0  # bits of those models
    secured: SecureRound | None = None  # where updates are added up unread
    arrived: int = 0  # updates that were read, whether they count or not
    bits: int = 0  # of these
    failed: Counter[str] = field(default_factory=Counter)  # frames that could not be read, by name
    waiting: set[str] = field(default_factory=set)  # who is waited for: due, there, not yet heard
    unread: dict[str, UpdateMessage] = field(default_factory=dict)  # updates to be read together, by name

    @cached_property
    def together(self) -> int:
        """So many updates are read at a time: one by one in small fleets, where nobody should wait for the others."""
        return max(1, min(64, (self.clients if self.due is None else len(self.due)) // 4))

    @property
    def lacks(self) -> bool:
        """Whether somebody is waited for even when all that is unread has been read."""
        return self.secured is None and len(self.waiting) > len(self.unread)

    def answered(self, there: Set[str]) -> bool:
        """Whether all who are waited for were heard; where nobody is, anybody of those who are `there` and due."""
        if self.waiting or self.heard:
            return not self.waiting
        return not there if self.due is None else self.due.isdisjoint(there)


def read_update(method: Method, body: bytes, down: Down, address: Address) -> Update:
    """The vectors in a message's body, or `WireError`."""
    (found,) = read_updates(method, [body], down, address._replace(client=np.array([address.client])))
    if isinstance(found, WireError):
        raise found
    return found


def read_updates(
    method: Method, bodies: Sequence[bytes], down: Down, address: Address
) -> list[Update | WireError]:
    """The vectors in the messages of the clients `address.client` [n], read together; errors are values."""
    sizes, clients = method.client.sends(down.model.shape[-1]), np.asarray(address.client)
    found: list[Update | WireError] = []
    messages: dict[int, dict[str, Encoded]] = {}  # by place, as long as they are in order
    for place, body in enumerate(bodies):
        try:
            messages[place] = read_body(body, sizes, address.step)
            found.append(Update({}, sum(one.bits for one in messages[place].values())))
        except WireError as error:
            found.append(error)
    for part, size in sizes.items():
        piece, places = method.compressor(part), list(messages)
        signal = None if piece.signal is None else float(down.scalars[piece.signal])
        encoded = [messages[place][part] for place in places]
        read = piece.decode_many(encoded, size, address._replace(client=clients[places]), signal)
        for place, vector in zip(places, read, strict=True):
            update = found[place]
            if isinstance(vector, WireError) or isinstance(update, WireError):
                found[place] = vector if isinstance(vector, WireError) else update
                del messages[place]
            else:
                update.vectors[part] = vector
    return found


def add_up(
    method: Method,
    dim: int,
    updates: Sequence[Update],
    factors: Sequence[float],
    clients: int,
    step: int,
) -> Totals:
    """The round's totals of `updates` in their order, each times its factor; 0 leaves it out."""
    some = [(one.vectors, factor) for one, factor in zip(updates, factors, strict=True) if factor > 0]
    weights = [factor for _, factor in some]
    sizes = method.client.sends(dim)
    totals = {
        part: added([vectors[part] for vectors, _ in some], weights, size) for part, size in sizes.items()
    }
    if some and not method.combine.adds:
        rows = np.array([added([vectors["update"]], [factor], sizes["update"]) for vectors, factor in some])
        totals["update"] = method.combine.total(rows, np.ones(len(rows), bool))
    # What does not count is not paid from the members' budget: it would be a way to spend it.
    bits = np.float32(sum(one.bits for one, factor in zip(updates, factors, strict=True) if factor > 0))
    return Totals(totals, np.int32(len(some)), bits, clients, np.int32(step))


def closed_round(
    method: Method,
    dim: int,
    one: OpenRound,
    reports: Sequence[Report],
    present: int,
    bits: tuple[float, float],
    seconds: float,
) -> Round:
    """The record of a round; `bits` are those up and down, `present` counts the connected clients."""
    each = formula_bits(method, dim)
    return Round(
        step=one.step,
        seconds=seconds,
        clients=one.clients,
        present=present,
        expected=None if one.due is None else len(one.due),
        senders=one.arrived,
        counted=len(one.updates),
        bits_wire=bits[0],
        bits_formula=bits[0] if math.isnan(each) else one.arrived * each,
        bits_fedogd=32.0 * dim * one.clients * int(method.window_to(one.step)),
        bits_downlink=bits[1],
        samples=sum(report.samples for report in reports),
        error=sum(report.error for report in reports),
        naive=sum(report.naive for report in reports),
    )


def is_finite(state: RoundState) -> bool:
    """Whether a model and what goes with it can be saved and published."""
    vectors = [state.params, state.down.model, *state.down.vectors.values()]
    return all(bool(np.isfinite(vector).all()) for vector in vectors)
