from __future__ import annotations

import itertools
import math
import struct

import numpy as np
import pytest

from ofediq.codec import HEADER_BYTES, Message, Rotation, WireError, decode, encode, quantize_rotated
from ofediq.codec.kit import CENTROIDS, DITHER_STEPS, rotated_levels, rotated_symbols, rotated_values
from ofediq.errors import InputError
from ofediq.randomness import Purpose, stream_key, uniform
from ofediq.randomness import words as stream_words

from .mutations import ROTATED, sealed


def density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def below(x: float) -> float:
    """P(Z < x), precise in the lower tail."""
    return math.erfc(-x / math.sqrt(2)) / 2


def gaussian(dim: int) -> np.ndarray:
    return np.random.default_rng(dim).standard_normal(dim).astype(np.float32)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_each_centroid_is_the_mean_of_its_cell(bits: int) -> None:
    centroids = CENTROIDS[bits]
    edges = [0.0, *((low + high) / 2 for low, high in itertools.pairwise(centroids)), math.inf]
    for centroid, (low, high) in zip(centroids, itertools.pairwise(edges), strict=True):
        mean = (density(low) - density(high)) / (below(-low) - below(-high))
        assert centroid == pytest.approx(mean, abs=1e-8)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_dithered_symbols_of_a_gaussian_have_so_many_bits(bits: int) -> None:
    """P(k) = E max(0, 1 - |Z / step - k|): a second difference of the second antiderivative of the density."""
    step = DITHER_STEPS[bits]
    twice = [x * below(x) + density(x) for x in -step * np.arange(60)]
    tails = [(twice[k - 1] - 2 * twice[k] + twice[k + 1]) / step for k in range(1, 59)]
    tails = [tail for tail in tails if tail > 1e-15]
    zero = 1 - 2 * sum(tails)
    entropy = -zero * math.log2(zero) - 2 * sum(tail * math.log2(tail) for tail in tails)
    assert entropy == pytest.approx(bits, abs=1e-6)


@pytest.mark.parametrize("vector", [[1, 0.5, 0, 0, 0, 0], [3, -1, 4, 1, -5, 9], [1, 1e-6, 0, 0, 0, -1e3]])
def test_a_dithered_message_has_the_right_mean_and_error(vector: list[float]) -> None:
    """Over all draws on a grid of (0, 1), for one rotation: no luck is involved."""
    cells, levels = 4000, 5
    rows = np.tile(np.array(vector, np.float32), (cells, 1))
    norms = np.full((cells, 1), np.linalg.norm(vector), np.float32)
    words = np.tile(np.arange(6, dtype=np.uint32) << np.uint32(29), (cells, 1))
    draws = np.repeat((np.arange(cells, dtype=np.float32)[:, None] + 0.5) / cells, 6, axis=1)
    symbols, scales = rotated_symbols(rows, norms, words, draws, levels, "dither")
    errors = (rotated_values(symbols, scales, words, draws, levels, "dither") - rows) / norms
    assert np.abs(errors.mean(0)).max() < 1 / cells
    assert np.abs(symbols).max() <= levels
    assert np.square(errors).sum(1).mean() == pytest.approx(6 / (12 * levels**2), rel=1e-3)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_nearest_centroids_keep_the_component_along_the_vector(bits: int) -> None:
    vector = gaussian(1000)
    sent = quantize_rotated(vector, bits=bits, seed=5, rotation="nearest").dequantize()
    assert vector @ sent == pytest.approx(vector @ vector, rel=1e-5)


def test_nearest_centroids_are_biased_for_sparse_vectors() -> None:
    """The larger coordinate decides all signs, and 1 bit says no more: (5/4, 0, ...) for (1, 1/2, 0, ...)."""
    vector = np.zeros(64)
    vector[:2] = 1, 0.5
    sent = quantize_rotated(vector, bits=1, seed=5, rotation="nearest").dequantize()
    np.testing.assert_allclose(sent, np.where(np.arange(64) == 0, 1.25, 0), atol=1e-6)


@pytest.mark.parametrize("rotation", ROTATED)
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
@pytest.mark.parametrize("dim", [1, 2, 7, 5000, 9001])
def test_rotated_messages_survive_the_wire(rotation: Rotation, bits: int, dim: int) -> None:
    message = quantize_rotated(gaussian(dim), bits=bits, seed=-1, rotation=rotation, step=2**40, client=7)
    for coding in ("packed", "entropy"):
        received = decode(encode(message, coding))
        assert received == message
        np.testing.assert_array_equal(
            received.dequantize().view(np.uint32), message.dequantize().view(np.uint32)
        )


@pytest.mark.parametrize(("bits", "most"), [(1, 1.04), (2, 2.03), (3, 3.04), (4, 4.06)])
@pytest.mark.parametrize("rotation", ROTATED)
def test_a_message_has_about_so_many_bits_per_coordinate(bits: int, most: float, rotation: Rotation) -> None:
    message = quantize_rotated(gaussian(8192), bits=bits, seed=0, rotation=rotation)
    assert 8 * (len(encode(message)) - HEADER_BYTES) < most * 8192


