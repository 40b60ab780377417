"""The short frame: eight bytes at most, nothing taken for what it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.codec import FRAME_BYTES, Encoded, WireError, open_frame, pack_frame
from ofediq.errors import InputError

DATA = pack_frame(Encoded(b"payload", 5), step=100_000)


@given(st.binary(max_size=40), st.integers(0, 255), st.integers(0, 2**64 - 2), st.integers(0, 65_535))
def test_a_message_comes_back_with_its_step(payload: bytes, tail: int, step: int, before: int) -> None:
    encoded = Encoded(payload, tail)
    data = pack_frame(encoded, step)
    assert len(data) - len(payload) <= FRAME_BYTES == 8
    start = max(0, step - before)
    assert open_frame(data, range(start, start + 65_536)) == (encoded, step)


def test_every_flipped_bit_is_noticed() -> None:
    for position in range(8 * len(DATA)):
        damaged = bytearray(DATA)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(WireError):
            open_frame(damaged, range(99_990, 100_010))


@pytest.mark.parametrize("length", range(len(DATA)))
def test_no_truncated_frame_is_accepted(length: int) -> None:
    with pytest.raises(WireError):
        open_frame(DATA[:length], range(99_990, 100_010))


def test_a_frame_of_another_step_is_refused() -> None:
    with pytest.raises(WireError, match="not of the steps 100001 to 100009"):
        open_frame(DATA, range(100_001, 100_010))
    with pytest.raises(WireError, match="checksum"):  # the same low bits
        open_frame(DATA, range(100_000 + 2**16, 100_010 + 2**16))


def test_wrong_calls_get_one_sentence() -> None:
    with pytest.raises(InputError, match="`steps` must be at most 65536 in a row"):
        open_frame(DATA, range(100_000))
    with pytest.raises(InputError, match="`tail` must lie in"):
        pack_frame(Encoded(b"", 256), 1)
    with pytest.raises(InputError, match="`step` must be an integer"):
        pack_frame(Encoded(b""), -1)
