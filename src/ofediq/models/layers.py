"""Layers of a network as values, and as words: `conv 32, pool, conv 64, pool, dense 10`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_args

from ofediq.errors import InputError, require, require_integer
from ofediq.models.activations import ACTIVATIONS
from ofediq.models.activations import Activation as Activation
from ofediq.models.activations import Elu as Elu
from ofediq.models.activations import Gelu as Gelu
from ofediq.models.activations import GeluTanh as GeluTanh
from ofediq.models.activations import Identity as Identity
from ofediq.models.activations import Leaky as Leaky
from ofediq.models.activations import Relu as Relu
from ofediq.models.activations import Sigmoid as Sigmoid
from ofediq.models.activations import Silu as Silu
from ofediq.models.activations import Softplus as Softplus
from ofediq.models.activations import Tanh as Tanh
from ofediq.settings import Count, Ranged, limited

_LARGEST = 1024  # side of a filter or a window


@dataclass(frozen=True)
class Conv(Ranged):
    """A convolution of `filters` square filters; of an image [height, width, channels].

    Attributes:
        filters: channels of the result.
        size: side of each filter.
        same: pad the image with zeros, half a filter on each side, so that with stride 1 the result is as large.
        bias: whether a number per filter is added.
        stride: from one position of the filters to the next.
        margin: rows and columns of zeros before and after the image, where it is not `same`.
    """

    filters: Count
    size: Annotated[int, limited(1, _LARGEST)] = 3
    same: bool = False
    bias: bool = True
    stride: Annotated[int, limited(1, _LARGEST)] = 1
    margin: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in self.margin:
            require_integer("margin", side, 0, _LARGEST)
        require(
            not self.same or (self.size % 2 == 1 and self.margin == (0, 0)),
            "same",
            "must be False for filters of an even side, and beside a margin",
            self.same,
        )

    @property
    def margins(self) -> tuple[int, int]:
        """Zeros before and after."""
        return (self.size // 2,) * 2 if self.same else self.margin

    def __str__(self) -> str:
        words = (
            f"{self.size}x{self.size}" * (self.size != 3),
            "same" * self.same,
            f"stride{self.stride}" * (self.stride != 1),
            "margin{}-{}".format(*self.margin) * (self.margin != (0, 0)),
            "unbiased" * (not self.bias),
        )
        return " ".join(("conv", str(self.filters), *filter(None, words)))


@dataclass(frozen=True)
class Pool(Ranged):
    """The largest of each `size` x `size` values; what is left over at the end is dropped."""

    size: Annotated[int, limited(2, _LARGEST)] = 2

    def __str__(self) -> str:
        return "pool" if self.size == 2 else f"pool {self.size}"


@dataclass(frozen=True)
class Mean(Ranged):
    """The mean of each `size` x `size` values of an image, or of all of them where `size` is None."""

    size: Annotated[int, limited(2, _LARGEST)] | None = None

    def __str__(self) -> str:
        return "mean" if self.size is None else f"mean {self.size}"


@dataclass(frozen=True)
class Norm:
    """Layer normalisation: mean 0 and variance 1 over the channels or units, then a learnt scale and bias for each.

    Attributes:
        epsilon: added to the variance.
        bias: whether a number per channel is added.
    """

    epsilon: float = 1e-6
    bias: bool = True

    def __post_init__(self) -> None:
        require(self.epsilon > 0, "epsilon", "must be positive", self.epsilon)

    def __str__(self) -> str:
        return " ".join(("norm", f"{self.epsilon:g}", *(["unbiased"] if not self.bias else [])))


@dataclass(frozen=True)
class Dense(Ranged):
    """A dense layer over everything that comes in, flattened.

    Attributes:
        units: numbers that come out; None, for the last layer only: as many as the task needs.
        bias: whether a number per unit is added.
    """

    units: Count | None = None
    bias: bool = True

    def __str__(self) -> str:
        words = (str(self.units or ""), "unbiased" * (not self.bias))
        return " ".join(("dense", *filter(None, words)))


Layer: TypeAlias = Conv | Pool | Mean | Norm | Dense | Activation

_PLAIN: dict[str, type[Activation]] = {kind.word: kind for kind in ACTIVATIONS}
_WORDS = ("conv", "dense", "pool", "mean", "norm", *_PLAIN)
_OPTION = re.compile(r"(?P<size>\d+)x(?P=size)|stride(?P<stride>\d+)|margin(?P<before>\d+)-(?P<after>\d+)")


def is_stack(text: str) -> bool:
    """Whether `text` is meant as layers: it begins with the word of one.

    >>> is_stack("conv 8, dense 10"), is_stack("cnn")
    (True, False)
    """
    return text.replace(",", " ").split()[:1] in [[word] for word in _WORDS]


def parse(text: str) -> tuple[Layer, ...]:
    """The layers that `text` names, one after each comma.

    >>> parse("pool, tanh, dense 10")
    (Pool(size=2), Tanh(), Dense(units=10, bias=True))
    >>> parse("conv 8 5x5 same")
    (Conv(filters=8, size=5, same=True, bias=True, stride=1, margin=(0, 0)),)
    """
    return tuple(_layer(words.split()) for words in text.lower().split(","))


def spelled(layers: Iterable[Layer]) -> str:
    """The words for `layers`: what `parse` reads.

    >>> spelled([Conv(8), Relu(), Pool(), Dense(3, bias=False)])
    'conv 8, relu, pool, dense 3 unbiased'
    """
    return ", ".join(str(layer) for layer in layers)


def arranged(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """`layers` in the one order that names a stack: activations that never fall in front of pools.

    ReLU is put where a hidden convolution or dense layer is followed by no activation.

    >>> spelled(arranged(parse("conv 8, pool, conv 8, pool, tanh, dense 10")))
    'conv 8, relu, pool, conv 8, tanh, pool, dense 10'
    """
    groups: list[list[Layer]] = [[]]
    for layer in layers:
        if not isinstance(layer, get_args(Layer)):
            raise InputError(
                "`layers` must be Conv, Pool, Mean, Norm, Dense, Relu, Tanh or other activations' values, "
                f"got {layer!r}"
            )
        if isinstance(layer, (Conv, Dense)):
            groups.append([])
        groups[-1].append(layer)
    last = groups[-1]
    if not last or not isinstance(last[0], Dense):
        raise InputError(f"`layers` must end with a dense layer, got {spelled(layers) or 'none'!r}")
    return tuple(layer for group in groups for layer in _group(group, hidden=group is not last))


def _group(group: list[Layer], hidden: bool) -> list[Layer]:
    """One convolution or dense layer with what follows it; pools alone before the first."""
    head = group[0] if group and isinstance(group[0], (Conv, Dense)) else None
    made: list[Layer] = []
    for layer in group:
        if isinstance(layer, Activation):
            if head is None or isinstance(made[-1], Activation):
                raise InputError(
                    "`layers` must have at most one activation after each conv or dense layer, "
                    f"got {spelled(group)!r}"
                )
            _put(made, layer)
        else:
            made.append(layer)
    if head is None and any(isinstance(layer, Norm) for layer in group):
        raise InputError(f"`layers` must have a norm behind a conv or dense layer, got {spelled(group)!r}")
    if isinstance(head, Dense) and any(isinstance(layer, (Pool, Mean)) for layer in group):
        raise InputError(f"`layers` must have a pool after images only, got {spelled(group)!r}")
    if head and hidden and not any(isinstance(layer, Activation) for layer in made):
        norms = [place for place, layer in enumerate(made) if isinstance(layer, Norm)]
        made.insert(max(norms, default=0) + 1, Relu())
    if not hidden and len(made) > 1 and made[-1] == Identity():
        made.pop()
    return made


def _put(made: list[Layer], activation: Activation) -> None:
    """`activation` behind `made`, or where it belongs: in front of pools of which the largest stays the largest."""
    place = len(made)
    while activation.rises and isinstance(made[place - 1], Pool):
        place -= 1
    if isinstance(made[place - 1], Activation):
        raise InputError(
            "`layers` must have at most one activation after each conv or dense layer, "
            f"got {spelled([*made, activation])!r}"
        )
    made.insert(place, activation)


def _layer(words: list[str]) -> Layer:
    """One layer from its words."""
    kind, *rest = words or [""]
    numbers = [word for word in rest if word[0].isdecimal() and not _OPTION.fullmatch(word)]
    options = _options([word for word in rest if word not in numbers])
    try:
        if options is not None and (len(numbers) < 2 or kind == Leaky.word):
            if kind == "conv" and numbers:
                return Conv(int(numbers[0]), **options)
            if kind == "dense" and set(options) <= {"bias"}:
                return Dense(int(numbers[0]) if numbers else None, **options)
            if kind == "norm" and set(options) <= {"bias"}:
                return Norm(float(numbers[0]) if numbers else Norm.epsilon, **options)
            if not options and kind in ("pool", "mean"):
                return (Pool if kind == "pool" else Mean)(*map(int, numbers))
            if not options and kind in _PLAIN and (kind == Leaky.word or not numbers):
                return _PLAIN[kind](*map(float, numbers))
    except InputError:  # which says more
        raise
    except (ValueError, TypeError):  # such as 'dense 1.5'
        pass
    raise InputError(
        "`layers` must be words like 'conv 32', 'conv 32 5x5 same', 'pool', 'relu', 'tanh' and 'dense 10', "
        f"got {' '.join(words)!r}"
    )


def _options(words: Iterable[str]) -> dict[str, Any] | None:
    """What the other words of a layer say; None if one of them says nothing."""
    options: dict[str, Any] = {}
    plain = {"same": {"same": True}, "valid": {"same": False}, "unbiased": {"bias": False}}
    for word in words:
        found = _OPTION.fullmatch(word)
        if found:
            given = {key: int(value) for key, value in found.groupdict().items() if value is not None}
            margin = {"margin": (given["before"], given["after"])} if "before" in given else given
            options.update(margin)
        elif word in plain:
            options.update(plain[word])
        else:
            return None
    return options
