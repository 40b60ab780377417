"""A few symbols in as few bits as possible: arithmetic coding with integers of any length.

A stack of numeral systems wastes up to 24 bits on its first symbols, because its state starts at 0. Messages of a few
coordinates are not much longer than that, so what lies at the bottom of a stack is written like this instead: a
short fraction inside the interval that belongs to the symbols. At most two bits and the rest of a byte are lost.
"""

from __future__ import annotations

import numpy as np

from ofediq.codec.message import Symbols
from ofediq.codec.tables import PRECISION, Ints
from ofediq.errors import WireError


def write_exact(symbols: Symbols, frequencies: Ints) -> bytes:
    """The fraction of `symbols`, 256^-1 in its first byte; zeros at its end are left out.

        low, width = 0, 1;  for each symbol:  low = 2^24 low + width (sum of frequencies before it), width *= its own

    The smallest fraction in [low, low + width) of the smallest size from (24 n - bits of width) div 8 bytes on.

    Args:
        symbols: from 0 to len(frequencies) - 1.
        frequencies: integers >= 1 that add up to 2^24.

    >>> write_exact(np.array([0, 1, 0], np.int32), np.array([2**23, 2**23])).hex()  # 0.010 in binary
    '40'
    """
    starts = frequencies.cumsum() - frequencies
    low, width = 0, 1
    for start, own in zip(starts[symbols].tolist(), frequencies[symbols].tolist(), strict=True):
        low, width = (low << PRECISION) + width * start, width * own
    bits = PRECISION * symbols.size
    size = max(0, bits - width.bit_length()) // 8
    while True:
        shift = bits - 8 * size
        code = -(-low >> shift) if shift >= 0 else low << -shift
        if (code << max(shift, 0)) < (low + width) << max(-shift, 0):
            return code.to_bytes(size, "big").rstrip(b"\0")
        size += 1


def read_exact(data: bytes, count: int, frequencies: Ints) -> Symbols:
    """The inverse of `write_exact`.

    Raises:
        WireError: `data` is not what `write_exact` makes of any symbols.
    """
    starts = frequencies.cumsum() - frequencies
    shift = PRECISION * count - 8 * len(data)
    if shift < -8:
        raise WireError("entropy code: bytes are left over")
    rest, width = int.from_bytes(data, "big"), 1
    rest, unit = (rest << shift, 0) if shift >= 0 else (rest, -shift)
    symbols = np.empty(count, np.int32)
    for index in range(count):
        scale = PRECISION * (count - 1 - index) + unit
        symbol = int(starts.searchsorted((rest >> scale) // width, "right")) - 1
        symbols[index] = symbol
        rest -= width * int(starts[symbol]) << scale
        width *= int(frequencies[symbol])
    if write_exact(symbols, frequencies) != data:
        raise WireError("entropy code: there is another one for the same symbols")
    return symbols
