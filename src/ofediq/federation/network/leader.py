"""Which of several servers of a federation leads: the one that started last, if it knows what the others did.

Every server says on the retained topic `leader` when it started and how far it has come. Before it leads it asks:
what the broker has kept on a topic arrives before the question comes back, and a server that leads answers it with
how far it is now. A newcomer that knows less than the federation refuses; a server that hears of a later one stops.
Both say so in a sentence.
"""

from __future__ import annotations

import math
import time

from ofediq.errors import InputError
from ofediq.federation.network.broker import BrokerError
from ofediq.federation.network.link import Link
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import Publish, read_json, write_json

ANSWER = 3.0
"""Seconds that the question may take; a broker whose access list forbids the topic never returns it."""


LIVE = 2.0
"""Seconds that a server which has claimed to lead has for its answer; one that was killed has none."""


class SupersededError(BrokerError):
    """Another server leads this federation, or should."""


class Leadership:
    """The claim of one server.

    Args:
        coordinator: whose epoch and step it is about.
        new: whether it leads though others have come further.
    """

    def __init__(self, coordinator: Coordinator, *, new: bool = False) -> None:
        self.coordinator, self.new = coordinator, new
        coordinator.begins_anew = new
        self.topic = f"{coordinator.federation}/leader"
        self._leads = False
        self._claims = 0  # of others, that were heard
        self.asked = False  # whether somebody wants to know how far it is

    def follow(self, coordinator: Coordinator) -> None:
        """Another coordinator has taken over, by the operator's will."""
        self.coordinator = coordinator
        coordinator.begins_anew = True

    def claim(self, *, withdrawn: bool = False) -> Publish:
        """What is kept by the broker for those who come later; nothing, if it is withdrawn."""
        self._leads, self.asked = True, False
        content = write_json(epoch=self.coordinator.keeper.epoch, step=self.coordinator.step)
        return Publish(self.topic, b"" if withdrawn else content, retain=True)

    async def ask(self, link: Link) -> list[tuple[str, bytes]]:
        """Hear what others have claimed; returns the messages of clients that came meanwhile."""
        mark, others, self._claims = str(time.monotonic_ns()), [], 0
        await link.publish(Publish(self.topic, write_json(asks=mark)))
        until, enough = time.monotonic() + ANSWER, math.inf  # claims after which nobody else is waited for
        while self._claims < enough and (left := until - time.monotonic()) > 0:
            item = await link.receive(left)
            if item is None:
                break
            if item[0] != self.topic:
                others.append(item)
            elif self._heard(item[1], mark):  # whoever made a claim may be alive, and further than it says
                until, enough = time.monotonic() + LIVE, self._claims + 1 if self._claims else 0
        return others

    def check(self) -> None:
        """Raise `SupersededError` if clients have seen more than this server knows."""
        seen = self.coordinator.ahead
        if seen is not None:
            raise SupersededError(self._behind(seen))

    def hear(self, payload: bytes) -> None:
        """Raise `SupersededError` if somebody else leads now."""
        self._heard(payload, "")

    def _heard(self, payload: bytes, mark: str) -> bool:
        """Whether this is our question."""
        try:
            content = read_json("leader", payload) if payload else {}
        except InputError:
            return False
        if "asks" in content:
            own = bool(content["asks"] == mark)
            self.asked = self.asked or (self._leads and not own)
            return own
        epoch, step = content.get("epoch"), content.get("step")
        if not (isinstance(epoch, int) and isinstance(step, int) and 0 <= epoch < 2**63):
            return False
        keeper = self.coordinator.keeper
        self._claims += epoch != keeper.epoch
        if epoch > keeper.epoch and (self._leads or not self.new):
            name = self.coordinator.federation
            raise SupersededError(
                f"another server of {name!r} has started since (at step {step}): this one stops"
            )
        if (
            not self._leads
            and not self.new
            and step > self.coordinator.step + 2 * self.coordinator.method.period
        ):
            raise SupersededError(self._behind(step))
        keeper.epoch = max(keeper.epoch, epoch + (epoch != keeper.epoch))
        return False

    def _behind(self, step: int) -> str:
        one = self.coordinator
        return (
            f"federation {one.federation!r} has come to step {step}, this server's folder to {one.step}: it refuses "
            "to lead without `--new`; with the other server's folder it would go on"
        )
