from __future__ import annotations

import jax
import numpy as np
import pytest

from ofediq.codec import HEADER_BYTES, Message, encode, entropy_bits, norm_classes, payload_bits, quantize
from ofediq.errors import InputError

from .vectors import vector

SHAPES = [(1, 777), (3, 777), (17, 1134), (1000, 1), (2**15, 5)]


def example(levels: int, blocks: int, kind: str = "gaussian", norm_bits: int = 32) -> Message:
    return quantize(vector(kind, 34826), levels=levels, blocks=blocks, rng=0, norm_bits=norm_bits)


def wire_bits(message: Message) -> int:
    return 8 * (len(encode(message, "entropy")) - HEADER_BYTES)


@pytest.mark.parametrize("norm_bits", [16, 32])
@pytest.mark.parametrize("kind", ["gaussian", "heavy"])
@pytest.mark.parametrize(("levels", "blocks"), SHAPES)
def test_histograms_tell_the_size_to_one_percent(levels: int, blocks: int, kind: str, norm_bits: int) -> None:
    message = example(levels, blocks, kind, norm_bits)
    counts = np.bincount(np.abs(message.symbols), minlength=levels + 1)
    norms = np.bincount(norm_classes(message.norms, norm_bits), minlength=256)
    told = float(entropy_bits(counts, blocks, norm_bits, norms))
    assert told == pytest.approx(wire_bits(message), rel=0.01)


@pytest.mark.parametrize(("levels", "blocks"), SHAPES[:3])
def test_without_the_norms_histogram_it_is_an_upper_bound(levels: int, blocks: int) -> None:
    message = example(levels, blocks)
    counts = np.bincount(np.abs(message.symbols), minlength=levels + 1)
    told = float(entropy_bits(counts, blocks))
    assert wire_bits(message) < told < wire_bits(message) + 9 * blocks


def test_many_messages_at_once() -> None:
    counts = np.array([[900, 100, 0], [500, 300, 200]])
    together = entropy_bits(counts, 4)
    assert together.tolist() == [float(entropy_bits(row, 4)) for row in counts]


@pytest.mark.parametrize(("levels", "blocks"), SHAPES[:3])
def test_symbols_and_norms_tell_it_too_inside_jit(levels: int, blocks: int) -> None:
    message = example(levels, blocks, "sparse")

    @jax.jit
    def told(symbols: jax.Array, norms: jax.Array) -> jax.Array:
        bits: jax.Array = payload_bits(symbols, norms, levels)
        return bits

    bits = told(message.symbols[None], message.norms[None])
    assert float(bits[0]) == pytest.approx(wire_bits(message), rel=0.01)


@pytest.mark.parametrize("norm_bits", [16, 32])
@pytest.mark.parametrize(("levels", "blocks"), SHAPES)
def test_blocks_of_norm_zero_are_not_charged(levels: int, blocks: int, norm_bits: int) -> None:
    values = vector("gaussian", 34826) * (np.arange(34826) > 20_000)
    message = quantize(values, levels=levels, blocks=blocks, rng=0, norm_bits=norm_bits)
    bits = payload_bits(message.symbols[None], message.norms[None], levels, norm_bits)
    assert float(bits[0]) == pytest.approx(wire_bits(message), rel=0.01)


@pytest.mark.parametrize(("counts", "norms"), [([5], None), ([5, -1], None), ([5, 1], [1, 2]), (3, None)])
def test_what_is_no_histogram_is_refused(counts: list[int], norms: list[int] | None) -> None:
    with pytest.raises(InputError, match="counts` must"):
        entropy_bits(counts, 1, norm_counts=norms)
