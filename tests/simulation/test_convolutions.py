"""Convolutions by kernels inside JAX's programs, held against XLA's own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq.arrays import Array
from ofediq.models.adapters.products import with_sums
from ofediq.simulation.native import native_status
from ofediq.simulation.native.convolutions import convolution

pytestmark = pytest.mark.skipif(not native_status().startswith("compiled"), reason=native_status())


@st.composite
def cases(draw: Any) -> tuple[Array, Array, dict[str, Any]]:
    """Images and filters of one to three axes with channels last, and how they meet."""
    rank, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 3]))
    channels, units = groups * draw(st.sampled_from([1, 2, 5, 16])), groups * draw(st.integers(1, 40))
    if draw(st.integers(0, 3)) == 0:  # each channel by itself
        groups = channels = units = draw(st.integers(1, 40))
    size = [draw(st.integers(1, 4)) for _ in range(rank)]
    dilation = [draw(st.integers(1, 2)) for _ in range(rank)]
    sides = [(one - 1) * far + 1 + draw(st.integers(0, 5)) for one, far in zip(size, dilation, strict=True)]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    images = rng.standard_normal((draw(st.integers(1, 2)), *sides, channels)).astype(np.float32)
    filters = rng.standard_normal((*size, channels // groups, units)).astype(np.float32)
    padding = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    first, units_first = draw(st.booleans()), draw(st.booleans())
    images = np.moveaxis(images, -1, 1).copy() if first else images
    filters = np.moveaxis(filters, (-1, -2), (0, 1)).copy() if units_first else filters
    names = ("strides", "dilation", "padding", "groups", "first", "units_first")
    return (
        images,
        filters,
        dict(zip(names, (strides, dilation, padding, groups, first, units_first), strict=True)),
    )


def expected(
    images: Array,
    filters: Array,
    strides: Any,
    dilation: Any,
    padding: Any,
    groups: int,
    first: bool,
    units_first: bool,
) -> Array:
    letters = "DHW"[5 - images.ndim :]
    order = f"NC{letters}" if first else f"N{letters}C"
    spec = (order, f"OI{letters}" if units_first else f"{letters}IO", order)
    return jax.lax.conv_general_dilated(
        images, filters, strides, padding, None, dilation, spec, groups, precision="highest"
    )


def same(found: Any, wanted: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * max(1.0, float(jnp.abs(other).max())))


@settings(max_examples=8, deadline=None)
@given(cases())
def test_maps_and_derivatives_are_those_of_xla(case: Any) -> None:
    images, filters, how = case

    def both(function: Any) -> Any:
        maps, back = jax.vjp(lambda *given: function(*given, **how), images, filters)
        return maps, back(jnp.cos(maps))

    same(both(convolution), both(expected))


@settings(max_examples=4, deadline=None)
@given(cases(), st.booleans(), st.booleans())
def test_many_clients_at_once(case: Any, own_images: bool, own_filters: bool) -> None:
    """Under filters that they have in common or their own; also two axes of clients."""
    images, filters, how = case
    scales = jnp.linspace(0.5, 1.5, 3)[:, None]
    shifts = jnp.linspace(-1, 1, 2)

    def gradients(function: Any) -> Any:
        def loss(images: Array, filters: Array, scale: Array, shift: Array) -> Array:
            here = images * scale + shift if own_images else images
            mine = filters * shift + scale if own_filters else filters
            return jnp.sin(function(here, mine, **how)).sum()

        def one(scale: Array, shift: Array) -> Any:
            return jax.value_and_grad(loss, (0, 1))(images, filters, scale[0], shift)

        return jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))(scales, shifts)

    same(gradients(convolution), gradients(expected))


def test_second_derivatives() -> None:
    rng = np.random.default_rng(0)
    images, filters = rng.standard_normal((2, 6, 5, 3)), rng.standard_normal((3, 2, 3, 4))
    arrays = (images.astype(np.float32), filters.astype(np.float32))
    how = {"strides": (2, 1), "dilation": (1, 2), "padding": ((1, 0), (0, 2)), "groups": 1}
    how |= {"first": False, "units_first": False}

    def steepness(function: Any) -> Any:
        def slope(images: Array, filters: Array) -> Array:
            first = jax.grad(lambda *given: jnp.tanh(function(*given, **how)).sum(), (0, 1))(images, filters)
            return sum((one**2).sum() for one in first)

        return jax.jit(jax.grad(slope, (0, 1)))(*arrays)

    same(steepness(convolution), steepness(expected))


def test_what_is_no_float32_is_left_to_others() -> None:
    images, filters = jnp.ones((1, 4, 4, 2), jnp.bfloat16), jnp.ones((2, 2, 2, 3), jnp.bfloat16)
    assert convolution(images, filters, (1, 1), (1, 1), ((0, 0), (0, 0)), 1, False, False) is None


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(0, 31))
def test_sums_of_any_axes(shape: list[int], chosen: int) -> None:
    """Whole numbers, which no order of adding can change."""
    values = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    axes = tuple(axis for axis in range(len(shape)) if chosen >> axis & 1)
    many = jnp.concatenate([jnp.asarray(values)] * (2**14 // values.size + 1), axis=0)
    found = jax.jit(with_sums(lambda x: x.sum(axes)))(many)
    np.testing.assert_array_equal(found, np.asarray(many).sum(axes))
