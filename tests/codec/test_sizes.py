from __future__ import annotations

import jax
import numpy as np
import pytest

from ofediq.codec import HEADER_BYTES, Message, encode, quantize
from ofediq.codec.kit import payload_bits
from ofediq.codec.sizes import class_counts

from .vectors import vector

SHAPES = [(1, 777), (3, 777), (17, 1134), (1000, 1), (2**15, 5)]


def wire_bits(message: Message) -> int:
    return 8 * (len(encode(message, "entropy")) - HEADER_BYTES)


@pytest.mark.parametrize("norm_bits", [16, 32])
@pytest.mark.parametrize("kind", ["gaussian", "heavy", "sparse", "half"])
@pytest.mark.parametrize(("levels", "blocks"), SHAPES)
def test_histograms_tell_the_size_to_one_percent(levels: int, blocks: int, kind: str, norm_bits: int) -> None:
    """`half`: blocks of norm 0 are not charged."""
    shown = vector("gaussian" if kind == "half" else kind, 34826)
    values = shown * (np.arange(34826) > (20_000 if kind == "half" else 0))
    message = quantize(values, levels=levels, blocks=blocks, seed=0, norm_bits=norm_bits)
    told = payload_bits(message.symbols[None], message.norms[None], levels, norm_bits)
    assert float(told[0]) == pytest.approx(wire_bits(message), rel=0.01)


@pytest.mark.parametrize(("levels", "blocks"), SHAPES[:3])
def test_they_tell_it_inside_jit(levels: int, blocks: int) -> None:
    message = quantize(vector("sparse", 34826), levels=levels, blocks=blocks, seed=0)

    @jax.jit
    def told(symbols: jax.Array, norms: jax.Array) -> jax.Array:
        bits: jax.Array = payload_bits(symbols, norms, levels)
        return bits

    bits = told(message.symbols[None], message.norms[None])
    assert float(bits[0]) == pytest.approx(wire_bits(message), rel=0.01)


def test_symbols_that_are_no_numbers_have_a_length() -> None:
    """What is left of NaN in a model that diverged: counting them ended a run in a traceback."""
    lowest = np.full((2, 4), np.iinfo(np.int32).min, np.int32)
    assert class_counts(lowest, levels=3).sum(axis=1).tolist() == [4, 4]
