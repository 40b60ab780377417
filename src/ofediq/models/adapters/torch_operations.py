"""Operations of torch in JAX: what each ATen operation computes, for programs that `torch_program` translates.

Each takes arrays where torch takes tensors, in the order and with the names of its schema; what it does not know it
refuses with `UntranslatedError`. Recurrent layers and attention are in `torch_sequences`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ofediq.arrays import Array
from ofediq.errors import extra


class UntranslatedError(Exception):
    """What in a module has no translation."""


def require_known(known: bool, what: str) -> None:
    """Raise unless this is `known`."""
    if not known:
        raise UntranslatedError(f"{what} is not translated")


def _all(value: Any, count: int) -> tuple[int, ...]:
    """`count` numbers where torch takes one for all."""
    found = (value,) if isinstance(value, int) else tuple(value)
    return tuple(int(one) for one in (found * count if len(found) == 1 else found))


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x W^T + b."""
    product = x @ weight.T
    return product if bias is None else product + bias


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """Of images [n, channels, ...] in any number of dimensions."""
    lax, rank = extra("jax.lax", "sim"), weight.ndim - 2
    far = _all(dilation, rank)
    if padding == "same":
        reach = [step * (side - 1) for step, side in zip(far, weight.shape[2:], strict=True)]
        margins = [(one // 2, one - one // 2) for one in reach]
    else:
        margins = [(one, one) for one in _all(0 if padding == "valid" else padding, rank)]
    result = lax.conv_general_dilated(
        x, weight, _all(stride, rank), margins, rhs_dilation=far, feature_group_count=groups
    )
    return result if bias is None else result + bias.reshape(1, -1, *(1 for _ in range(rank)))


def _windows(kernel_size: Any, stride: Any, padding: Any, rank: int) -> tuple[Any, Any, Any]:
    size = _all(kernel_size, rank)
    steps = _all(stride, rank) if stride else size
    margins = [(one, one) for one in _all(padding, rank)]
    return (1, 1, *size), (1, 1, *steps), [(0, 0), (0, 0), *margins]


def max_pool(
    x: Array, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Array:
    """The largest of each window."""
    lax, rank = extra("jax.lax", "sim"), x.ndim - 2
    require_known(set(_all(dilation, rank)) == {1} and not ceil_mode, "a pooling with dilation or ceil_mode")
    window, steps, margins = _windows(kernel_size, stride, padding, rank)
    return lax.reduce_window(x, -math.inf, lax.max, window, steps, margins)


def avg_pool(
    x: Array,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window."""
    lax, rank = extra("jax.lax", "sim"), x.ndim - 2
    plain = not ceil_mode and divisor_override is None and (count_include_pad or not any(_all(padding, rank)))
    require_known(plain, "a mean with ceil_mode, a divisor, or a margin that does not count")
    window, steps, margins = _windows(kernel_size, stride, padding, rank)
    return lax.reduce_window(x, 0.0, lax.add, window, steps, margins) / math.prod(window)


def adaptive_avg_pool(x: Array, output_size: Any) -> Array:
    """The mean of windows, so many of them."""
    sides = x.shape[2:]
    wanted = _all(output_size, len(sides))
    even = all(side % size == 0 for side, size in zip(sides, wanted, strict=True))
    require_known(even, "a mean of uneven windows")
    if set(wanted) == {1}:
        return x.mean(tuple(range(2, x.ndim)), keepdims=True)
    return avg_pool(x, tuple(side // size for side, size in zip(sides, wanted, strict=True)))


def layer_norm(
    x: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Array:
    """Mean 0 and variance 1 over the last axes, scaled and shifted."""
    jnp, axes = extra("jax.numpy", "sim"), tuple(range(-len(normalized_shape), 0))
    centred = x - x.mean(axes, keepdims=True)
    result = centred / jnp.sqrt((centred * centred).mean(axes, keepdims=True) + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _by_channel(x: Array, weight: Array | None, bias: Array | None) -> Array:
    shape = (1, -1, *(1 for _ in x.shape[2:]))
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def group_norm(
    x: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Array:
    """The same over groups of channels and all positions."""
    groups = x.reshape(x.shape[0], num_groups, -1)
    return _by_channel(layer_norm(groups, groups.shape[2:], eps=eps).reshape(x.shape), weight, bias)


def batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Array:
    """With stored statistics."""
    if training or running_mean is None or running_var is None:
        raise UntranslatedError("batch normalisation without stored statistics is not translated")
    spread = 1 / (running_var + eps) ** 0.5
    return _by_channel(_by_channel(x, spread, -running_mean * spread), weight, bias)


def instance_norm(x: Array, weight: Any, bias: Any, mean: Any, var: Any, own: bool, *more: Any) -> Array:
    """Over the positions of each channel."""
    require_known(own, "instance normalisation with stored statistics")
    return group_norm(x, x.shape[1], weight, bias, more[1])


def dropout(x: Array, p: float, train: bool) -> Array:
    """Nothing: models run in evaluation mode."""
    require_known(not train or p == 0, "dropout that stays on in evaluation mode")
    return x


def leaky_relu(x: Array, negative_slope: float = 0.01) -> Array:
    """As torch has it, the slope at 0 is the one below."""
    return extra("jax.numpy", "sim").where(x > 0, x, negative_slope * x)


def prelu(x: Array, weight: Array) -> Array:
    """The same with slopes that learn, one or one of each channel."""
    shape = (1, -1, *(1 for _ in x.shape[2:])) if x.ndim > 1 else (-1,)
    return extra("jax.numpy", "sim").where(x > 0, x, weight.reshape(shape) * x)


def elu(x: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    """x, or alpha (exp(x) - 1) below zero."""
    jax = extra("jax", "sim")
    return scale * jax.numpy.where(x > 0, x, jax.nn.elu(input_scale * jax.numpy.minimum(x, 0), alpha))


def gelu(x: Array, approximate: str = "none") -> Array:
    """By the normal distribution, or what stands for it."""
    return extra("jax.nn", "sim").gelu(x, approximate=approximate == "tanh")


def hardtanh(x: Array, low: float = -1.0, high: float = 1.0) -> Array:
    """Cut off on both sides, where it is flat already."""
    jnp = extra("jax.numpy", "sim")
    return jnp.where((x > low) & (x < high), x, jnp.where(x > low, high, low))


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """log(1 + exp(beta x)) / beta."""
    return extra("jax.nn", "sim").softplus(beta * x) / beta


def clamp(x: Array, low: Any = None, high: Any = None) -> Array:
    """Cut off on both sides."""
    jnp = extra("jax.numpy", "sim")
    x = x if low is None else jnp.where(x < low, low, x)
    return x if high is None else jnp.where(x > high, high, x)


def total(name: str) -> Callable[..., Array]:
    """A reduction of jax.numpy over the axes that torch names second."""

    def function(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
        axes = tuple(dim) if isinstance(dim, (list, tuple)) else dim
        axes = None if axes == () else axes
        return getattr(extra("jax.numpy", "sim"), name)(x, axis=axes, keepdims=keepdim)

    return function


def spread(root: bool) -> Callable[..., Array]:
    """Variance or deviation, in the several forms that torch has."""

    def function(x: Array, dim: Any = None, *rest: Any, **options: Any) -> Array:
        first = rest[0] if rest else options.get("unbiased", options.get("correction", 1))
        if isinstance(dim, bool):
            dim, first = None, dim
        keep = options.get("keepdim", rest[1] if len(rest) > 1 else False)
        axes = tuple(dim) if isinstance(dim, (list, tuple)) else dim
        found = extra("jax.numpy", "sim").var(
            x, axis=axes, ddof=1 if first is None else int(first), keepdims=keep
        )
        return found**0.5 if root else found

    return function


def extreme(name: str) -> Callable[..., Any]:
    """The largest or smallest: of two arrays, of everything, or along an axis, with its place."""

    def function(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        jnp = extra("jax.numpy", "sim")
        if dim is not None and not isinstance(dim, int):
            return getattr(jnp, f"{name}imum")(x, dim)
        value = getattr(jnp, name)(x, axis=dim, keepdims=keepdim)
        return value if dim is None else (value, getattr(jnp, f"arg{name}")(x, axis=dim, keepdims=keepdim))

    return function


def scaled(name: str, turned: bool = False) -> Callable[..., Array]:
    """A sum or difference, of which torch may multiply the second part."""

    def function(x: Array, other: Any, *, alpha: Any = 1) -> Array:
        pair = (x, other if alpha == 1 else alpha * other)
        return getattr(operator, name)(*(pair[::-1] if turned else pair))

    return function


def divided(x: Array, other: Any, *, rounding_mode: str | None = None) -> Array:
    """x / y, as it is or rounded."""
    jnp = extra("jax.numpy", "sim")
    quotient = x / other
    return quotient if rounding_mode is None else getattr(jnp, rounding_mode)(quotient)


def weighted(bias: Array, first: Array, second: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    """beta b + alpha A B."""
    return beta * bias + alpha * (first @ second)


def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    """Some axes in one."""
    first, last = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


def unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    """One axis in several."""
    place = dim % x.ndim
    return x.reshape(*x.shape[:place], *sizes, *x.shape[place + 1 :])


def squeeze(x: Array, dim: Any = None) -> Array:
    """Without axes of length 1."""
    if dim is None:
        return x.squeeze()
    axes = (dim,) if isinstance(dim, int) else dim
    return x.squeeze(tuple(axis for axis in axes if x.shape[axis] == 1))


def expand(x: Array, size: Sequence[int], *, implicit: bool = False) -> Array:
    """Repeated along axes of length 1; -1 keeps a side."""
    sides = (1,) * (len(size) - x.ndim) + x.shape
    wanted = [side if new == -1 else new for new, side in zip(size, sides, strict=True)]
    return extra("jax.numpy", "sim").broadcast_to(x, wanted)


def pieces(x: Array, size: Any, dim: int = 0) -> list[Array]:
    """Cut along an axis into parts of so many each, or of these sizes."""
    lengths = [size] * (x.shape[dim] // size) if isinstance(size, int) else list(size)
    ends = [sum(lengths[: place + 1]) for place in range(len(lengths))]
    ends = [end for end in ends if end < x.shape[dim]]
    return list(extra("jax.numpy", "sim").split(x, ends, axis=dim))


def chunks(x: Array, count: int, dim: int = 0) -> list[Array]:
    """Cut along an axis into so many parts."""
    return pieces(x, -(-x.shape[dim] // count), dim)


def select(x: Array, dim: int, index: int) -> Array:
    """One place along an axis."""
    return extra("jax.numpy", "sim").take(x, index % x.shape[dim], axis=dim)


def sliced(x: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    """Some places along an axis."""
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def indexed(x: Array, indices: Sequence[Any]) -> Array:
    """At arrays of places; None keeps an axis."""
    return x[tuple(slice(None) if one is None else one for one in indices)]


def padded(x: Array, pad: Sequence[int], mode: Any = "constant", value: float | None = None) -> Array:
    """With a margin; torch counts axes from the last."""
    if not isinstance(mode, str):
        mode, value = "constant", mode
    known = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    require_known(min(pad) >= 0 and mode in known, "a margin that cuts")
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    more = {"constant_values": value or 0} if mode == "constant" else {}
    return extra("jax.numpy", "sim").pad(x, widths, mode=known[mode], **more)


def embedding(weight: Array, indices: Array, padding: int = -1, *_: Any) -> Array:
    """The rows of these numbers; that of `padding` is not learnt."""
    if padding >= 0:
        weight = weight.at[padding].set(extra("jax.lax", "sim").stop_gradient(weight[padding]))
    return weight[indices]


def filled(value: float | None = None) -> Callable[..., Array]:
    """An array of these sides with one number everywhere."""

    def function(size: Any, fill: Any = 0.0, **_: Any) -> Array:
        return extra("jax.numpy", "sim").full(tuple(size), fill if value is None else value)

    return function


def filled_like(value: float | None = None) -> Callable[..., Array]:
    """The same with the sides of another."""

    def function(x: Array, fill: Any = 0.0, **_: Any) -> Array:
        return extra("jax.numpy", "sim").full_like(x, fill if value is None else value)

    return function


def cast(x: Array, *rest: Any, **options: Any) -> Array:
    """Of another type; numbers stay in 32 bits."""
    jnp = extra("jax.numpy", "sim")
    given = [str(one) for one in (*rest, *options.values()) if str(one).startswith("torch.")]
    kinds = [
        one for one in given if one.removeprefix("torch.")[:3] in ("int", "flo", "boo", "dou", "lon", "uin")
    ]
    if not kinds:
        return x
    kind = "bool" if "bool" in kinds[0] else "float32" if "float" in kinds[0] else "int32"
    return x.astype(getattr(jnp, kind if kind != "bool" else "bool_"))


def same(x: Array, *_: Any, **__: Any) -> Array:
    """x itself."""
    return x


def nothing(*_: Any, **__: Any) -> None:
    """A check that torch has made already."""


def of_numpy(name: str) -> Callable[..., Any]:
    """A function of jax.numpy, looked up when it is used."""
    return lambda *arguments: getattr(extra("jax.numpy", "sim"), name)(*arguments)


def of_nn(name: str) -> Callable[..., Any]:
    """A function of each number from jax.nn."""
    return lambda x: getattr(extra("jax.nn", "sim"), name)(x)
