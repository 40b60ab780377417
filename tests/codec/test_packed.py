from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.codec import WireError
from ofediq.codec.kit import packed_payload_bytes
from ofediq.codec.packed import pack, packed_symbol_bytes, unpack
from ofediq.errors import InputError

LEVELS = st.one_of(st.integers(1, 40), st.integers(1, 2**15), st.just(2**15))


@given(st.integers(1, 3000), LEVELS, st.integers(0, 2**32 - 1))
def test_unpack_inverts_pack(dim: int, levels: int, seed: int) -> None:
    symbols = np.random.default_rng(seed).integers(-levels, levels, dim, np.int32, endpoint=True)
    data, tail = pack(symbols, levels)
    assert len(data) == packed_symbol_bytes(dim, levels)
    assert 0 <= tail < 256
    np.testing.assert_array_equal(unpack(data, tail, dim, levels), symbols)


@given(st.integers(1, 2**32 - 1), LEVELS, st.integers(1, 2**32 - 1), st.sampled_from([16, 32]))
def test_the_payload_never_exceeds_the_papers_count(
    dim: int, levels: int, blocks: int, norm_bits: int
) -> None:
    blocks = min(blocks, dim)
    bits = 8 * packed_payload_bytes(dim, levels, blocks, norm_bits)
    assert bits <= 32 * blocks + dim * (1 + math.log2(levels + 1))


@pytest.mark.parametrize("levels", [1, 2, 3, 10, 17, 127, 2**15 - 1, 2**15])
@pytest.mark.parametrize("dim", [1, 2, 50, 34826, 10**6])
def test_the_code_is_within_a_byte_of_uniform(dim: int, levels: int) -> None:
    bits = 8 * packed_symbol_bytes(dim, levels)
    assert dim * math.log2(2 * levels + 1) - 8 <= bits < dim * math.log2(2 * levels + 1) + 0.1


@pytest.mark.parametrize(("dim", "levels"), [(1, 1), (4, 1), (41, 1), (7, 2**15), (500, 3), (2000, 17)])
def test_each_code_stands_for_one_message_only(dim: int, levels: int) -> None:
    # Bytes are either refused or the code of what they decode to. The largest numbers must be refused.
    size = packed_symbol_bytes(dim, levels)
    rng = np.random.default_rng(0)
    for _ in range(50):
        data, tail = rng.bytes(size), int(rng.integers(256))
        try:
            assert pack(unpack(data, tail, dim, levels), levels) == (data, tail)
        except WireError:
            continue
    with pytest.raises(WireError, match="out of range"):
        unpack(b"\xff" * size, 255, dim, levels)


def test_a_group_beyond_its_largest_number_is_refused() -> None:
    # 80 digits of base 3 make two numbers below Y = 3^40. Their lowest 4 bytes go first; the rests, each below R,
    # make the last integer.
    rests = -(-(3**40) // 2**32)
    last = (rests**2 - 1).to_bytes(8, "little")
    assert ((rests - 1) << 32) + 2**32 - 1 >= 3**40 > (rests - 1) << 32
    with pytest.raises(WireError, match="out of range"):
        unpack(b"\xff" * 8 + last[:-1], last[-1], 80, 1)
    unpack(bytes(8) + last[:-1], last[-1], 80, 1)


def test_all_codes_of_a_short_message_are_distinct() -> None:
    seen = {
        pack(np.array([a, b, c], np.int32), 1) for a in (-1, 0, 1) for b in (-1, 0, 1) for c in (-1, 0, 1)
    }
    assert seen == {(b"", value) for value in range(27)}


def test_impossible_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="`blocks` must be an integer from 1 to 5, got 6"):
        packed_payload_bytes(5, 3, 6)
