"""Operations of torch in JAX: what modules and functions compute, for programs that `torch_program` translates.

Each takes arrays where torch takes tensors, in the same order and with the same names; what it does not know it
refuses with `UntranslatedError`.
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


def _require(known: bool, what: str) -> None:
    if not known:
        raise UntranslatedError(f"{what} is not translated")


def _all(value: Any, count: int) -> tuple[int, ...]:
    """`count` numbers where torch takes one for all."""
    return (int(value),) * count if isinstance(value, int) else tuple(int(one) for one in value)


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
    steps = size if stride is None or stride == () else _all(stride, rank)
    margins = [(one, one) for one in _all(padding, rank)]
    return (1, 1, *size), (1, 1, *steps), [(0, 0), (0, 0), *margins]


def max_pool(
    x: Array,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array:
    """The largest of each window."""
    lax, rank = extra("jax.lax", "sim"), x.ndim - 2
    plain = set(_all(dilation, rank)) == {1} and not ceil_mode and not return_indices
    _require(plain, "a pooling with dilation, ceil_mode or indices")
    window, steps, margins = _windows(kernel_size, stride, padding, rank)
    return lax.reduce_window(x, -math.inf, lax.max, window, steps, margins)


def avg_pool(
    x: Array,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window."""
    lax, rank = extra("jax.lax", "sim"), x.ndim - 2
    plain = not ceil_mode and divisor_override is None and (count_include_pad or not any(_all(padding, rank)))
    _require(plain, "a mean with ceil_mode, a divisor, or a margin that does not count")
    window, steps, margins = _windows(kernel_size, stride, padding, rank)
    return lax.reduce_window(x, 0.0, lax.add, window, steps, margins) / math.prod(window)


