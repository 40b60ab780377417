"""Addressable random numbers: every draw is a function of (seed, step, client, purpose, index).

A counter-based 32-bit hash instead of a stream: no state, so a draw does not depend on chunking, on the number
of devices, on the order of arrival or on what was drawn before. A resumed run equals an uninterrupted one, and a
server can recompute what a client drew.

The arithmetic uses only operators of unsigned 32-bit integers, which NumPy and JAX arrays share, so the same
source serves the device (NumPy) and the simulator (inside `jax.jit`), bit for bit.

    left  = mix(mix(mix(seed ^ G) + step) ^ purpose * P)
    right = mix(mix(mix(seed ^ R) ^ step) + purpose * P)
    key   = (mix(left + client), mix(mix(client ^ C) + right))             two words
    word  = mix(mix(index ^ key[0]) + key[1])
    draw  = (floor(word / 2^9) + 1/2) * 2^-23

Everything enters both words of the key, in different ways. With the client in one word only, the streams of two
clients would be the same sequence in another order; with seed, step and purpose folded into 32 bits, a long run
would meet the same key again for another purpose (about 16 times in 2^18 steps).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

_GOLDEN = np.uint32(0x9E3779B9)
_RIGHT = np.uint32(0xD1B54A33)
_CLIENT = np.uint32(0xC2B2AE35)
_SHIFT_9, _SHIFT_15, _SHIFT_16 = np.uint32(9), np.uint32(15), np.uint32(16)
_FACTOR_1, _FACTOR_2 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_HALF, _CELL = np.float32(0.5), np.float32(2.0**-23)


class Purpose(IntEnum):
    """What a draw is for. Different purposes never share a number."""

    PARTICIPATE = 1
    ROUND = 2
    NORM = 3
    ROTATE = 4
    ORDER = 5
    DOWNLINK = 6
    SUPPORT = 7
    NOISE = 8
    KERNEL = 16


class Key(NamedTuple):
    """Two 32-bit words that address one stream of draws. Each may be an array (one stream per client)."""

    first: Any
    second: Any


class Address(NamedTuple):
    """Where the draws of a message come from. `client` may be an array: one stream each.

    >>> Address(0, 1, np.arange(3)).key(Purpose.ROUND).first.shape
    (3,)
    """

    seed: Any
    step: Any
    client: Any

    def key(self, purpose: Purpose) -> Key:
        """The stream of draws for `purpose`."""
        return stream_key(self.seed, self.step, self.client, purpose)


def stream_key(seed: Any, step: Any, client: Any, purpose: Purpose) -> Key:
    """The key of the stream for (seed, step, client, purpose); arguments broadcast.

    Seed, step and client count modulo 2^32.

    >>> key = stream_key(0, 1, np.arange(3), Purpose.ROUND)
    >>> key.first.shape
    (3,)
    """
    seed, step, client = _word(seed), _word(step), _word(client)
    tag = _word(int(purpose) * 0x85EBCA6B)
    with np.errstate(over="ignore"):  # NumPy scalars, which are fast, warn when they wrap
        left = _mix(_mix(_mix(seed ^ _GOLDEN) + step) ^ tag)
        right = _mix(_mix(_mix(seed ^ _RIGHT) ^ step) + tag)
        first, second = _mix(left + client), _mix(_mix(client ^ _CLIENT) + right)
    return Key(_array(first), _array(second))


def words(key: Key, index: Any) -> Any:
    """32 random bits for each index of the stream `key`, as unsigned 32-bit integers.

    >>> key = stream_key(0, 1, 2, Purpose.ROUND)
    >>> bool((words(key, np.arange(4)) == words(key, np.arange(2, 4))[0]).sum() == 1)
    True
    """
    return _mix(_mix(_word(index) ^ key.first) + key.second)


def uniform(key: Key, index: Any) -> Any:
    """Uniform draws on the midpoints of a grid of 2^23 cells of (0, 1), as float32, each exact.

    Midpoints make `uniform < q` true with probability `round(2^23 q) / 2^23`: no systematic error.

    >>> draws = uniform(stream_key(0, 1, 2, Purpose.ROUND), np.arange(10_000))
    >>> abs(float(draws.mean()) - 0.5) < 0.02
    True
    """
    draws = (words(key, index) >> _SHIFT_9).astype(np.float32)
    draws += _HALF
    draws *= _CELL
    return draws


def _word(value: Any) -> Any:
    """`value` as unsigned 32-bit integers: a scalar from an int, else an array."""
    if isinstance(value, int):
        return np.uint32(value & 0xFFFFFFFF)
    if hasattr(value, "aval"):  # a JAX array or tracer stays one
        return value.astype(np.uint32)
    return _array(np.asarray(value).astype(np.uint32, copy=False))


def _array(word: Any) -> Any:
    """`word` with at least one axis: NumPy arrays wrap in silence."""
    return word if hasattr(word, "aval") else np.atleast_1d(word)


def _mix(word: Any) -> Any:
    """A bijection of 32-bit words with low bias (two rounds of multiply and xor-shift).

    The first operator makes a new array; the others work in place on it (JAX arrays are rebound instead).
    """
    word = word ^ (word >> _SHIFT_16)
    word *= _FACTOR_1
    word ^= word >> _SHIFT_15
    word *= _FACTOR_2
    word ^= word >> _SHIFT_16
    return word
