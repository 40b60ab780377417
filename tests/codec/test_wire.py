from __future__ import annotations

import math
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq.codec import HEADER_BYTES, Coding, Message, WireError, decode, encode, quantize
from ofediq.codec.entropy import encode_entropy
from ofediq.codec.stack import Stack
from ofediq.errors import InputError

from .mutations import FIELDS, MAX_DIM, frames, mutated, outcome, sealed
from .vectors import messages, vector

QUANTISED: tuple[Coding, ...] = ("packed", "entropy")


def paper_bits(message: Message) -> float:
    """32 b + D (1 + log2(s + 1)), section V of the paper."""
    return 32 * message.blocks + message.dim * (1 + math.log2(message.levels + 1))


@given(messages())
def test_every_message_survives_the_wire(message: Message) -> None:
    for coding in QUANTISED:
        received = decode(encode(message, coding), max_dim=message.dim)
        assert received == message
        np.testing.assert_array_equal(
            received.dequantize().view(np.uint32), message.dequantize().view(np.uint32)
        )


@given(messages())
def test_raw_frames_carry_the_dequantised_vector(message: Message) -> None:
    received = decode(encode(message, "raw"))
    assert received.is_raw
    assert (received.step, received.client) == (message.step, message.client)
    np.testing.assert_array_equal(received.dequantize().view(np.uint32), message.dequantize().view(np.uint32))


@given(messages())
@settings(max_examples=300)
def test_the_payload_never_exceeds_the_papers_count(message: Message) -> None:
    for coding in QUANTISED:
        assert 8 * (len(encode(message, coding)) - HEADER_BYTES) <= paper_bits(message)


@pytest.mark.parametrize("kind", ["gaussian", "sparse", "heavy", "spike", "equal"])
@pytest.mark.parametrize("norm_bits", [16, 32])
@pytest.mark.parametrize(("levels", "blocks"), [(1, 777), (3, 777), (17, 1134), (2**15, 1), (3, 34826)])
def test_messages_of_the_papers_size(kind: str, norm_bits: int, levels: int, blocks: int) -> None:
    message = quantize(vector(kind, 34826), levels=levels, blocks=blocks, seed=0, norm_bits=norm_bits)
    packed, entropy = (encode(message, coding) for coding in QUANTISED)
    assert decode(packed) == decode(entropy) == message
    assert len(entropy) <= len(packed)
    assert 8 * (len(packed) - HEADER_BYTES) <= paper_bits(message)


def test_a_frame_of_zeros_is_tiny() -> None:
    message = quantize(np.zeros(34826), levels=3, blocks=777, seed=0)
    assert len(encode(message, "entropy")) - HEADER_BYTES <= 8
    assert decode(encode(message, "entropy")) == message


def test_the_header_is_where_the_document_says() -> None:
    values = [1.0, -2.0, 0.0, 5.0, 0.5]
    message = quantize(values, levels=300, blocks=2, seed=0, norm_bits=16, step=2**40 + 5, client=70000)
    frame = encode(message, "packed")
    assert frame[:4] == b"OQ\x02\x11"
    levels, tail, reserved, dim, blocks, step, client = struct.unpack_from("<HBBIIQI", frame, 4)
    assert (levels, reserved, dim, blocks, step, client) == (300, 0, 5, 2, 2**40 + 5, 70000)
    assert (
        len(frame) == 32 + 2 * 2 + (5 * math.log2(601)).__ceil__() // 8
    )  # 47 bits: 5 bytes, 7 bits in the tail
    assert tail < 2**7


def test_a_raw_message_has_no_other_coding() -> None:
    for coding in QUANTISED:
        with pytest.raises(InputError, match="`coding` must be raw for a message that is not quantised"):
            encode(Message.raw([1.0]), coding)


