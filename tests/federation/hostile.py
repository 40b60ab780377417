"""Members that do harm: what they send in place of an honest update, through the real codec."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from ofediq.codec import pack_frame
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import Publish, UpdateMessage
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.updates import read_update
from ofediq.randomness import Address

Harm = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]


def hostile(server: Coordinator, share: float, harm: Harm) -> Callable[[str, Publish], Iterable[Publish]]:
    """For `Network.tamper`: the first `share` of the members send `harm` of their updates."""
    bad = {f"c{number}" for number in range(round(share * len(server.rules.roster)))}

    def tamper(name: str, one: Publish) -> Iterable[Publish]:
        said = UpdateMessage.decode(one.payload, server.step + server.method.period)
        if name not in bad or not said.body:
            return [one]
        address = Address(server.task.seed, said.step, int(name[1:]))
        down, piece = server.keeper.state.down, server.method.compress
        vector = harm(read_update(server.method, said.body, down, address).vectors["update"])
        signal = None if piece.signal is None else float(down.scalars[piece.signal])
        body = pack_frame(piece.encode(vector.astype(np.float32), address, signal), said.step)
        return [Publish(one.topic, UpdateMessage(Report(), said.step, body).encode())]

    return tamper
