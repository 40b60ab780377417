"""Vectors that a quantiser must cope with, and strategies that draw messages."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ofediq.codec import Message, quantize

Vector = NDArray[np.float32]

KINDS = ("gaussian", "sparse", "heavy", "spike", "equal")


def vector(kind: str, dim: int, seed: int = 0) -> Vector:
    rng = np.random.default_rng(seed)
    made = {
        "gaussian": rng.standard_normal(dim),
        "sparse": rng.standard_normal(dim) * (rng.random(dim) < 0.1),
        "heavy": rng.standard_cauchy(dim),
        "spike": np.where(np.arange(dim) == dim // 2, 5.0, 0.0),
        "equal": np.full(dim, -0.75),
    }
    return made[kind].astype(np.float32)


@st.composite
def messages(draw: st.DrawFn, most: int = 300) -> Message:
    """Any quantised message: any finite floats, from subnormal to 3.4e38, any levels and blocks."""
    dim = draw(st.integers(1, most))
    floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
    values = draw(arrays(np.float32, dim, elements=floats, fill=st.sampled_from([0.0, 1.0])))
    return quantize(
        values,
        levels=draw(st.one_of(st.integers(1, 40), st.integers(1, 2**15), st.just(2**15))),
        blocks=draw(st.integers(1, dim)),
        seed=draw(st.integers(0, 2**32 - 1)),
        norm_bits=draw(st.sampled_from([16, 32])),
        step=draw(st.integers(0, 2**64 - 1)),
        client=draw(st.integers(0, 2**32 - 1)),
    )
