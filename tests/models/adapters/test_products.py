from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq.models.adapters.products import with_products

ORDERS = (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "OIHW", "NCHW"))


@settings(max_examples=20, deadline=None)
@given(
    sides=st.tuples(st.integers(6, 9), st.integers(6, 9)),
    filters=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.sampled_from(["SAME", "VALID"]),
    order=st.sampled_from(ORDERS),
)
def test_convolutions_are_the_same(sides: Any, filters: Any, strides: Any, padding: str, order: Any) -> None:
    """Values and gradients, inside of another compiled function too."""
    rng = np.random.default_rng(0)
    image = {"N": 2, "C": 3, "H": sides[0], "W": sides[1]}
    filter_ = {"I": 3, "O": 4, "H": filters[0], "W": filters[1]}
    x, w = (
        rng.normal(size=[image[axis] for axis in order[0]]),
        rng.normal(size=[filter_[axis] for axis in order[1]]),
    )

    @jax.jit
    def convolved(x: Any, w: Any) -> Any:
        return jax.nn.relu(jax.lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=order))

    def loss(function: Any) -> Any:
        return lambda x, w: (function(x, w) ** 2).sum()

    np.testing.assert_allclose(with_products(convolved)(x, w), convolved(x, w), rtol=1e-4, atol=1e-5)
    found, expected = (jax.grad(loss(one), (0, 1))(x, w) for one in (with_products(convolved), convolved))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dilation", [1, 2])
def test_other_convolutions_and_structures_stay(dilation: int) -> None:
    def parts(tree: Any) -> Any:
        x = jax.lax.conv_general_dilated(tree["x"], tree["w"], (1,), "VALID", rhs_dilation=(dilation,))
        return {"sum": x.sum(), "all": (x, jnp.sin(tree["x"]))}

    tree = {"x": jnp.arange(8.0).reshape(1, 1, 8), "w": jnp.ones((1, 1, 2))}
    found, expected = with_products(parts)(tree), parts(tree)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(found) == set(expected)
