"""What a network computes, one stage after another, with all sizes.

A stage is a convolution or a dense layer with its activation, and for convolutions the pooling that follows: the
maximum is taken first, because it commutes with the bias, and with activations that never fall.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from ofediq.errors import InputError
from ofediq.models.activations import Activation, Identity
from ofediq.models.layers import Conv, Dense, Layer, Mean, Norm, Pool

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Stage:
    """One step of a network, with all of its sizes.

    Attributes:
        kind: "pool" stands alone where it follows no convolution, "mean" and "norm" always.
        inputs: [height, width, channels], or [numbers].
        outputs: the same of the result.
        activation: of the result.
        size: side of the filters; rows and columns that a pool or a mean takes together.
        margins: rows and columns of zeros put before and after the image.
        stride: from one position of the filters to the next.
        pooled: whether 2 x 2 pooling follows the convolution.
        bias: whether there is one.
        epsilon: of a norm.
    """

    kind: Literal["conv", "dense", "pool", "mean", "norm"]
    inputs: Shape
    outputs: Shape
    activation: Activation = field(default_factory=Identity)
    size: tuple[int, int] = (0, 0)
    margins: tuple[int, int] = (0, 0)
    stride: int = 1
    pooled: bool = False
    bias: bool = False
    epsilon: float = 0.0

    @property
    def matrix(self) -> tuple[int, int]:
        """Inputs and outputs of the matrix of weights; (0, 0) where there is none."""
        if self.kind == "conv":
            return math.prod(self.size) * self.inputs[-1], self.outputs[-1]
        if self.kind == "norm":
            return 1, self.outputs[-1]
        return (math.prod(self.inputs), self.outputs[0]) if self.kind == "dense" else (0, 0)

    @property
    def learns(self) -> bool:
        """Whether it has parameters."""
        return self.kind not in ("pool", "mean")

    @property
    def spread(self) -> tuple[int, int]:
        """Glorot's fans: how many numbers a unit sees, and how many see it."""
        fan_in, fan_out = self.matrix
        return fan_in, fan_out * (math.prod(self.size) if self.kind == "conv" else 1)

    @property
    def positions(self) -> tuple[int, int]:
        """Rows and columns that a convolution computes: what the pooling drops is left out."""
        rows, columns = _positions(self.inputs, self.size[0], self.margins, self.stride)
        return (rows // 2 * 2, columns // 2 * 2) if self.pooled else (rows, columns)


def stages_of(layers: Iterable[Layer], shape: Shape) -> tuple[Stage, ...]:
    """The stages of `layers` (as `arranged`) for samples of this `shape`: images, or any other for dense layers.

    >>> from ofediq.models.layers import arranged, parse
    >>> [stage.outputs for stage in stages_of(arranged(parse("conv 8, pool, dense 3")), (28, 28))]
    [(13, 13, 8), (3,)]
    """
    now: Shape = (*shape, 1) if len(shape) == 2 else shape
    found: list[Stage] = []
    for layer in layers:
        if isinstance(layer, Conv):
            found.append(_conv(layer, now))
        elif isinstance(layer, Dense):
            assert layer.units is not None
            found.append(Stage("dense", now, (layer.units,), bias=layer.bias))
        elif isinstance(layer, Norm):
            found.append(Stage("norm", now, now, bias=layer.bias, epsilon=layer.epsilon))
        elif isinstance(layer, Pool) and layer.size == 2 and found and _takes_pool(found[-1]):
            found[-1] = replace(found[-1], outputs=_pooled(layer, now, (2, 2)), pooled=True)
        elif isinstance(layer, (Pool, Mean)):
            size = now[:2] if layer.size is None else (layer.size, layer.size)
            kind: Literal["pool", "mean"] = "pool" if isinstance(layer, Pool) else "mean"
            found.append(Stage(kind, now, _pooled(layer, now, size), size=(size[0], size[-1])))
        elif isinstance(layer, Activation):
            found[-1] = replace(found[-1], activation=layer)
        now = found[-1].outputs
    return tuple(found)


def _takes_pool(last: Stage) -> bool:
    """Whether a 2 x 2 pooling becomes part of this stage."""
    return last.kind == "conv" and not last.pooled and last.activation.rises


def _positions(image: Shape, size: int, margins: tuple[int, int], stride: int) -> tuple[int, int]:
    rows, columns = ((side + sum(margins) - size) // stride + 1 for side in image[:2])
    return rows, columns


def _conv(layer: Conv, image: Shape) -> Stage:
    _require_image(image, layer.size - sum(layer.margins), str(layer))
    outputs = (*_positions(image, layer.size, layer.margins, layer.stride), layer.filters)
    sizes = (layer.size, layer.size)
    return Stage(
        "conv", image, outputs, size=sizes, margins=layer.margins, stride=layer.stride, bias=layer.bias
    )


def _pooled(layer: Pool | Mean, image: Shape, size: Shape) -> Shape:
    _require_image(image, size[0] if layer.size is not None else 1, str(layer))
    return image[0] // size[0], image[1] // size[1], image[2]


def _require_image(shape: Shape, least: int, layer: str) -> None:
    if len(shape) != 3:
        raise InputError(
            f"`layers` must have {layer!r} on images [height, width, channels], got {list(shape)}"
        )
    if min(shape[:2]) < least:
        sides = f"{shape[0]} x {shape[1]}"
        raise InputError(f"`layers` must have {layer!r} on at least {least} x {least} values, got {sides}")
