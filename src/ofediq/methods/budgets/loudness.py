"""How loud a client speaks: what its update costs, and what one broadcast number says about that.

A client whose update u has the norm n speaks with *loudness* r = n / (spread z): below 1 it is the probability of
sending, above 1 everything is sent, on a grid that is finer by r. The server broadcasts z, the common step of the
grid, and the largest loudness that it can pay for if everybody were that loud. Both are known to 8 bits, which is
enough, and travel as the two halves of one float32.

    r_k = min(n_k / (spread z), loudest),   p_k = min(1, r_k),   u_k / p_k is rounded to steps of
    z_k = z, or coarser, so that it is at most spread max(1, loudest) steps long

While the server knows no scale, z is `UNKNOWN`: all clients are then equally loud, each on a grid of its own norm.
"""

from __future__ import annotations

import numpy as np

from ofediq.arrays import Array, float32, namespace
from ofediq.errors import require_nonnegative

UNKNOWN = 2.0**-120
"""The step of the grid while the server knows nothing of the updates: smaller than any step it could choose."""

HEAD_BITS = 16.0
"""About what a message on the grid costs before its first coordinate: the model of its symbols."""

OWN_BITS = 40.0
"""What it costs more on a grid of its own: its norm, and the byte that says so."""

FRAME_BITS = 64.0
"""The frame that carries it live: no budget counts it unless it is told to, but the connection pays for it."""

_FINEST = 18.0  # bits per coordinate beyond which no grid goes: symbols have 16 and a sign


