"""Messages that no honest client sends."""

from __future__ import annotations

import numpy as np

from ofediq.codec import Raw, pack_frame
from ofediq.federation.protocol.messages import Publish, UpdateMessage, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.randomness import Address


def forged(federation: str) -> list[Publish]:
    """An update of c1, a model of the server's and the last will of c0, whoever publishes them."""
    frame = pack_frame(Raw().encode(np.full(650, 1e6, np.float32), Address(0, 1, 1)), step=1)
    return [
        Publish(f"{federation}/u/c1", UpdateMessage(Report(), 1, frame).encode()),
        Publish(f"{federation}/model", b"nonsense", retain=True),
        Publish(f"{federation}/here/c0", write_json(online=False), retain=True),
        Publish(f"{federation}/here/mallory", write_json(online=True), retain=True),
    ]
