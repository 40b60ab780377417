"""How the server's model reaches the clients: whole, or as a difference from what they have.

Whole models are retained on `model`: that of a server's first round, those of a refresh, the final one. All others
are differences on `d`, which no broker keeps and nobody acknowledges. A client that comes late or missed some greets
(again). On a topic of its own, so that the fleet does not pay for it, it gets those that it missed, or the whole
model if that is shorter.
"""

from __future__ import annotations

import numpy as np

from ofediq.codec import Encoded
from ofediq.federation.protocol.messages import ModelMessage, write_chain
from ofediq.methods import Method
from ofediq.methods.round import RoundState


class Broadcasting:
    """The server's broadcasts of one method.

    Attributes:
        retained: t of the whole model that the broker keeps; None before the first.
    """

    def __init__(self, method: Method, seed: int) -> None:
        self.method, self.seed = method, seed
        self.retained: int | None = None
        self._difference: Encoded | None = (
            None  # of the last closed round; None if clients need the whole model
        )
        self._chain: list[tuple[int, bytes]] = []  # the last ones, each with the step of the round before it

    def closed(self, before: RoundState, after: RoundState, step: int) -> RoundState:
        """Make the broadcast that ends the round of `step`; the state has the copy that clients will decode."""
        broadcast, self._difference = self.method.broadcast, None
        if broadcast.exact:
            return after
        params, copy = np.asarray(after.params, np.float32), np.asarray(before.down.model, np.float32)
        number = int(self.method.number_to(step))
        encoded, adds = broadcast.encode(params, copy, self.seed, step, number)
        if adds:
            self._difference = encoded
        model = broadcast.decode(encoded, adds, copy, params.size, self.seed, step)
        return after._replace(down=after.down._replace(model=model))

    def opening(self, message: ModelMessage) -> tuple[str, bytes]:
        """Topic and payload that open a round for everyone."""
        if self._difference is None or message.final:
            self._chain = []
            return self.whole(message)
        said, length = message.encode(self._difference), int(self.method.window_to(message.step))
        self._chain.append((message.step - length, said))
        whole = 4 * np.size(message.down.model)
        while sum(len(one) for _, one in self._chain) > whole:  # then the model is shorter
            del self._chain[0]
        return "d", said

    def since(self, step: int) -> bytes | None:
        """The differences that a client missed whose last round was that of `step`, in one message; None without."""
        steps = [before for before, _ in self._chain]
        if step not in steps:
            return None
        return write_chain(said for _, said in self._chain[steps.index(step) :])

    def whole(self, message: ModelMessage) -> tuple[str, bytes]:
        """The same for clients that have nothing to add a difference to."""
        self.retained = message.step
        return "model", message.encode()

    def lacks(self, step: int) -> bool:
        """Whether who finds the retained model does not have that of `step`."""
        return self.retained != step
