"""Convolutions by compiled kernels inside JAX's programs: whatever network they stand in, one image or many at once.

Three products of maps, images and filters, each the derivative of the other two: so they can be differentiated as
often as one likes, and mapped over clients with common filters or with their own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from ofediq.arrays import FASTER, Array
from ofediq.kernels.library import UnavailableError
from ofediq.simulation.native.compiled import target
from ofediq.simulation.native.window import thread_count

_KINDS = _MAPS, _IMAGES, _FILTERS = 0, 1, 2
_SIDES = 3  # axes of an image, at most
_LARGEST = 2**31 - 1

Ints = npt.NDArray[np.int32]
Sides = tuple[int, ...]


class Geometry(NamedTuple):
    """Sizes of convolutions; along the three axes of an image, of which the first may have length 1.

    Attributes:
        images: how many.
        channels: of an image.
        sides: of an image.
        before: rows of zeros in front of it.
        after: and behind.
        filters: sides of the filters.
        groups: of channels.
        units: filters in each group.
        strides: from one position of the filters to the next.
        dilation: from one place of a filter to the next.
        first: whether channels stand in front of the sides.
        units_first: whether filters are [units, channels, places], not [places, channels, units].
    """

    images: int
    channels: int
    sides: Sides
    before: Sides
    after: Sides
    filters: Sides
    groups: int
    units: int
    strides: Sides
    dilation: Sides
    first: bool
    units_first: bool

    @property
    def whole(self) -> Sides:
        """Sides with the zeros."""
        return tuple(map(sum, zip(self.sides, self.before, self.after, strict=True)))

    @property
    def positions(self) -> Sides:
        """How many there are along each axis."""
        sides = zip(self.whole, self.filters, self.strides, self.dilation, strict=True)
        return tuple((side - (size - 1) * far - 1) // step + 1 for side, size, step, far in sides)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of all maps, images and filters."""
        maps = self.images * math.prod(self.positions) * self.groups * self.units
        filters = math.prod(self.filters) * self.channels * self.units
        return maps, self.images * math.prod(self.sides) * self.channels, filters

    def tables(self) -> tuple[int, Ints, Ints]:
        """How long a run is, where patches start, and where their runs lie behind that."""
        channels, joined = self.channels // self.groups, self.groups == self.dilation[-1] == 1
        steps = np.cumprod((1, self.channels, *self.whole[:0:-1], self.whole[0]))[
            ::-1
        ]  # from image to channel
        starts = _sums((self.images, *self.positions), steps[:4] * (1, *self.strides))
        places = (*self.filters[:-1], 1) if joined else self.filters
        run = channels * self.filters[-1] if joined else channels
        return run, starts, _sums(places, steps[1:4] * self.dilation)

    def numbers(self, kind: int, run: int) -> Ints:
        """What C wants to know."""
        counts = (self.images, self.channels, self.groups, self.units, run, self.first, self.units_first)
        return np.array((thread_count(), kind, *counts, *self.sides, *self.before, *self.after), np.int32)


def _sums(counts: Sequence[int], steps: npt.NDArray[np.int64]) -> Ints:
    """Sums of multiples of `steps`, up to these counts of each; the last one goes first."""
    total = np.zeros(1, np.int32)
    for count, step in zip(counts, steps, strict=True):
        total = (total[:, None] + np.arange(count, dtype=np.int32) * np.int32(step)).reshape(-1)
    return total


def convolution(
    images: Array,
    filters: Array,
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
    groups: int,
    first: bool,
    units_first: bool,
) -> Array | None:
    """Maps of float32 `images` and `filters`; None where the kernels cannot serve.

    Images and maps are [n, channels, *sides] if `first`, else [n, *sides, channels]; filters [units, channels, *size]
    if `units_first`, else [*size, channels, units].
    """
    count, rank = len(images), images.ndim - 2
    if jax.default_backend() != "cpu" or images.dtype != np.float32 or filters.dtype != np.float32:
        return None
    if rank > _SIDES or max(images.size, filters.size) > _LARGEST or min(images.size, filters.size) == 0:
        return None
    try:
        target("planes_in_xla")
    except UnavailableError:
        return None
    units = filters.shape[0 if units_first else -1]
    size = filters.shape[2:] if units_first else filters.shape[:-2]
    channels = images.shape[1 if first else -1]
    sides = images.shape[2:] if first else images.shape[1:-1]

    def all_sides(some: Sequence[int], rest: int) -> Sides:
        return (*(rest for _ in range(_SIDES - rank)), *map(int, some))

    before, after = zip(*padding, strict=True)
    geometry = Geometry(
        images=count,
        channels=channels,
        sides=all_sides(sides, 1),
        before=all_sides(before, 0),
        after=all_sides(after, 0),
        filters=all_sides(size, 1),
        groups=groups,
        units=units // groups,
        strides=all_sides(strides, 1),
        dilation=all_sides(dilation, 1),
        first=first,
        units_first=units_first,
    )
    positions = geometry.positions[_SIDES - rank :]
    if min(positions) < 1 or geometry.images * math.prod(geometry.whole) * channels > _LARGEST:
        return None
    maps = _product(geometry, _MAPS)(images.reshape(-1), filters.reshape(-1))
    return maps.reshape((count, units, *positions) if first else (count, *positions, units))


FASTER.update(convolution=convolution)


@functools.lru_cache(maxsize=256)
def _product(geometry: Geometry, kind: int) -> Callable[[Array, Array], Array]:
    """The kernel that makes `kind` of the other two, which it takes in their order; all flat."""
    run, starts, offsets = geometry.tables()
    others = [other for other in _KINDS if other != kind]

    @jax.custom_vjp
    def made(first: Array, second: Array) -> Array:
        result = jax.ShapeDtypeStruct((geometry.sizes[kind],), np.float32)
        call = jax.ffi.ffi_call(target("planes_in_xla"), result, vmap_method="expand_dims")
        found: Array = call(geometry.numbers(kind, run), starts, offsets, first, second)
        return found

    def forward(first: Array, second: Array) -> tuple[Array, tuple[Array, Array]]:
        return made(first, second), (first, second)

    def backward(given: tuple[Array, Array], slopes: Array) -> tuple[Array, ...]:
        arrays = {kind: slopes, **dict(zip(others, given, strict=True))}
        return tuple(
            _product(geometry, other)(*(arrays[one] for one in _KINDS if one != other)) for other in others
        )

    made.defvjp(forward, backward)
    return made
