"""Shamir's shares of a secret, byte by byte: any `needed` of them give it back, fewer say nothing.

A. Shamir: How to Share a Secret, 1979, in the field of 256 elements with x^8 + x^4 + x^3 + x + 1. Share number i is
the value at i of a polynomial of degree needed - 1 whose other coefficients are drawn; the secret is its value at 0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ofediq.errors import require, require_integer

Bytes = npt.NDArray[np.uint8]

MAX_SHARES = 255


def _tables() -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Powers of 3, which generates the field, and its logarithms."""
    powers, logs, value = np.zeros(510, np.uint8), np.zeros(256, np.int64), 1
    for exponent in range(255):
        powers[exponent] = powers[exponent + 255] = value
        logs[value] = exponent
        doubled = value << 1
        value ^= doubled ^ (0x11B if doubled & 0x100 else 0)  # times x + 1
    return powers, logs


_POWERS, _LOGS = _tables()


def split(secret: bytes, needed: int, count: int) -> list[bytes]:
    """`count` shares, numbers 1, 2, ..., of which any `needed` give the secret back.

    >>> shares = split(b"a secret", needed=2, count=3)
    >>> join({3: shares[2], 1: shares[0]})
    b'a secret'
    """
    require_integer("count", count, 1, MAX_SHARES)
    require_integer("needed", needed, 1, count)
    drawn = np.frombuffer(os.urandom((needed - 1) * len(secret)), np.uint8).reshape(needed - 1, len(secret))
    numbers = np.arange(1, count + 1, dtype=np.uint8)[:, None]
    values = np.zeros((count, len(secret)), np.uint8)
    for row in (*drawn, np.frombuffer(secret, np.uint8)):  # Horner, the secret last
        values = _times(values, numbers) ^ row
    return [row.tobytes() for row in values]


def join(shares: Mapping[int, bytes], at: int = 0) -> bytes:
    """The secret of these shares by their numbers; of too few it is noise. `at` another number it is that share.

    >>> shares = split(b"a secret", needed=2, count=3)
    >>> join({1: shares[0], 2: shares[1]}, at=3) == shares[2]
    True
    """
    require(
        len({len(share) for share in shares.values()}) == 1, "shares", "must have one length", len(shares)
    )
    if at in shares:
        return shares[at]
    numbers = np.array(list(shares))
    above = _LOGS[at ^ numbers]
    below = _LOGS[numbers[:, None] ^ numbers[None]].sum(1)  # the logarithm of 0 is 0 in the table
    weights = _POWERS[(above.sum() - above - below) % 255]
    rows = np.array([np.frombuffer(share, np.uint8) for share in shares.values()])
    return np.asarray(np.bitwise_xor.reduce(_times(rows, weights[:, None]), axis=0)).tobytes()


def _times(one: npt.ArrayLike, other: npt.ArrayLike) -> Bytes:
    """Products in the field."""
    first, second = np.broadcast_arrays(np.asarray(one, np.uint8), np.asarray(other, np.uint8))
    product = _POWERS[_LOGS[first] + _LOGS[second]]
    return np.where((first == 0) | (second == 0), np.uint8(0), product)
