"""Find the stack of layers in a torch module: `nn.Sequential` of layers that are known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ofediq.errors import InputError, extra
from ofediq.models.adapters.lowering import UnknownLayerError, agrees, assembled
from ofediq.models.adapters.outputs import check_outputs
from ofediq.models.layers import Conv, Dense, Layer, Pool, Relu, Tanh
from ofediq.models.stack import Network
from ofediq.models.stages import Shape

Places = list[tuple[int, Shape, tuple[int, ...]]]


def lower_module(module: Any, shape: Shape, task: Any, classes: int | None, name: str) -> Network | str:
    """The stack that gives the same as `module` for samples of this `shape`, or why there is none."""
    torch = extra("torch", "torch")
    parameters = list(module.parameters())
    try:
        if not all(one.requires_grad for one in parameters):
            raise UnknownLayerError("some of its parameters do not learn")
        layers, places, (sample, channels_first) = _Reader(module, shape).read()
        shapes = [tuple(one.shape) for one in parameters]
        model = assembled(layers, places, shapes, sample, channels_first, task, name)
        check_outputs((model.outputs,), task, classes, "module")
    except (UnknownLayerError, InputError) as error:
        return str(error)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    outputs = module(torch.tensor(x)[None])[0]
    steps = torch.autograd.grad(outputs.sum(), parameters)
    vector, slope = (
        np.concatenate([one.detach().numpy().reshape(-1) for one in arrays]) for arrays in (parameters, steps)
    )
    same = agrees(model, vector, x, outputs.detach().numpy(), slope)
    return model if same else "its layers compute something else than itself"


class _Reader:
    """Goes through the modules of a `Sequential`, with the shape of a sample on its way."""

    def __init__(self, module: Any, shape: Shape) -> None:
        self.nn = extra("torch.nn", "torch")
        self.module, self.shape = module, shape
        self.number = {id(one): leaf for leaf, one in enumerate(module.parameters())}
        self.layers: list[Layer] = []
        self.places: Places = []
        self.sample, self.channels_first = shape, False
        self.image: Shape | None = None  # [channels, height, width] that a flattened signal had

    def read(self) -> tuple[list[Layer], Places, tuple[Shape, bool]]:
        """Layers, places of their parameters, and the sample's shape with where its channels are."""
        for one in self._modules(self.module):
            self._take(one)
        return self.layers, self.places, (self.sample, self.channels_first)

    def _modules(self, module: Any) -> Iterator[Any]:
        if type(module) is self.nn.Sequential:
            for child in module:
                yield from self._modules(child)
        else:
            yield module

    def _take(self, one: Any) -> None:
        nn, kind = self.nn, type(one)
        if kind in (nn.Identity, nn.Dropout, nn.Dropout2d):
            return
        if kind is nn.Flatten and (one.start_dim, one.end_dim) == (1, -1):
            self._reshape((math.prod(self.shape),))
        elif kind is nn.Unflatten and one.dim > 0 and not self.layers:
            sizes = tuple(int(side) for side in one.unflattened_size)
            self._reshape((*self.shape[: one.dim - 1], *sizes, *self.shape[one.dim :]))
        elif kind in (nn.ReLU, nn.Tanh) and self.layers:
            self.layers.append(Relu() if kind is nn.ReLU else Tanh())
        elif kind is nn.Linear:
            self._dense(one)
        elif kind is nn.Conv2d:
            self._conv(one)
        elif kind is nn.MaxPool2d:
            self._pool(one)
        else:
            raise UnknownLayerError(f"{kind.__name__} is no layer that the kernels know")

    def _reshape(self, shape: Shape) -> None:
        if self.layers and len(self.shape) == 3:
            self.image = self.shape
        self.shape = shape
        if not self.layers:
            self.sample = shape

    def _images(self) -> None:
        if len(self.shape) != 3 or self.image is not None:
            raise UnknownLayerError("images must be [channels, height, width]")
        if not self.layers:
            channels, *sides = self.shape
            self.channels_first = channels > 1
            self.sample = self.shape if self.channels_first else tuple(sides)

    def _conv(self, one: Any) -> None:
        self._images()
        size, margin = one.kernel_size[0], one.padding
        if margin in ("same", "valid"):
            margin = (size // 2 if margin == "same" else 0,) * 2
        plain = {*one.stride, *one.dilation, one.groups} == {1} and one.padding_mode == "zeros"
        if not plain or one.kernel_size != (size, size) or margin not in ((0, 0), (size // 2, size // 2)):
            raise UnknownLayerError(f"{one} is no convolution that the kernels know")
        same = margin != (0, 0)
        self.layers.append(Conv(one.out_channels, size, same, one.bias is not None))
        self.places.append((self._leaf(one.weight), tuple(one.weight.shape), (2, 3, 1, 0)))
        self._bias(one)
        shrink = 0 if same else size - 1
        self.shape = (one.out_channels, self.shape[1] - shrink, self.shape[2] - shrink)

    def _pool(self, one: Any) -> None:
        self._images()
        sizes = [
            value if isinstance(value, tuple) else (value, value) for value in (one.kernel_size, one.stride)
        ]
        if (
            sizes != [(2, 2)] * 2
            or one.padding not in (0, (0, 0))
            or one.dilation not in (1, (1, 1))
            or one.ceil_mode
        ):
            raise UnknownLayerError(f"{one} is no pooling that the kernels know")
        self.layers.append(Pool())
        self.shape = (self.shape[0], self.shape[1] // 2, self.shape[2] // 2)

    def _dense(self, one: Any) -> None:
        if len(self.shape) != 1:
            raise UnknownLayerError("a Linear layer must get flat samples")
        units, inputs = one.weight.shape
        if (inputs,) != self.shape:
            raise UnknownLayerError(f"{one} gets {self.shape[0]} numbers")
        image = self.image
        place = ((units, inputs), (1, 0)) if image is None else ((units, *image), (2, 3, 1, 0))
        self.layers.append(Dense(units, one.bias is not None))
        self.places.append((self._leaf(one.weight), *place))
        self._bias(one)
        self.shape, self.image = (units,), None

    def _bias(self, one: Any) -> None:
        if one.bias is not None:
            self.places.append((self._leaf(one.bias), tuple(one.bias.shape), (0,)))

    def _leaf(self, parameter: Any) -> int:
        return self.number[id(parameter)]