def adaptive_avg_pool(x: Array, output_size: Any) -> Array:
    """The mean of windows, so many of them."""
    sides = x.shape[2:]
    if isinstance(output_size, int):
        output_size = (output_size,) * len(sides)
    wanted = [side if size is None else size for size, side in zip(output_size, sides, strict=True)]
    _require(
        all(side % size == 0 for side, size in zip(sides, wanted, strict=True)), "a mean of uneven windows"
    )
    if set(wanted) == {1}:
        return x.mean(tuple(range(2, x.ndim)), keepdims=True)
    return avg_pool(x, tuple(side // size for side, size in zip(sides, wanted, strict=True)))


def layer_norm(
    x: Array,
    normalized_shape: Any,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """Mean 0 and variance 1 over the last axes, then scale and bias."""
    jnp = extra("jax.numpy", "sim")
    axes = tuple(range(-len(_all(normalized_shape, 1)), 0))
    centred = x - x.mean(axes, keepdims=True)
    result = centred / jnp.sqrt((centred * centred).mean(axes, keepdims=True) + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def group_norm(
    x: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """The same over groups of channels and all positions."""
    groups = x.reshape(x.shape[0], num_groups, -1)
    result = layer_norm(groups, groups.shape[2:], eps=eps).reshape(x.shape)
    shape = (1, -1, *(1 for _ in x.shape[2:]))
    result = result if weight is None else result * weight.reshape(shape)
    return result if bias is None else result + bias.reshape(shape)


def batch_norm(
    x: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    """With stored statistics."""
    jnp = extra("jax.numpy", "sim")
    _require(not training and running_mean is not None, "batch normalisation without stored statistics")
    shape = (1, -1, *(1 for _ in x.shape[2:]))
    spread = jnp.sqrt(running_var + eps).reshape(shape)
    result = (x - running_mean.reshape(shape)) / spread
    result = result if weight is None else result * weight.reshape(shape)
    return result if bias is None else result + bias.reshape(shape)


def dropout(x: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """Nothing: models run in evaluation mode."""
    _require(not training or p == 0, "dropout that stays on in evaluation mode")
    return x


def leaky_relu(x: Array, negative_slope: float = 0.01, inplace: bool = False) -> Array:
    """As torch has it, the slope at 0 is the one below."""
    return extra("jax.numpy", "sim").where(x > 0, x, negative_slope * x)


def elu(x: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    """x, or alpha (exp(x) - 1) below zero."""
    return extra("jax.nn", "sim").elu(x, alpha)


def gelu(x: Array, approximate: str = "none") -> Array:
    """By the normal distribution, or what stands for it."""
    return extra("jax.nn", "sim").gelu(x, approximate=approximate == "tanh")


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """log(1 + exp(x))."""
    _require(beta == 1, "softplus with a beta")
    return extra("jax.nn", "sim").softplus(x)


def named(name: str) -> Callable[..., Array]:
    """A function of each number from jax.nn that torch calls the same."""

    def function(x: Array, inplace: bool = False) -> Array:
        return getattr(extra("jax.nn", "sim"), name)(x)

    return function


def hardtanh(x: Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Array:
    """Cut off on both sides."""
    return extra("jax.numpy", "sim").clip(x, min_val, max_val)


def softmax(x: Array, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Array:
    """Probabilities."""
    return extra("jax.nn", "sim").softmax(x, axis=dim)


def log_softmax(x: Array, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Array:
    """Their logarithms."""
    return extra("jax.nn", "sim").log_softmax(x, axis=dim)


def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    """Some axes in one."""
    first, last = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


def unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    """One axis in several."""
    place = dim % x.ndim
    return x.reshape(*x.shape[:place], *sizes, *x.shape[place + 1 :])


def reshape(x: Array, *shape: Any) -> Array:
    """Another shape for the same numbers."""
    return x.reshape(*shape)


def squeeze(x: Array, dim: int | None = None) -> Array:
    """Without axes of length 1."""
    if dim is None:
        return x.squeeze()
    return x.squeeze(dim) if x.shape[dim] == 1 else x


def unsqueeze(x: Array, dim: int) -> Array:
    """With one more axis of length 1."""
    return extra("jax.numpy", "sim").expand_dims(x, dim)


def permute(x: Array, *order: Any) -> Array:
    """Axes in another order."""
    return x.transpose(*order)


def transpose(x: Array, first: int, second: int) -> Array:
    """Two axes exchanged."""
    return x.swapaxes(first, second)


def concatenated(tensors: Sequence[Array], dim: int = 0) -> Array:
    """One behind the other."""
    return extra("jax.numpy", "sim").concatenate(tensors, axis=dim)


def mean(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Over some axes."""
    return x.mean(tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)


def total(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """The sum over some axes."""
    return x.sum(tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)


def size(x: Array, dim: int | None = None) -> Any:
    """The shape, or one side."""
    return x.shape if dim is None else x.shape[dim]


def same(x: Array, *_: Any, **__: Any) -> Array:
    """x itself."""
    return x


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: named(name)
        for name in ("relu", "relu6", "tanh", "sigmoid", "silu", "selu", "hard_tanh", "mish")
    },
    "relu_": named("relu"),
    "hardswish": named("hard_swish"),
    "hardsigmoid": named("hard_sigmoid"),
    "logsigmoid": named("log_sigmoid"),
    "softsign": named("soft_sign"),
    **{
        one.__name__: one for one in (hardtanh, leaky_relu, elu, gelu, softplus, softmax, log_softmax, linear)
    },
    **{one.__name__: one for one in (layer_norm, group_norm, batch_norm, flatten, unflatten, mean, size)},
    **{one.__name__: one for one in (reshape, squeeze, unsqueeze, permute, transpose)},
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), convolution),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), max_pool),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d"), avg_pool),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), adaptive_avg_pool),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d"), dropout),
    **dict.fromkeys(("cat", "concat"), concatenated),
    **dict.fromkeys(("contiguous", "float", "clone"), same),
    "view": reshape,
    "swapaxes": transpose,
    "sum": total,
    "div": operator.truediv,
    "getattr": getattr,
    **{
        name: getattr(operator, name)
        for name in ("add", "sub", "mul", "truediv", "floordiv", "neg", "matmul", "pow", "getitem")
    },
}
"""By the name that torch has for a function or a method."""
