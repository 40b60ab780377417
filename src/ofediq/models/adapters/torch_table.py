"""What each operation of torch is in JAX, by its ATen name without the overload."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ofediq.errors import extra
from ofediq.models.adapters import torch_operations as ops
from ofediq.models.adapters.torch_sequences import CELLS, attention, recurrent, single


def _axis(function: str) -> Callable[..., Any]:
    """A function of jax.nn along an axis."""
    return lambda x, dim=-1, *_, **__: getattr(extra("jax.nn", "sim"), function)(x, axis=dim)


def _along(function: str) -> Callable[..., Any]:
    """A function of jax.numpy of several arrays along an axis."""
    return lambda parts, dim=0: getattr(extra("jax.numpy", "sim"), function)(list(parts), axis=dim)


_NUMPY = (
    "tanh exp expm1 log log1p log2 log10 sqrt square abs sign sin cos tan sinh cosh floor ceil round isnan maximum "
    "minimum where matmul tril triu outer cumsum cumprod flip roll logical_and logical_or logical_not bitwise_and "
    "bitwise_or bitwise_not"
)

OPERATIONS: dict[str, Callable[..., Any]] = {
    # layers
    "linear": ops.linear,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), ops.convolution),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), ops.max_pool),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), ops.avg_pool),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), ops.adaptive_avg_pool),
    **{one.__name__: one for one in (ops.layer_norm, ops.group_norm, ops.batch_norm, ops.instance_norm)},
    **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout"), ops.dropout),
    "embedding": ops.embedding,
    "scaled_dot_product_attention": attention,
    **{name: recurrent(cell) for name, cell in CELLS.items()},
    **{f"{name}_cell": single(cell) for name, cell in CELLS.items()},
    # each number
    **{name: ops.of_nn(name) for name in ("relu", "relu6", "sigmoid", "silu", "selu", "mish")},
    "hardswish": ops.of_nn("hard_swish"),
    "hardsigmoid": ops.of_nn("hard_sigmoid"),
    "log_sigmoid": ops.of_nn("log_sigmoid"),
    **{one.__name__: one for one in (ops.hardtanh, ops.leaky_relu, ops.elu, ops.gelu, ops.softplus)},
    "prelu": ops.prelu,
    "clamp": ops.clamp,
    "clamp_min": ops.clamp,
    "clamp_max": lambda x, high: ops.clamp(x, None, high),
    **{name: ops.of_numpy(name) for name in _NUMPY.split()},
    "erf": lambda x: extra("jax.scipy.special", "sim").erf(x),
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: x**-0.5,
    "add": ops.scaled("add"),
    "sub": ops.scaled("sub"),
    "rsub": ops.scaled("sub", turned=True),
    "div": ops.divided,
    "true_divide": ops.divided,
    **{name: getattr(operator, name) for name in ("mul", "neg", "pow", "eq", "ne", "lt", "le", "gt", "ge")},
    "remainder": operator.mod,
    "masked_fill": lambda x, mask, value: extra("jax.numpy", "sim").where(mask, value, x),
    # matrices and sums
    **dict.fromkeys(("mm", "bmm", "dot", "mv"), operator.matmul),
    **dict.fromkeys(("addmm", "baddbmm"), ops.weighted),
    "einsum": lambda equation, parts, path=None: extra("jax.numpy", "sim").einsum(equation, *parts),
    **{name: ops.total(name) for name in ("sum", "mean", "prod", "amax", "amin", "all", "any")},
    "logsumexp": lambda x, dim, keepdim=False: extra("jax.nn", "sim").logsumexp(
        x, tuple(dim), keepdims=keepdim
    ),
    "var": ops.spread(root=False),
    "std": ops.spread(root=True),
    "max": ops.extreme("max"),
    "min": ops.extreme("min"),
    "softmax": _axis("softmax"),
    "log_softmax": _axis("log_softmax"),
    # shapes
    **dict.fromkeys(("view", "reshape"), lambda x, shape: x.reshape(tuple(shape))),
    **{one.__name__: one for one in (ops.flatten, ops.unflatten, ops.squeeze, ops.expand, ops.select)},
    "unsqueeze": lambda x, dim: extra("jax.numpy", "sim").expand_dims(x, dim),
    "permute": lambda x, dims: x.transpose(tuple(dims)),
    **dict.fromkeys(("transpose", "swapaxes"), lambda x, first, second: x.swapaxes(first, second)),
    **dict.fromkeys(("t", "numpy_T"), lambda x: x.T),
    "movedim": ops.of_numpy("moveaxis"),
    "expand_as": lambda x, other: ops.expand(x, other.shape),
    "repeat": ops.of_numpy("tile"),
    "cat": _along("concatenate"),
    "concat": _along("concatenate"),
    "stack": _along("stack"),
    "chunk": ops.chunks,
    "split": ops.pieces,
    "split_with_sizes": ops.pieces,
    "unbind": lambda x, dim=0: list(extra("jax.numpy", "sim").moveaxis(x, dim, 0)),
    "slice": ops.sliced,
    "narrow": lambda x, dim, start, length: ops.sliced(x, dim, start, start + length),
    "index": ops.indexed,
    "index_select": lambda x, dim, index: extra("jax.numpy", "sim").take(x, index, axis=dim),
    "gather": lambda x, dim, index, **_: extra("jax.numpy", "sim").take_along_axis(x, index, axis=dim),
    "pad": ops.padded,
    "constant_pad_nd": ops.padded,
    "getitem": operator.getitem,
    # new arrays, and types
    **{name: ops.filled(value) for name, value in (("zeros", 0.0), ("ones", 1.0), ("full", None))},
    **{f"{name}_like": ops.filled_like(one) for name, one in (("zeros", 0.0), ("ones", 1.0), ("full", None))},
    "new_zeros": lambda x, size, **_: extra("jax.numpy", "sim").zeros(tuple(size)),
    "arange": lambda *ends, **_: extra("jax.numpy", "sim").arange(*ends),
    "to": ops.cast,
    "_to_copy": ops.cast,
    "type_as": lambda x, other: x.astype(other.dtype),
    "detach": lambda x: extra("jax.lax", "sim").stop_gradient(x),
    **dict.fromkeys(("contiguous", "clone", "alias", "lift_fresh_copy", "detach_copy"), ops.same),
    "_assert_tensor_metadata": ops.nothing,
}
"""From the array that an operation is called with first; the rest is as in torch's schema."""