def pack(step: Array, loudest: Array = np.inf) -> Array:
    """z and the largest loudness, rounded to 8 bits each, in one float32; without one, nobody is too loud.

    >>> value = pack(np.float32(0.75), np.float32(3.0))
    >>> [float(one) for one in unpack(value)]
    [0.75, 3.0]
    """
    high = (_word(step) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
    low = (_word(loudest) + np.uint32(0x8000)) >> np.uint32(16)
    return (high | low).view(np.float32)


def unpack(signal: Array) -> tuple[Array, Array]:
    """z and the largest loudness in a broadcast number."""
    word = _word(signal)
    step, loudest = word & np.uint32(0xFFFF0000), word << np.uint32(16)
    return step.view(np.float32), loudest.view(np.float32)


def loudness(norms: Array, signal: Array, spread: float) -> Array:
    """r_k of clients whose updates have these norms; 0 if there is nothing to say, or nothing that can be said.

    >>> loudness(np.array([0.0, 1.0, 50.0], np.float32), pack(np.float32(1.0), np.float32(4.0)), 10.0)
    array([0. , 0.1, 4. ], dtype=float32)
    """
    xp = namespace(norms)
    step, loudest = unpack(signal)
    one = np.float32(spread) * step
    with np.errstate(over="ignore"):  # nobody is that loud
        capped = norms >= one * loudest  # compared before it is divided: no overflow with `UNKNOWN`
    wanted = xp.where(capped, loudest, xp.where(capped, np.float32(0), norms) / one)
    return xp.where(xp.isfinite(norms) & (norms > 0), wanted, np.float32(0))


def own_step(norms: Array, signal: Array, spread: float) -> Array:
    """z_k of messages with these norms: z, or the power of two that makes them short enough.

    A power of two, because everyone who computes it, in whatever arithmetic, must come to the same number.
    """
    xp = namespace(norms)
    step, loudest = unpack(signal)
    longest = np.float32(spread) * xp.maximum(loudest, np.float32(1))
    coarser = _up_to_power_of_two(
        norms / (longest * np.float32(1.001))
    )  # one that is just as long stays on z
    with np.errstate(over="ignore"):  # no message is that long
        return xp.where(norms > longest * np.float32(1.002) * step, coarser, step)


def length(vectors: Array) -> Array:
    """Norms of vectors [..., dim], without overflow or underflow on the way; 0 if a coordinate is not finite.

    >>> float(length(np.full(4, 1e30, np.float32)) / np.float32(1e30))
    2.0
    """
    xp = namespace(vectors)
    top = abs(vectors).max(-1)
    sound = (top > 0) & xp.isfinite(top)
    unit = xp.where(sound, top, np.float32(1))
    shares = xp.where(sound[..., None], vectors, np.float32(0)) / unit[..., None]
    return unit * xp.sqrt((shares * shares).sum(-1))


def cosine(one: Array, other: Array, unknown: float = 0.0) -> Array:
    """Of the angle between two vectors; `unknown` where one of them is zero.

    >>> float(cosine(np.array([1.0, 1.0]), np.array([0.0, 2.0])).round(3)), float(cosine(np.zeros(2), np.ones(2)))
    (0.707, 0.0)
    """
    xp = namespace(one)
    sizes = length(one), length(other)
    known = (sizes[0] > 0) & (sizes[1] > 0)
    here, there = (
        vector / xp.where(known, size, np.float32(1))
        for vector, size in zip((one, other), sizes, strict=True)
    )
    return xp.where(known, (here * there).sum(), np.float32(unknown))


def message_bits(reach: Array, dim: int, density: Array) -> Array:
    """About the bits of a message of norm `reach`, in grid steps.

        head + D log2(1 + 7 density reach / sqrt(D))

    No integers of mean size m have more entropy than geometric ones, and m <= reach / sqrt(D); this is close to it
    and can be solved for `reach`. `density` is ||u||_1 / (sqrt(D) ||u||_2): 1 if all coordinates are alike. No
    message is longer than `longest_message`.
    """
    mean = density * reach * np.float32(7 / np.sqrt(dim))
    xp = namespace(mean)
    bits = np.float32(HEAD_BITS) + np.float32(dim) * xp.log2(1 + mean)
    return xp.minimum(bits, np.float32(longest_message(dim)))


def longest_message(dim: int) -> float:
    """Bits of the finest message: symbols of 17 bits and a norm, or float32 numbers if those are less.

    >>> longest_message(1), longest_message(1000)
    (32.0, 17040.0)
    """
    return min(17.0 * dim + 40.0, 32.0 * dim)


def reach_for(bits: Array, dim: int, density: Array) -> Array:
    """The norm of a message that costs `bits`, in grid steps: the inverse of `message_bits`.

    >>> round(float(reach_for(message_bits(np.float32(30), 1000, np.float32(1)), 1000, np.float32(1))), 3)
    30.0
    """
    xp = namespace(bits)
    each = xp.clip((bits - np.float32(HEAD_BITS)) / np.float32(dim), np.float32(0), np.float32(_FINEST))
    each = xp.where(bits >= np.float32(longest_message(dim)), np.float32(_FINEST), each)
    return (xp.exp2(each) - 1) * np.float32(np.sqrt(dim) / 7) / density


def best_spread(extra_bits: float = 0.0) -> float:
    """Norm of a sampled update in grid steps that teaches most per bit; `extra_bits` a message beside its frame.

    With h bits per message and c per coordinate that is not zero, sampling and rounding leave the variance
    n z (spread + a) of an update with norm n and ||u||_1 = a n, and cost n / z (h / spread + a c) bits. The product
    is least at spread = sqrt(h / c), whatever a is. Positions, signs and values take about c = 9 bits.

    >>> round(best_spread(), 1), round(best_spread(850), 1)
    (3.0, 10.2)
    """
    beside = require_nonnegative("extra_bits", extra_bits)
    return float(np.sqrt((HEAD_BITS + FRAME_BITS + beside) / 9.0))


def _word(number: Array) -> Array:
    return float32(number).view(np.uint32)


def _up_to_power_of_two(number: Array) -> Array:
    """The next power of two that is not smaller, for positive float32 numbers."""
    return ((_word(number) + np.uint32(0x7FFFFF)) & np.uint32(0x7F800000)).view(np.float32)
