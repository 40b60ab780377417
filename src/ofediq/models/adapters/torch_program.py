"""A torch module as a JAX function of its parameters, where every operation of it is known.

`torch.fx` traces the module; `torch_operations` says what each step is in JAX. Values and derivatives are compared
with torch's own at one batch before the translation is used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import extra
from ofediq.models.adapters.torch_operations import FUNCTIONS, UntranslatedError
from ofediq.models.stages import Shape

Outputs = Callable[[list[Array], Array], Array]
"""From the parameters that learn, in the module's order, and one sample to its outputs."""

_WINDOW = ("kernel_size", "stride", "padding")
_PLAIN = "ReLU ReLU6 Tanh Sigmoid SiLU SELU Mish Hardswish Hardsigmoid LogSigmoid Softsign"  # of each number
_NOTHING = "Identity Dropout Dropout1d Dropout2d"  # where nothing is trained
_MODULES: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (name.lower(), ()) for name in _PLAIN.split()},
    **dict.fromkeys(_NOTHING.split(), ("contiguous", ())),
    "Linear": ("linear", ("weight", "bias")),
    "MaxPool1d": ("max_pool1d", (*_WINDOW, "dilation", "ceil_mode", "return_indices")),
    "MaxPool2d": ("max_pool2d", (*_WINDOW, "dilation", "ceil_mode", "return_indices")),
    "AvgPool1d": ("avg_pool1d", (*_WINDOW, "ceil_mode", "count_include_pad")),
    "AvgPool2d": ("avg_pool2d", (*_WINDOW, "ceil_mode", "count_include_pad", "divisor_override")),
    "AdaptiveAvgPool1d": ("adaptive_avg_pool1d", ("output_size",)),
    "AdaptiveAvgPool2d": ("adaptive_avg_pool2d", ("output_size",)),
    "LayerNorm": ("layer_norm", ("normalized_shape", "weight", "bias", "eps")),
    "GroupNorm": ("group_norm", ("num_groups", "weight", "bias", "eps")),
    "Flatten": ("flatten", ("start_dim", "end_dim")),
    "Unflatten": ("unflatten", ("dim", "unflattened_size")),
    "Hardtanh": ("hardtanh", ("min_val", "max_val")),
    "LeakyReLU": ("leaky_relu", ("negative_slope",)),
    "ELU": ("elu", ("alpha",)),
    "GELU": ("gelu", ("approximate",)),
    "Softplus": ("softplus", ("beta", "threshold")),
    "Softmax": ("softmax", ("dim",)),
    "LogSoftmax": ("log_softmax", ("dim",)),
}
"""The function that a module is, and which of its attributes that function takes."""

_CONVOLUTION = ("weight", "bias", "stride", "padding", "dilation", "groups")
_BATCH_NORM = ("running_mean", "running_var", "weight", "bias")


def translate(module: Any, shape: Shape) -> Outputs | str:
    """The JAX function that gives the same as `module` for samples of this `shape`, or why there is none."""
    if find_spec("jax") is None:
        return "there is no JAX"
    try:
        outputs = _Translation(module)
        return outputs if _agrees(module, outputs, shape) else "its translation computes something else"
    except UntranslatedError as error:
        return str(error)
    except (
        TypeError,
        ValueError,
        RuntimeError,
        AttributeError,
    ) as error:  # of the tracer, or of either library
        return f"it cannot be traced ({type(error).__name__})"


