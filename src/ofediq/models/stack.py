"""A stack of layers as a model: what is built in, what users name in words, and what their modules are lowered to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, Vector, namespace
from ofediq.errors import InputError, require, require_integer, require_nonnegative
from ofediq.models.base import LayeredModel, Task
from ofediq.models.layers import Dense, Layer, arranged, parse, spelled
from ofediq.models.passes import backward, forward
from ofediq.models.stages import Shape, Stage, stages_of

_CHUNK_NUMBERS = 2**22  # gradients of one chunk of clients: 16 MiB


@dataclass(frozen=True)
class Place:
    """Where an array of parameters lies in the flat vector.

    Attributes:
        start: of its first number.
        shape: in which it is kept there.
        axes: the order of those axes that makes it a layer's [..., inputs, outputs].
    """

    start: int
    shape: Shape
    axes: tuple[int, ...]

    def read(self, params: Array, shape: Shape) -> Array:
        """The array, as a layer wants it: `shape` after the leading axes of `params` [..., dim]."""
        lead = params.shape[:-1]
        kept = params[..., self.start : self.start + math.prod(self.shape)].reshape(*lead, *self.shape)
        return kept.transpose(*range(len(lead)), *(len(lead) + axis for axis in self.axes)).reshape(
            *lead, *shape
        )

    def write(self, array: Array) -> Array:
        """The way back: from [..., inputs, outputs] in one piece [..., size] to how it is kept."""
        lead = array.shape[:-1]
        turned = array.reshape(*lead, *(self.shape[axis] for axis in self.axes))
        back = (len(lead) + int(axis) for axis in np.argsort(self.axes))
        return turned.transpose(*range(len(lead)), *back).reshape(*lead, -1)


@dataclass(frozen=True)
class Network(LayeredModel):
    """Layers one after another on samples of one `shape`; made by `network`.

    The flat vector holds the weights [inputs, outputs] and bias of each layer in turn. Without a hidden layer the
    loss is convex, and the start is zero, as the theorems assume; else it is Glorot's.

    Attributes:
        layers: as `layers.arranged` puts them, every size known.
        shape: of one sample. Dense layers take samples of any other shape with as many numbers.
        l2: penalty `l2 / 2 * ||params||^2`.
        start: from a seed to the parameters before the first step, where they are not the usual ones.
        places: where the arrays lie in the flat vector, where not one after another.
        channels_first: whether samples are [channels, height, width].
        scaling: a factor and a shift of the samples, in front of the first layer.
    """

    name: str
    task: Task
    layers: tuple[Layer, ...]
    shape: Shape
    l2: float = 0.0
    chunk: int = 256
    start: Callable[[int], Vector] | None = field(default=None, repr=False)
    places: tuple[Place, ...] | None = field(default=None, repr=False)
    channels_first: bool = False
    scaling: tuple[float, float] = (1.0, 0.0)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """What is computed, one after another."""
        return stages_of(self.layers, self._image)

    @cached_property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D = sum of (inputs + 1) x outputs over the layers."""
        return sum(math.prod(shape) for shape in self._shapes)

    @property
    def convex(self) -> bool:  # type: ignore[override]  # derived here, an attribute in the base class
        """Whether there is no hidden layer."""
        return len(self.layers) == 1

    @property
    def convolves(self) -> bool:
        """Whether there is a convolution."""
        return any(stage.kind == "conv" for stage in self.stages)

    @property
    def outputs(self) -> int:
        """Numbers that come out: class scores, or one."""
        return self.stages[-1].outputs[0]

    def initial(self, seed: int = 0) -> Vector:
        """Glorot's weights, scales of 1 and zero biases; all zero without a hidden layer."""
        if self.start is not None:
            return self.start(seed)
        rng, pieces = np.random.default_rng(seed), []
        for stage in self.stages:
            size = math.prod(stage.matrix)
            if stage.kind == "norm":
                pieces.append(np.ones(size, np.float32))
            else:
                pieces.append(np.zeros(size, np.float32) if self.convex else glorot(rng, *stage.spread, size))
            pieces.append(np.zeros(stage.bias * stage.matrix[1], np.float32))
        return np.concatenate(pieces)

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """Outputs, and for each layer what its backward pass needs."""
        hidden, caches = self.images(xs), []
        for stage, (weights, bias) in zip(self.stages, self._arrays(params), strict=True):
            hidden, cache = forward(stage, weights, bias, hidden)
            caches.append(cache)
        return hidden, caches

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Back through the layers."""
        pieces: list[Array] = []
        first = next(depth for depth, stage in enumerate(self.stages) if stage.learns)
        arrays = self._arrays(params)
        for depth in reversed(range(first, len(self.stages))):
            further = depth > first
            found, deltas = backward(
                self.stages[depth], arrays[depth][0], cache[depth], deltas, each, further
            )
            pieces = found + pieces
        if self.places is not None:
            written = [place.write(piece) for place, piece in zip(self.places, pieces, strict=True)]
            order = sorted(range(len(written)), key=lambda index: self.places[index].start)  # type: ignore[index]  # not None here
            pieces = [written[index] for index in order]
        return namespace(pieces[0]).concatenate(pieces, axis=-1)

    def images(self, xs: Array) -> Array:
        """Samples as the first layer wants them: [n, height, width, channels] or [n, ...]."""
        factor, shift = (np.float32(number) for number in self.scaling)
        if self.scaling != (1.0, 0.0):
            xs = xs * factor + shift
        if self.channels_first:
            return xs.reshape(len(xs), *self.shape).transpose(0, 2, 3, 1)
        return xs.reshape(len(xs), *self.stages[0].inputs)

    @property
    def as_given(self) -> bool:
        """Whether the first layer takes samples as they come."""
        return not self.channels_first and self.scaling == (1.0, 0.0)

    def stack(self, shape: Shape) -> Network:
        """Itself."""
        return self

    def smoothness(self, xs: Vector) -> float | None:
        """beta = c max ||(x, 1)||^2 + l2 without a hidden layer, c = 2 for the squared loss, 1/2 for cross-entropy.

        The Hessian of the cross-entropy in the outputs is diag(q) - q q^T, whose eigenvalues are at most 1/2.
        """
        if not self.convex:
            return None
        flat = xs.reshape(len(xs), -1).astype(np.float64)
        largest = float((flat * flat).sum(1).max()) + self.stages[0].bias
        return (2.0 if self.task == "regression" else 0.5) * largest + self.l2

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        return {**super().describe(), "layers": spelled(self.layers), "shape": list(self.shape)}

    def flat_order(self) -> npt.NDArray[np.int64] | None:
        """Where each parameter, counted layer by layer, lies in the flat vector; None if in the same order."""
        if self.places is None:
            return None
        numbers = np.arange(self.dim)
        pieces = [
            place.read(numbers, shape).reshape(-1)
            for place, shape in zip(self.places, self._shapes, strict=True)
        ]
        return np.concatenate(pieces)

    @property
    def _image(self) -> Shape:
        return (*self.shape[1:], self.shape[0]) if self.channels_first else self.shape

    @cached_property
    def _shapes(self) -> tuple[Shape, ...]:
        """Of all arrays of parameters: weights and bias of each layer."""
        shapes: list[Shape] = []
        for stage in self.stages:
            if stage.learns:
                shapes += [stage.matrix, stage.matrix[1:]] if stage.bias else [stage.matrix]
        return tuple(shapes)

    @cached_property
    def _pieces(self) -> tuple[tuple[slice, Shape], ...]:
        """Where each of them lies in a flat vector, layer by layer."""
        ends = list(itertools.accumulate(math.prod(shape) for shape in self._shapes))
        return tuple(zip(map(slice, [0, *ends], ends), self._shapes, strict=True))

    def _arrays(self, params: Array) -> list[tuple[Array, Array]]:
        """Weights and bias of each layer, views of a flat parameter vector [..., dim]."""
        if self.places is None:
            lead = params.shape[:-1]
            arrays = [params[..., piece].reshape(*lead, *shape) for piece, shape in self._pieces]
        else:
            arrays = [
                place.read(params, shape) for place, shape in zip(self.places, self._shapes, strict=True)
            ]
        found, rest = [], iter(arrays)
        for stage in self.stages:
            weights = next(rest) if stage.learns else None
            found.append((weights, next(rest) if stage.bias else np.float32(0)))
        return found


def network(
    layers: str | Sequence[Layer],
    *,
    shape: Shape,
    task: Task,
    classes: int | None = None,
    l2: float = 0.0,
    name: str | None = None,
) -> Network:
    """A model from its layers, in words or as values.

    Layers are `conv 32`, `conv 32 5x5`, `conv 32 same` (with a margin of zeros, as large as before), `conv 32
    stride2`, `pool` (the largest of 2 x 2), `pool 3`, `mean 2`, `mean` (of the whole image), `norm` (layer
    normalisation), `dense 64`; `relu`, `tanh`, `sigmoid`, `silu`, `gelu`, `gelu-tanh`, `leaky 0.01`, `elu`,
    `softplus`, `identity`. ReLU follows every hidden layer that names no activation. The last layer gives the
    outputs; a plain `dense` there has as many as the task needs. Loss: cross-entropy of the class scores, or squared
    error.

    Args:
        layers: the words, or `Conv`, `Pool`, `Mean`, `Norm`, `Dense`, `Relu` and the other activations' values, from
            `ofediq.models.layers`.
        shape: of one sample: (height, width) or (height, width, channels) where there are convolutions.
        task: "classification" or "regression".
        classes: the number of class scores.
        l2: penalty `l2 / 2 * ||params||^2`.
        name: what reports call the model; by default the words.

    >>> network("conv 32, pool, conv 64, pool, dense", shape=(28, 28), task="classification", classes=10).dim
    34826
    """
    require(isinstance(layers, Iterable), "layers", "must be words or layers", layers)
    stack = parse(layers) if isinstance(layers, str) else tuple(layers)
    require(task in ("classification", "regression"), "task", "must be classification or regression", task)
    wanted = 1
    if task == "classification":
        wanted = 0 if classes is None else require_integer("classes", classes, 0)
        require(wanted >= 2, "classes", "must be at least 2 for classification", classes)
    stack = arranged(stack)
    sizes = [index for index, layer in enumerate(stack) if isinstance(layer, Dense) and layer.units is None]
    last = max(index for index, layer in enumerate(stack) if isinstance(layer, Dense))
    if any(index != last for index in sizes):
        raise InputError(f"`layers` must say how many units a hidden layer has, got {spelled(stack)!r}")
    if sizes:
        stack = (*stack[:last], Dense(wanted, stack[last].bias), *stack[last + 1 :])  # type: ignore[union-attr]  # a Dense
    sides = tuple(require_integer("shape", side, 1) for side in shape)
    made = Network(name or _words(stack), task, stack, sides, require_nonnegative("l2", l2))
    require(
        made.outputs == wanted,
        "layers",
        f"must end with {wanted} output{'s' * (wanted > 1)}",
        spelled(stack),
    )
    largest = 32 if made.convolves else 512 if made.convex else 256
    chunk = min(largest, max(8, _CHUNK_NUMBERS // made.dim))
    return replace(made, chunk=chunk)


def _words(stack: tuple[Layer, ...]) -> str:
    """The layers without the activations that go without saying."""
    return spelled(layer for layer in stack if str(layer) != "relu")


def glorot(rng: np.random.Generator, fan_in: int, fan_out: int, size: int) -> Vector:
    """Glorot's uniform initialisation: U(-r, r) with r = sqrt(6 / (fan_in + fan_out))."""
    limit = float(np.sqrt(6.0 / max(fan_in + fan_out, 1)))
    return rng.uniform(-limit, limit, size).astype(np.float32)
