"""What stands for the arrays of a traced program while it is read as a stack of layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ofediq.arrays import Array
from ofediq.models.layers import Layer
from ofediq.models.stages import Shape

Axes = tuple[tuple[Any, ...], ...]
"""For each axis of an array the labels that lie along it, one after another; none where its size is 1."""


class UnknownLayerError(Exception):
    """What in a program is no layer."""


@dataclass(frozen=True)
class Given:
    """Arrays for what the program was read with: a signal's values, all parameters, a label."""

    base: Array
    leaves: Sequence[Array]
    label: Array | None = None


Reader = Callable[[Given], Array]
"""From given arrays to the one that something stands for."""


@dataclass(frozen=True)
class Leaf:
    """An array of parameters, perhaps with its axes moved; labels are the numbers of its own axes."""

    leaf: int
    axes: Axes
    read: Reader


@dataclass(frozen=True, eq=False)
class Flow:
    """What a sample has become: after some layers, with labels h, w, c of an image or u of units.

    Before the first layer labels are the numbers of the sample's axes, and `image` is False.
    """

    axes: Axes
    sizes: tuple[tuple[Any, int], ...]
    shape: Shape  # of the sample
    channels_first: bool = False
    image: bool = False
    layers: tuple[Layer, ...] = ()
    places: tuple[tuple[int, Shape, tuple[int, ...]], ...] = ()  # leaf, shape, axes; of each array
    scaling: tuple[float, float] = (1.0, 0.0)  # factor and shift of a sample in front of the first layer
    times: int = (
        1  # how many times its layers' result it is: a sum of windows becomes a mean when it is divided
    )

    @property
    def size(self) -> dict[Any, int]:
        """The size along each label."""
        return dict(self.sizes)


@dataclass(frozen=True, eq=False)
class Pending:
    """A function of a signal that is no layer yet.

    Attributes:
        base: the signal; None while there are only parameters or a label.
        shape: of the result.
        read: the function.
        leaves: parameters that it uses.
        labelled: whether it uses the label.
        each: whether every number depends on one of the signal's alone, in the same way.
        name: of the last operation.
    """

    base: Flow | None
    shape: Shape
    read: Reader
    leaves: frozenset[int] = frozenset()
    labelled: bool = False
    each: bool = False
    name: str = ""


def labels_of(shape: Shape) -> Axes:
    """The number of each axis that is longer than 1."""
    return tuple((label,) if side > 1 else () for label, side in enumerate(shape))


def sizes_of(axes: Sequence[tuple[Any, ...]], shape: Shape) -> tuple[tuple[Any, int], ...]:
    """The length of each label."""
    return tuple((labels[0], side) for labels, side in zip(axes, shape, strict=True) if labels)


def reshaped(value: Any, before: Shape, after: Shape) -> Any:
    """`value` with its labels along other axes, in the same order."""
    if isinstance(value, Flow):
        size = value.size
        if not value.layers and not value.image and is_natural(value):
            labels = labels_of(after)  # a sample may be cut anew: nothing has looked at it yet
            return replace(value, axes=labels, sizes=sizes_of(labels, after), shape=after)
    else:
        size = {label: before[axis] for axis, labels in enumerate(value.axes) for label in labels}
    rest = [label for labels in value.axes for label in labels]
    axes: list[tuple[Any, ...]] = []
    for side in after:
        taken: list[Any] = []
        while rest and math.prod(size[label] for label in taken) < side:
            taken.append(rest.pop(0))
        if math.prod(size[label] for label in taken) != side:
            raise UnknownLayerError(f"a reshape from {list(before)} to {list(after)} cuts axes apart")
        axes.append(tuple(taken))
    return replace(value, axes=tuple(axes))


def is_natural(signal: Flow) -> bool:
    """Whether a sample's axes still lie in their own order."""
    order = [label for labels in signal.axes for label in labels]
    return order == sorted(order)