class _Translation:
    """Runs the traced graph in JAX."""

    def __init__(self, module: Any) -> None:
        torch = extra("torch", "torch")
        self.module, self.tensor = module, torch.Tensor
        self.graph = torch.fx.symbolic_trace(module).graph
        learnt = [value for value in module.parameters() if value.requires_grad]
        self.places = {id(value): place for place, value in enumerate(learnt)}
        for node in self.graph.nodes:  # what is not known is known now
            if node.op == "call_module":
                self._known(self.module.get_submodule(node.target))
            elif node.op in ("call_function", "call_method"):
                _function(node.target)

    def __call__(self, leaves: list[Array], x: Array) -> Array:
        values: dict[Any, Any] = {}

        def value(part: Any) -> Any:
            return extra("torch.fx", "torch").node.map_arg(part, lambda node: values[node])

        for node in self.graph.nodes:
            if node.op == "placeholder":
                values[node] = x[None]
            elif node.op == "get_attr":
                values[node] = self._attribute(node.target, leaves)
            elif node.op == "output":
                return value(node.args[0])[0]
            else:
                arguments, options = value(node.args), value(node.kwargs)
                if node.op == "call_module":
                    function, more = self._call(self.module.get_submodule(node.target), leaves)
                    values[node] = function(*arguments, **more)
                else:
                    values[node] = _function(node.target)(*arguments, **options)
        raise UntranslatedError("a module without an output")

    def _known(self, one: Any) -> tuple[Callable[..., Any], tuple[str, ...]]:
        torch = extra("torch", "torch")
        kind = type(one)
        if kind in (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d):
            if one.padding_mode != "zeros":
                raise UntranslatedError(f"a convolution with the padding mode {one.padding_mode!r}")
            return FUNCTIONS["conv2d"], _CONVOLUTION
        if kind in (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d):
            return FUNCTIONS["batch_norm"], (*_BATCH_NORM, "eps")
        if getattr(torch.nn, kind.__name__, None) is not kind or kind.__name__ not in _MODULES:
            raise UntranslatedError(f"{kind.__name__} has no translation")
        name, attributes = _MODULES[kind.__name__]
        return FUNCTIONS[name], attributes

    def _call(self, one: Any, leaves: list[Array]) -> tuple[Callable[..., Any], dict[str, Any]]:
        function, attributes = self._known(one)
        given = {name: self._array(getattr(one, name), leaves) for name in attributes}
        if "unflattened_size" in given:
            given["sizes"] = given.pop("unflattened_size")
        return function, given

    def _attribute(self, target: str, leaves: list[Array]) -> Any:
        *path, last = target.split(".")
        return self._array(getattr(self.module.get_submodule(".".join(path)), last), leaves)

    def _array(self, value: Any, leaves: list[Array]) -> Any:
        """A tensor as an array: one of the leaves if it learns."""
        if not isinstance(value, self.tensor):
            return value
        place = self.places.get(id(value))
        return value.detach().numpy() if place is None else leaves[place]


def _function(target: Any) -> Callable[..., Any]:
    """What a traced function or method is in JAX."""
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    if name not in FUNCTIONS:
        raise UntranslatedError(f"{name!r} has no translation")
    return FUNCTIONS[name]


def _agrees(module: Any, outputs: _Translation, shape: Shape) -> bool:
    """Whether outputs and derivatives of two samples are those of torch."""
    jax, torch = extra("jax", "sim"), extra("torch", "torch")
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    learnt = [value for value in module.parameters() if value.requires_grad]
    expected = module(torch.tensor(x))
    weights = np.random.default_rng(1).normal(size=tuple(expected.shape)).astype(np.float32)
    slopes = torch.autograd.grad((expected * torch.tensor(weights)).sum(), learnt, allow_unused=True)
    leaves = [value.detach().numpy() for value in learnt]

    def with_slopes(leaves: list[Array]) -> tuple[Array, list[Array]]:
        found, back = jax.vjp(lambda leaves: jax.vmap(outputs, (None, 0))(leaves, x), leaves)
        return found, back(jax.numpy.asarray(weights))[0]

    with jax.ensure_compile_time_eval():
        found, steps = jax.jit(with_slopes)(leaves)
    pairs = [(found, expected.detach().numpy())]
    pairs += [
        (step, np.zeros_like(step) if slope is None else slope.numpy())
        for step, slope in zip(map(np.asarray, steps), slopes, strict=True)
    ]
    return all(
        np.allclose(one, other, rtol=1e-3, atol=1e-4 * (float(np.abs(other).max()) + 1e-6))
        for one, other in pairs
    )
