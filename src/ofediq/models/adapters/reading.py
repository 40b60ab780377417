"""Read a traced JAX program as a stack of layers, operation by operation.

What stands for an array of the program is one of these:

- a `Leaf`, perhaps with its axes moved;
- a `Flow`: what a sample has become after some layers;
- `Pending`: some function of one signal that is no layer yet, such as `logistic(x)` on the way to `x * logistic(x)`.
  Where a layer, or the end, wants a signal, `recognition` is asked which layer the function is;
- anything else is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ofediq.arrays import Array
from ofediq.models.adapters.known import biased, convolved, multiplied, pooled
from ofediq.models.adapters.symbols import (
    Flow,
    Given,
    Leaf,
    Pending,
    Reader,
    UnknownLayerError,
    reshaped,
)
from ofediq.models.stages import Shape

_CALLS = ("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint")
_OWN_SLOPES = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
_LAYERS = (
    "conv_general_dilated",
    "dot_general",
    "reduce_window_max",
    "reduce_window_sum",
    *_CALLS,
    *_OWN_SLOPES,
)
_MOVES = ("reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim")
_SAME = ("copy", "copy_p", "convert_element_type", "slice", "dynamic_slice", "stop_gradient")
_ARITHMETIC = "add add_any sub mul div neg pow integer_pow square sqrt rsqrt cbrt"
_CURVES = "exp exp2 expm1 log log1p tanh logistic erf erfc sin cos tan atan2"
_CHOICES = "max min abs sign clamp select_n gt lt ge le eq ne is_finite"
_LOGIC = "and or not xor convert_element_type copy copy_p stop_gradient"
_EACH = frozenset(f"{_ARITHMETIC} {_CURVES} {_CHOICES} {_LOGIC}".split())
"""Operations on each number by itself."""


Recognize = Callable[[Pending, Shape], Flow]
"""The signal that a pending function of a signal of this shape gives; `UnknownLayerError` if it is no layer."""


@dataclass
class Program:
    """Reads one program.

    Attributes:
        recognize: which layer a pending function is.
        shapes: of the arrays that signals stand for; filled in.
    """

    recognize: Recognize

    def __post_init__(self) -> None:
        self.shapes: dict[int, Shape] = {}
        self._signals: list[Flow] = []  # kept, so that their numbers stay theirs
        self._known: dict[Pending, Flow] = {}

    def note(self, signal: Flow, shape: Shape) -> Flow:
        """Remember the shape of the array that `signal` stands for."""
        self._signals.append(signal)
        self.shapes[id(signal)] = shape
        return signal

    def run(self, jaxpr: Any, inputs: Sequence[Any], consts: Sequence[Any]) -> list[Any]:
        """What the outputs stand for."""
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

        def value(atom: Any) -> Any:
            return atom.val if hasattr(atom, "val") else values[atom]

        for equation in jaxpr.eqns:
            arguments = [value(atom) for atom in equation.invars]
            results = self._equation(equation, arguments)
            values.update(zip(equation.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def signal(self, value: Any) -> Flow:
        """`value` as a signal, recognised if it is pending."""
        if isinstance(value, Pending) and value.base is not None:
            if value not in self._known:  # once: who takes it twice takes the same
                found = self.recognize(value, self.shapes[id(value.base)])
                self._known[value] = self.note(found, value.shape)
            return self._known[value]
        if not isinstance(value, Flow):
            raise UnknownLayerError("its outputs do not depend on the sample")
        if value.times != 1:
            raise UnknownLayerError("a sum of windows is no layer that the kernels know")
        return value

    def _finished(self, name: str, arguments: list[Any]) -> list[Any]:
        """Pending functions as signals where they are whole layers before this operation takes them.

        An activation ends where more is done than with each number by itself, a norm where no parameter joins it.
        """
        alone = not any(isinstance(one, Leaf) for one in arguments)
        further = name not in _EACH and name not in _OWN_SLOPES
        return [
            self._tried(one)
            if isinstance(one, Pending) and ((one.each and further) or (alone and bool(one.leaves)))
            else one
            for one in arguments
        ]

    def _tried(self, value: Pending) -> Any:
        """`value` as a signal if it is one; else as it is."""
        try:
            return self.signal(value)
        except UnknownLayerError:
            return value

    def _equation(self, equation: Any, arguments: list[Any]) -> list[Any]:
        name = equation.primitive.name
        symbolic = [one for one in arguments if isinstance(one, (Flow, Leaf, Pending))]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if (
            symbolic
            and inner is not None
            and (name in _CALLS or (name in _OWN_SLOPES and _has_layers(inner)))
        ):
            body, constants = (inner.jaxpr, inner.consts) if hasattr(inner, "jaxpr") else (inner, ())
            return self.run(body, arguments, constants)
        if not symbolic:
            found = _bound(equation, arguments)
            return found if equation.primitive.multiple_results else [found]
        shapes = [tuple(atom.aval.shape) for atom in equation.invars]
        outs = [tuple(atom.aval.shape) for atom in equation.outvars]
        arguments = self._finished(name, arguments)
        layer = self._layer(name, equation.params, arguments, shapes, outs[0])
        if layer is not None:
            return [self.note(layer, outs[0]) if isinstance(layer, Flow) else layer]
        return self._pending(equation, arguments, outs)

    def _layer(
        self, name: str, params: dict[str, Any], arguments: list[Any], shapes: list[Shape], out: Shape
    ) -> Flow | Leaf | None:
        """What the operation makes of a signal or a parameter if it is a layer or moves axes; else None."""
        first = arguments[0]
        if name in _SAME and shapes[0] == out and isinstance(first, (Flow, Leaf)):
            return first
        if name in _MOVES and math.prod(shapes[0]) == math.prod(out):
            moved: Flow | Leaf | None = self._moved(name, params, first, shapes[0], out)
            return moved
        parameters = [one for one in arguments if isinstance(one, Leaf)]
        if name == "conv_general_dilated" and isinstance(arguments[1], Leaf):
            return convolved(self.signal(first), arguments[1], params, shapes, out)
        if name == "dot_general" and len(parameters) == 1:
            known = [one if isinstance(one, Leaf) else self.signal(one) for one in arguments]
            return multiplied(known, params["dimension_numbers"], shapes, out)
        if name in ("add", "add_any") and parameters and any(isinstance(one, Flow) for one in arguments):
            signal, bias = sorted(arguments, key=lambda one: isinstance(one, Leaf))
            return biased(self.signal(signal), bias)
        if name in ("reduce_window_max", "reduce_window_sum"):
            return pooled(self.signal(first), params, out, sums=name == "reduce_window_sum")
        return None

    def _moved(self, name: str, params: dict[str, Any], value: Any, before: Shape, after: Shape) -> Any:
        """`value` with its axes moved; None where it is a function that is no layer yet."""
        if isinstance(value, Pending):
            try:
                value = self.signal(value)
            except UnknownLayerError:
                return None
        if name == "transpose":
            order = params["permutation"]
            moved = replace(value, axes=tuple(value.axes[axis] for axis in order))
        else:
            moved = reshaped(value, before, after)
        if not isinstance(value, Leaf):
            return moved
        read = value.read
        if name == "transpose":
            return replace(moved, read=lambda given: read(given).transpose(order))
        return replace(moved, read=lambda given: read(given).reshape(after))

    def _pending(self, equation: Any, arguments: list[Any], outs: list[Shape]) -> list[Any]:
        """One more operation of a function that is no layer yet."""
        name = equation.primitive.name
        bases = {id(one): one for one in map(_base, arguments) if one is not None}
        if len(bases) > 1:
            raise UnknownLayerError(f"branches of the network meet in {name!r}")
        base = next(iter(bases.values()), None)
        leaves = frozenset(leaf for one in arguments for leaf in _leaves(one))
        labelled = any(isinstance(one, Pending) and one.labelled for one in arguments)
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        plain = name in _EACH or (name in _OWN_SLOPES and _is_each(inner))
        each = base is not None and plain and not leaves and not labelled
        each = each and all(_is_each_argument(one) for one in arguments)

        def reader(place: int) -> Reader:
            def read(given: Given) -> Array:
                found = _bound(equation, [_read(one, given) for one in arguments])
                return found[place] if equation.primitive.multiple_results else found

            return read

        made = [
            Pending(base, out, reader(place), leaves, labelled, each, name) for place, out in enumerate(outs)
        ]
        divides = base is not None and base.times != 1 and each
        return [self._tried(one) for one in made] if divides else made


def _bound(equation: Any, arguments: Sequence[Any]) -> Any:
    """What the operation gives for arrays."""
    bound = equation.primitive.get_bind_params(equation.params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)  # before and since JAX 0.9
    return equation.primitive.bind(*functions, *arguments, **params)


def _base(value: Any) -> Flow | None:
    if isinstance(value, Pending):
        return value.base
    return value if isinstance(value, Flow) else None


def _leaves(value: Any) -> frozenset[int]:
    if isinstance(value, Pending):
        return value.leaves
    return frozenset([value.leaf]) if isinstance(value, Leaf) else frozenset()


def _read(value: Any, given: Given) -> Array:
    if isinstance(value, (Pending, Leaf)):
        return value.read(given)
    return given.base if isinstance(value, Flow) else value


def _is_each_argument(value: Any) -> bool:
    """Whether it is a signal, a function of each of its numbers, or the same number everywhere."""
    if isinstance(value, Pending):
        return value.each
    if isinstance(value, Flow):
        return True
    array = np.asarray(value)
    return array.size > 0 and bool((array == array.flat[0]).all())


def _equations(jaxpr: Any) -> list[Any]:
    body = jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr
    return list(body.eqns)


def _inner(equation: Any) -> Any:
    return equation.params.get("jaxpr") or equation.params.get("call_jaxpr")


def _has_layers(jaxpr: Any) -> bool:
    """Whether a function with slopes of its own has whole layers inside."""
    for equation in _equations(jaxpr):
        inner = _inner(equation)
        if inner is not None and _has_layers(inner):
            return True
        if equation.primitive.name in _LAYERS and inner is None:
            return True
    return False


def _is_each(jaxpr: Any) -> bool:
    """Whether a function with slopes of its own works on each number by itself."""
    for equation in _equations(jaxpr):
        inner = _inner(equation)
        plain = equation.primitive.name in _EACH if inner is None else _is_each(inner)
        scalar = equation.primitive.name == "broadcast_in_dim" and equation.invars[0].aval.shape == ()
        if not (plain or scalar):
            return False
    return True
