"""Hostile clients for experiments: what some of them put in the place of their updates.

A hostile client is one whose compressor is handed something else. So every method and engine can be attacked, and
what arrives is what a real client of bad will could have sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.calls import parse_call
from ofediq.codec import Encoded
from ofediq.errors import require_choice
from ofediq.methods.budgets.loudness import length
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor, Identity
from ofediq.methods.pieces import piece
from ofediq.randomness import Address
from ofediq.settings import Positive, Share
from ofediq.wrapping import of_inner

Way = Literal["flip", "scale", "constant"]
WAYS: tuple[Way, ...] = ("flip", "scale", "constant")


@piece
@dataclass(frozen=True)
class Hostile(Compressor):
    """As `inner`, but some clients send something else than their update u.

    flip: -size u;  scale: size u;  constant: always the same direction, size |u| long.

    Attributes:
        inner: what they compress with.
        way: what they do.
        share: of the clients, in [0, 1]; client k is hostile if 37 k mod 100 < 100 share.
        size: by what factor.
    """

    inner: Compressor
    way: Way
    share: Share = 0.1
    size: Positive = 1.0
    coding = of_inner()
    signal = of_inner()
    check = of_inner()
    formula_bits = of_inner()
    decode = of_inner()  # the server knows of nothing

    def bad(self, client: Array) -> Array:
        """Which clients are hostile."""
        return (client * 37) % 100 < np.float32(100 * self.share)

    def harmed(self, updates: Array, client: Array) -> Array:
        """What the clients hand to the inner compressor."""
        xp = namespace(updates)
        if self.way == "constant":
            each = np.float32(self.size / np.sqrt(updates.shape[-1])) * length(updates)[..., None]
            harm = xp.ones_like(updates) * each
        else:
            harm = np.float32(self.size if self.way == "scale" else -self.size) * updates
        return xp.where(self.bad(client)[..., None], harm, updates)

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes."""
        return self.inner.apply(self.harmed(updates, address.client), address, signal)

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """The message of one client, hostile or not."""
        rows = self.harmed(np.asarray(update, np.float32)[None], np.array([address.client]))
        return self.inner.encode(rows[0], address, signal)


def attack(text: str) -> dict[str, Any]:
    """Way and numbers of the attack that `text` names.

    >>> attack("flip(share=0.3, size=990)")
    {'way': 'flip', 'share': 0.3, 'size': 990}
    """
    way, given = parse_call(text, what="attack")
    require_choice("attack", way, WAYS)
    for name in given:
        require_choice("attack", name, ("share", "size"))
    Hostile(Identity(), cast(Way, way), **given)  # says what is wrong
    return {"way": way, **given}


def attacked(chosen: Method, text: str) -> Method:
    """`chosen` with hostile clients, such as "flip(share=0.1)".

    >>> from ofediq.methods import fedogd
    >>> attacked(fedogd(), "scale(size=1000)").compress.share
    0.1
    """
    return replace(chosen, compress=Hostile(chosen.compress, **attack(text)))