def test_wrong_calls_get_one_sentence() -> None:
    with pytest.raises(InputError, match="`coding` must be one of raw, packed, entropy, got 'zip'"):
        encode(Message.raw([1.0]), "zip")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InputError, match="`message` must be a Message"):
        encode(b"bytes", "raw")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InputError, match="`data` must be bytes"):
        decode("text")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InputError, match="`max_dim` must be an integer from 1"):
        decode(b"", max_dim=0)


def test_any_buffer_will_do() -> None:
    frame = frames()[4]
    assert decode(bytearray(frame)) == decode(memoryview(frame)) == decode(frame)


def with_field(frame: bytes, number: int, value: int) -> bytes:
    offset, code = FIELDS[number]
    data = bytearray(frame)
    struct.pack_into("<" + code, data, offset, value)
    return sealed(bytes(data))


def small(coding: Coding, norm_bits: int = 32) -> bytes:
    return encode(quantize(vector("gaussian", 300), levels=3, blocks=4, seed=0, norm_bits=norm_bits), coding)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes are less than the header"),
        (small("packed")[:31], "31 bytes are less than the header"),
        (b"XX" + small("packed")[2:], "magic"),
        (with_field(small("packed"), 1, 1), "version 1 is not supported"),
        (small("packed")[:-1], "checksum"),
        (small("entropy")[:40] + b"?" + small("entropy")[41:], "checksum"),
        (sealed(small("packed")[:-1]), "bytes where"),
        (sealed(small("packed") + b"\0"), "bytes where"),
        (sealed(small("raw") + b"\0"), "bytes where"),
        (sealed(small("entropy") + b"\0"), "last byte is 0"),
        (sealed(small("entropy")[:33]), "entropy table"),
        (with_field(small("packed"), 2, 3), "coding 3"),
        (with_field(small("packed"), 2, 0x21), "coding 33"),
        (with_field(small("packed"), 5, 3), "rotation 3"),
        (with_field(small("entropy"), 4, 1), "tail"),
        (with_field(small("raw"), 3, 1), "raw message has no levels"),
        (with_field(small("raw"), 2, 0x10), "raw message has no levels"),
        (with_field(small("packed"), 3, 0), "`levels` must be"),
        (with_field(small("packed"), 3, 2**15 + 1), "`levels` must be"),
        (with_field(small("packed"), 7, 0), "`blocks` must be"),
        (with_field(small("packed"), 7, 301), "`blocks` must be"),
        (with_field(small("packed"), 6, 0), "`dim` must be"),
        (with_field(small("packed"), 6, 2**32 - 1), "above the receiver's limit of 5000"),
        (with_field(small("packed"), 4, 255), "out of range"),
    ],
)
def test_damaged_frames_are_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(data, max_dim=MAX_DIM)
    assert reason in str(caught.value)


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 0xBF800000, 0x7F7FFFFF])
def test_norms_that_are_none_are_refused(bits: int) -> None:
    frame = small("packed")
    with pytest.raises(WireError, match="`norms` must lie in"):
        decode(sealed(frame[:32] + struct.pack("<I", bits) + frame[36:]))


@pytest.mark.parametrize("bits", [0xFF00, 0xFFFF])
def test_short_norms_that_are_none_are_refused(bits: int) -> None:
    frame = small("packed", norm_bits=16)
    with pytest.raises(WireError, match="`norms` must lie in"):
        decode(sealed(frame[:32] + struct.pack("<H", bits) + frame[34:]))


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7F800000, 0xFF800000])
def test_raw_values_must_be_finite(bits: int) -> None:
    frame = small("raw")
    with pytest.raises(WireError, match="`values` must be finite"):
        decode(sealed(frame[:32] + struct.pack("<I", bits) + frame[36:]))


def test_symbols_in_a_block_of_norm_zero_are_refused() -> None:
    frame = small("packed")
    with pytest.raises(WireError, match="`symbols` must be 0 in a block of norm 0"):
        decode(sealed(frame[:32] + bytes(4) + frame[36:]))


