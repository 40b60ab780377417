"""Reading and writing `packed` in compiled code, bit for bit the same, where that is there already."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from ctypes import c_int32, c_uint32, c_void_p
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Flags, Numbers, Vector
from ofediq.kernels import library
from ofediq.kernels.structures import structures


class DigitLayout(NamedTuple):
    """Where the digits of a message are."""

    rounds: tuple[Any, ...]  # of `packed.Grouping`; a tuple, so that it is looked up quickly
    digits: int
    last_bytes: int


class SymbolScale(NamedTuple):
    """What makes numbers of symbols.

    Attributes:
        norms: [n, blocks], float32.
        levels: s.
        most: largest norm in order.
    """

    norms: Vector
    levels: int
    most: float


def read_rows(
    data: NDArray[np.uint8], tails: Sequence[int], layout: DigitLayout, scale: SymbolScale | None = None
) -> tuple[Numbers, Flags] | None:
    """Digits [n, count] of packed messages, uint32, or their numbers, float32; and which rows are in order.

    None where there is no compiled code, or none for this shape. Rows that are not in order hold anything.
    """
    code = library.find()
    if code is None or data.strides[1] != 1 or max(tails, default=0) > 255:
        return None
    rounds = _rounds(layout.rounds)
    ends = np.array(tails, np.uint8)
    found = np.empty((len(data), layout.digits), np.uint32 if scale is None else np.float32)
    good = np.empty(len(data), np.bool_)
    packed = structures("packed.h")["packed_rows"](
        data.ctypes.data,
        ends.ctypes.data,
        ctypes.addressof(rounds),
        len(data),
        data.strides[0],
        data.shape[1],
        layout.last_bytes,
        layout.digits,
        len(layout.rounds),
        digits=found.ctypes.data,
        good=good.ctypes.data,
    )
    if scale is not None:
        norms = np.ascontiguousarray(scale.norms)
        packed.levels, packed.most_norm = scale.levels, scale.most
        packed.norms, packed.blocks = norms.ctypes.data, norms.shape[1]
    return None if code.read_packed(ctypes.byref(packed)) else (found, good)


def write_groups(digits: Numbers, lowest: int, rounds: tuple[Any, ...]) -> tuple[bytes, list[Numbers]] | None:
    """Low bytes of all groups of `digits` - `lowest`, and the digits of each round; None without compiled code."""
    code = library.find()
    if code is None or digits.dtype.itemsize != 4 or not digits.flags.c_contiguous:
        return None
    size = sum(each.groups * each.low_bytes for each in rounds)
    groups = [each.groups for each in rounds]
    low, rests = np.empty(size + 8, np.uint8), np.empty(sum(groups), np.uint32)
    code.write_packed(
        c_void_p(digits.ctypes.data),
        c_uint32(lowest & 0xFFFFFFFF),
        _rounds(rounds),
        c_int32(len(rounds)),
        c_void_p(low.ctypes.data),
        c_void_p(rests.ctypes.data),
    )
    cuts = itertools.pairwise(itertools.accumulate(groups, initial=0))
    return low[:size].tobytes(), [digits, *(rests[start:stop] for start, stop in cuts)]


@lru_cache(maxsize=256)
def _rounds(rounds: tuple[Any, ...]) -> Any:
    kind = structures("packed.h")["gathering"]
    made = (
        kind(each.base, each.base**each.group - 1, each.groups, each.loose, each.group, each.low_bytes)
        for each in rounds
    )
    return (kind * len(rounds))(*made)
