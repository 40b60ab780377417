"""Packed messages in compiled code against NumPy: the same bytes, the same numbers, the same refusals."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.codec import Encoded
from ofediq.codec.packed import digit_bytes, pack, pack_digits, unpack, unpack_rows
from ofediq.errors import WireError
from ofediq.kernels import library
from ofediq.methods import quantize
from ofediq.randomness import Address

pytestmark = pytest.mark.skipif(
    not library.native_status().startswith("compiled"), reason=library.native_status()
)

BASES = st.one_of(st.integers(2, 100), st.integers(2, 2**17), st.sampled_from([2**16, 2**31 + 1, 2**32 - 1]))


@given(st.integers(1, 700), BASES, st.integers(0, 2**32 - 1), st.booleans())
def test_digits_are_those_of_numpy(count: int, base: int, seed: int, damaged: bool) -> None:
    rng = np.random.default_rng(seed)
    made = [pack_digits(row, base) for row in rng.integers(0, base, (5, count)).astype(np.uint64)]
    data = np.array([np.frombuffer(one, np.uint8) for one, _ in made]).reshape(5, digit_bytes(count, base))
    tails = [tail for _, tail in made]
    if damaged:
        data[1:3], tails[3] = rng.integers(0, 256, (2, data.shape[1])), int(rng.integers(256))
    found = {}
    for switch in "01":
        with mock.patch.dict(os.environ, {library.SWITCH: switch}):
            digits, good = unpack_rows(data, tails, count, base)
            found[switch] = digits[good].tolist(), good.tolist()
    assert found["0"] == found["1"]
    assert found["1"][1][0]


@given(st.integers(1, 900), st.integers(1, 2**15), st.integers(0, 2**32 - 1))
def test_symbols_are_written_as_numpy_does(count: int, levels: int, seed: int) -> None:
    symbols = np.random.default_rng(seed).integers(-levels, levels + 1, count).astype(np.int32)
    made = []
    for switch in "01":
        with mock.patch.dict(os.environ, {library.SWITCH: switch}):
            made.append(pack(symbols, levels))
    assert made[0] == made[1]
    np.testing.assert_array_equal(unpack(*made[0], count, levels), symbols)


@given(st.integers(1, 900), st.integers(1, 40), st.sampled_from([16, 32]), st.integers(0, 2**32 - 1))
def test_numbers_are_those_of_numpy(dim: int, levels: int, norm_bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(1, dim + 1))
    scheme = quantize(levels, blocks, norm_bits=norm_bits)
    rows = rng.standard_normal((6, dim)).astype(np.float32) * np.float32(10.0) ** rng.integers(-30, 30)
    rows[1, : dim // 2] = 0  # blocks of norm 0
    sent = [scheme.encode(row, Address(0, 5, client)) for client, row in enumerate(rows)]
    for place in range(2, 5):
        payload = bytearray(sent[place].payload)
        payload[int(rng.integers(len(payload)))] = int(rng.integers(256))
        sent[place] = Encoded(bytes(payload), sent[place].tail)
    found = {}
    for switch in "01":
        with mock.patch.dict(os.environ, {library.SWITCH: switch}):
            read = scheme.decode_many(sent, dim, Address(0, 5, np.arange(6)))
            found[switch] = [str(one) if isinstance(one, WireError) else one.tobytes() for one in read]
    assert found["0"] == found["1"]