def test_the_payload_is_the_seed_and_the_payload_of_the_symbols() -> None:
    message = quantize_rotated(gaussian(50), bits=2, seed=0x01020304)
    plain = Message(50, message.levels, 1, message.symbols, message.norms)
    frame = encode(message, "packed")
    assert frame[7] == 1
    assert frame[HEADER_BYTES:] == b"\x04\x03\x02\x01" + encode(plain, "packed")[HEADER_BYTES:]


@pytest.mark.parametrize("vector", [np.zeros(10), np.full(10, 1e-23), np.full(10, 1e35)])
@pytest.mark.parametrize("rotation", ROTATED)
def test_extreme_vectors(vector: np.ndarray, rotation: Rotation) -> None:
    sent = quantize_rotated(vector, bits=4, seed=0, rotation=rotation).dequantize()
    assert np.linalg.norm(sent.astype(np.float64) - vector) <= 0.3 * np.linalg.norm(vector)


def _frame(**changes: int) -> bytes:
    head = bytearray(encode(quantize_rotated(gaussian(50), bits=2, seed=0, rotation="nearest"), "packed"))
    offsets = {
        "rotation": (7, "B"),
        "blocks": (12, "I"),
        "levels": (4, "H"),
        "coding": (3, "B"),
        "tail": (6, "B"),
    }
    for name, value in changes.items():
        offset, code = offsets[name]
        struct.pack_into("<" + code, head, offset, value)
    return sealed(bytes(head))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (_frame(rotation=3), "rotation 3 is not known"),
        (_frame(coding=0, levels=0, blocks=0, tail=0), "a raw message has no"),
        (sealed(_frame()[: HEADER_BYTES + 3]), "without a seed"),
        (sealed(_frame(levels=1)[: HEADER_BYTES + 4]), "payload has 0 bytes"),
    ],
)
def test_forged_frames_are_refused(frame: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decode(frame)


def test_a_rotated_message_obeys_its_rules() -> None:
    symbols, norms = np.zeros(50, np.int32), np.ones(1, np.float32)
    with pytest.raises(InputError, match=r"`levels` must be one of \(1, 2, 4, 8\), got 3"):
        Message(50, 3, 1, symbols, norms, rotation="nearest")
    with pytest.raises(InputError, match="`blocks` must be 1 in a rotated message of 50 coordinates, got 2"):
        Message(50, 3, 2, symbols, np.ones(2, np.float32), rotation="dither")
    with pytest.raises(InputError, match="`norms` must be at most"):
        Message(50, 3, 1, symbols, np.full(1, 1e37, np.float32), rotation="dither")
    with pytest.raises(InputError, match="`seed` must be 0"):
        Message(50, 3, 1, symbols, norms, seed=1)


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="`bits` must be an integer from 1 to 4, got 5"):
        quantize_rotated([1.0], bits=5, seed=0)
    with pytest.raises(InputError, match="`rotation` must be one of dither, nearest, got 'none'"):
        quantize_rotated([1.0], bits=1, seed=0, rotation="none")


def test_levels_are_the_root_of_the_size_over_the_step() -> None:
    assert rotated_levels(8192, 3, "dither") == round(math.sqrt(8192) / DITHER_STEPS[3])
    assert rotated_levels(1, 1, "dither") == 1


@pytest.mark.parametrize("rotation", ROTATED)
def test_a_reader_from_the_page(rotation: Rotation) -> None:
    """`docs/wire-format.md`, rotated messages, with matrices in float64; c = 50, so that n = 32 and three windows."""
    message = quantize_rotated(gaussian(50), bits=3, seed=9, rotation=rotation, step=4, client=2)
    index = np.arange(50, dtype=np.uint32)
    if rotation == "dither":
        draws = uniform(stream_key(9, 4, 2, Purpose.ROUND), index).astype(np.float64)
        values = (message.symbols - (draws - 0.5)) / message.levels
    else:
        positive = np.array([0.0, *CENTROIDS[3]])
        values = np.sign(message.symbols) * positive[np.abs(message.symbols)] / np.sqrt(50)
    matrix = np.ones((1, 1))
    for _ in range(5):
        matrix = np.kron(matrix, [[1, 1], [1, -1]]) / np.sqrt(2)
    words = stream_words(stream_key(9, 4, 2, Purpose.ROTATE), index)
    for bit, window in ((29, slice(0, 32)), (30, slice(18, 50)), (31, slice(0, 32))):
        signs = 1 - 2 * ((words[window] >> np.uint32(bit)) & 1).astype(int)
        values[window] = signs * (matrix @ values[window])
    np.testing.assert_allclose(message.dequantize(), values * message.norms[0], atol=1e-5)
