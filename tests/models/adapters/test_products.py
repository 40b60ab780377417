from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq.arrays import FASTER
from ofediq.models.adapters.products import with_products
from ofediq.simulation.native.convolutions import convolution


@pytest.fixture(params=["kernels", "products"], scope="module", autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Convolutions by compiled kernels, where there are any; and without them."""
    chosen = convolution if request.param == "kernels" else lambda *_: None
    with patch.dict(FASTER, convolution=chosen):
        yield


ORDERS = (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "OIHW", "NCHW"))


@settings(max_examples=8, deadline=None)
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

    products = jax.jit(with_products(convolved))
    np.testing.assert_allclose(products(x, w), convolved(x, w), rtol=1e-4, atol=1e-5)
    found, expected = (
        jax.jit(jax.grad(loss(one), (0, 1)))(x, w) for one in (with_products(convolved), convolved)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def same_derivatives(function: Any, *arguments: Any) -> None:
    """Values, and where derivatives of their squares go."""
    weights = jnp.asarray(np.random.default_rng(1).normal(size=function(*arguments).shape))
    places = tuple(range(len(arguments)))
    np.testing.assert_allclose(
        with_products(function)(*arguments), function(*arguments), rtol=1e-4, atol=1e-5
    )
    found, expected = (
        jax.jit(jax.grad(lambda *given, one=one: (one(*given) * weights).sum(), places))(*arguments)
        for one in (with_products(function), function)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("rank", "groups", "dilation", "stride"), [(1, 1, 2, 1), (2, 2, 1, 2), (2, 4, 2, 1), (3, 1, 1, 1)]
)
def test_groups_dilations_and_other_dimensions(rank: int, groups: int, dilation: int, stride: int) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 4, *[7] * rank)), rng.normal(size=(8, 4 // groups, *[3] * rank))

    def convolved(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, [stride] * rank, "SAME", rhs_dilation=[dilation] * rank, feature_group_count=groups
        )

    same_derivatives(convolved, x.astype(np.float32), w.astype(np.float32))


@pytest.mark.parametrize(("window", "stride", "padding"), [(2, 2, "VALID"), (3, 2, "SAME"), (2, 1, "VALID")])
def test_poolings_send_derivatives_to_the_first_of_equals(window: int, stride: int, padding: str) -> None:
    x = np.random.default_rng(0).integers(0, 3, (2, 7, 6, 2)).astype(np.float32)  # many ties

    def pooled(start: float, combine: Any) -> Any:
        shape, steps = (1, window, window, 1), (1, stride, stride, 1)
        return lambda x: jax.lax.reduce_window(x, start, combine, shape, steps, padding)

    same_derivatives(pooled(-jnp.inf, jax.lax.max), x)
    same_derivatives(pooled(0.0, jax.lax.add), x)
    x[0, 0, 1, 0] = np.nan
    largest = pooled(-jnp.inf, jax.lax.max)
    np.testing.assert_array_equal(np.isnan(with_products(largest)(x)), np.isnan(largest(x)))


def test_other_convolutions_and_structures_stay() -> None:
    def parts(tree: Any) -> Any:
        x = jax.lax.conv_general_dilated(tree["x"], tree["w"], (1,), [(0, 0)], lhs_dilation=(2,))
        return {"sum": x.sum(), "all": (x, jnp.sin(tree["x"]))}

    tree = {"x": jnp.arange(8.0).reshape(1, 1, 8), "w": jnp.ones((1, 1, 2))}
    found, expected = with_products(parts)(tree), parts(tree)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(found) == set(expected)
