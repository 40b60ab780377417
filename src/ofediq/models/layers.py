"""Layers of a network as values, and as words: `conv 32, pool, conv 64, pool, dense 10`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, get_args

from ofediq.errors import InputError, require, require_integer

SIZES = (3, 5)
"""Sides of the filters that there are."""


@dataclass(frozen=True)
class Conv:
    """A convolution of `filters` square filters, stride 1; of an image [height, width, channels].

    Attributes:
        filters: channels of the result.
        size: side of each filter, 3 or 5.
        same: pad the image with zeros, so that the result is as large; else it is smaller by `size` - 1.
        bias: whether a number per filter is added.
    """

    filters: int
    size: int = 3
    same: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        require_integer("filters", self.filters, 1)
        require(self.size in SIZES, "size", "must be 3 or 5", self.size)

    def __str__(self) -> str:
        words = ("5x5" * (self.size == 5), "same" * self.same, "unbiased" * (not self.bias))
        return " ".join(("conv", str(self.filters), *filter(None, words)))


@dataclass(frozen=True)
class Pool:
    """The largest of each 2 x 2 values; an odd last row or column is dropped."""

    size: int = 2

    def __post_init__(self) -> None:
        require(self.size == 2, "size", "must be 2 for a pool", self.size)

    def __str__(self) -> str:
        return "pool"


@dataclass(frozen=True)
class Dense:
    """A dense layer over everything that comes in, flattened.

    Attributes:
        units: numbers that come out; None, for the last layer only: as many as the task needs.
        bias: whether a number per unit is added.
    """

    units: int | None = None
    bias: bool = True

    def __post_init__(self) -> None:
        if self.units is not None:
            require_integer("units", self.units, 1)

    def __str__(self) -> str:
        words = (str(self.units or ""), "unbiased" * (not self.bias))
        return " ".join(("dense", *filter(None, words)))


@dataclass(frozen=True)
class Relu:
    """max(0, x)."""

    word: ClassVar[str] = "relu"

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Tanh:
    """The hyperbolic tangent."""

    word: ClassVar[str] = "tanh"

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Identity:
    """x itself: a hidden layer without an activation."""

    word: ClassVar[str] = "identity"

    def __str__(self) -> str:
        return self.word


Activation: TypeAlias = Relu | Tanh | Identity
Layer: TypeAlias = Conv | Pool | Dense | Activation

_ACTIVATIONS = get_args(Activation)
_PLAIN: dict[str, type[Any]] = {"pool": Pool, **{kind.word: kind for kind in _ACTIVATIONS}}
_OPTIONS: dict[str, dict[str, Any]] = {
    "3x3": {"size": 3},
    "5x5": {"size": 5},
    "same": {"same": True},
    "valid": {"same": False},
    "unbiased": {"bias": False},
}


def is_stack(text: str) -> bool:
    """Whether `text` is meant as layers: it begins with the word of one.

    >>> is_stack("conv 8, dense 10"), is_stack("cnn")
    (True, False)
    """
    return text.replace(",", " ").split()[:1] in [["conv"], ["dense"], *([word] for word in _PLAIN)]


def parse(text: str) -> tuple[Layer, ...]:
    """The layers that `text` names, one after each comma.

    >>> parse("conv 8 5x5 same, pool, tanh, dense 10")
    (Conv(filters=8, size=5, same=True, bias=True), Pool(size=2), Tanh(), Dense(units=10, bias=True))
    """
    return tuple(_layer(words.split()) for words in text.lower().split(","))


def spelled(layers: Iterable[Layer]) -> str:
    """The words for `layers`: what `parse` reads.

    >>> spelled([Conv(8), Relu(), Pool(), Dense(3, bias=False)])
    'conv 8, relu, pool, dense 3 unbiased'
    """
    return ", ".join(str(layer) for layer in layers)


def arranged(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """`layers` in the one order that names a stack: each convolution or dense layer, its activation, its pools.

    ReLU is put where a hidden layer names no activation. Pooling and activations commute, since activations never
    fall.

    >>> spelled(arranged(parse("conv 8, pool, conv 8, pool, tanh, dense 10")))
    'conv 8, relu, pool, conv 8, tanh, pool, dense 10'
    """
    groups: list[list[Layer]] = [[]]
    for layer in layers:
        if not isinstance(layer, get_args(Layer)):
            raise InputError(
                f"`layers` must be Conv, Pool, Dense, Relu, Tanh or Identity values, got {layer!r}"
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
    chosen = [layer for layer in group if isinstance(layer, _ACTIVATIONS)]
    pools: list[Layer] = [layer for layer in group if isinstance(layer, Pool)]
    heads = [layer for layer in group if isinstance(layer, (Conv, Dense))]
    if len(chosen) > len(heads):
        raise InputError(
            f"`layers` must have at most one activation after each conv or dense layer, got {spelled(group)!r}"
        )
    if pools and heads and isinstance(heads[0], Dense):
        raise InputError(f"`layers` must have a pool after images only, got {spelled(group)!r}")
    if heads and not chosen and hidden:
        chosen = [Relu()]
    if chosen == [Identity()] and not hidden:
        chosen = []
    return [*heads, *chosen, *pools]


def _layer(words: list[str]) -> Layer:
    """One layer from its words."""
    kind, *rest = words or [""]
    if kind in _PLAIN and not rest:
        return _PLAIN[kind]()  # type: ignore[no-any-return]  # one of the classes above
    numbers = [int(word) for word in rest if word.isdecimal()]
    options = {key: value for word in rest for key, value in _OPTIONS.get(word, {}).items()}
    known = all(word.isdecimal() or word in _OPTIONS for word in rest) and len(numbers) <= 1
    if kind == "conv" and known and numbers:
        return Conv(numbers[0], **options)
    if kind == "dense" and known and set(options) <= {"bias"}:
        return Dense(numbers[0] if numbers else None, **options)
    raise InputError(
        "`layers` must be words like 'conv 32', 'conv 32 5x5 same', 'pool', 'relu', 'tanh' and 'dense 10', "
        f"got {' '.join(words)!r}"
    )