def forged_norm(lowest: int, norm_class: int, classes: int) -> bytes:
    """An entropy frame of 300 zeros in ten blocks; the first norm has the given class, its other bytes are 0."""
    stack = Stack()
    stack.push_bytes(np.zeros(3, np.uint8))
    stack.push(np.array([norm_class] + 9 * [0], np.int32), np.ones(classes, np.int64))
    table = bytes([classes - 1]) + b"\xff" * classes
    header = encode(quantize(np.ones(300), levels=3, blocks=10, seed=0), "entropy")[:HEADER_BYTES]
    return sealed(header + bytes([lowest]) + table + b"\x00\xff" + stack.to_bytes())


def test_forged_norm_classes_are_refused() -> None:
    # 0x3f000000, so the forger's tools work.
    assert decode(forged_norm(0x3F, 1, 2)).norms.tolist() == [0.5] + 9 * [0.0]
    with pytest.raises(WireError, match="norm 0 is announced as nonzero"):
        decode(forged_norm(0, 1, 2))
    with pytest.raises(WireError, match="beyond the last one"):
        decode(forged_norm(255, 2, 3))
    with pytest.raises(WireError, match="`norms` must lie in"):
        decode(forged_norm(0xC0, 1, 2))  # -2.0


def test_an_entropy_frame_that_is_not_smaller_is_refused() -> None:
    message = quantize([1.0, 2.0, 3.0], levels=3, blocks=1, seed=0)
    frame = with_field(encode(message, "packed"), 2, 2)  # coding: entropy
    header = with_field(frame, 4, 0)[:HEADER_BYTES]  # tail: none
    payload = encode_entropy(message.symbols, message.norms, 3, 32)
    with pytest.raises(WireError, match="not smaller than the packed one"):
        decode(sealed(header + payload))


@pytest.mark.parametrize("coding", ["raw", "packed", "entropy"])
def test_no_truncated_frame_is_accepted(coding: Coding) -> None:
    frame = small(coding)
    assert {outcome(frame[:length]) for length in range(len(frame))} == {"refused"}
    # With a checksum made to fit, a shorter stack of the entropy code is simply another message.
    forged = {outcome(sealed(frame[:length])) for length in range(len(frame))}
    assert forged == {"refused"} or coding == "entropy"


@pytest.mark.parametrize("coding", ["raw", "packed", "entropy"])
def test_the_checksum_notices_every_flipped_bit(coding: Coding) -> None:
    frame = small(coding)
    for position in range(8 * len(frame)):
        data = bytearray(frame)
        data[position // 8] ^= 1 << position % 8
        with pytest.raises(WireError):
            decode(bytes(data))


def test_thousands_of_mutations_do_no_harm() -> None:
    rng, originals = np.random.default_rng(2), frames()
    seen = [outcome(mutated(originals[count % len(originals)], rng)) for count in range(4000)]
    assert {"refused", "accepted"} == set(seen)


@given(st.binary(max_size=200))
def test_random_bytes_behind_a_good_header_do_no_harm(payload: bytes) -> None:
    for original in frames()[:12]:
        outcome(sealed(original[:HEADER_BYTES] + payload))


def test_a_liar_costs_no_memory() -> None:
    liars = [with_field(small(coding), 6, 2**32 - 1) for coding in ("raw", *QUANTISED)]
    liars += [with_field(with_field(small(coding), 6, 10**6), 7, 10**6) for coding in ("raw", "packed")]
    tracemalloc.start()
    for data in liars:
        with pytest.raises(WireError):
            decode(data, max_dim=10**6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6  # bytes, although a million coordinates were announced and allowed


def test_memory_of_an_honest_frame_is_bounded_by_its_dim() -> None:
    frame = encode(quantize(np.zeros(10**6), levels=3, blocks=1000, seed=0))
    tracemalloc.start()
    decode(frame, max_dim=10**6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 10**6
