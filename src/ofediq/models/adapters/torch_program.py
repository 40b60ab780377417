"""A torch module as a JAX function of its parameters, where every operation of it is known.

`torch.export` runs the module once and keeps the operations; `torch_table` says what each is in JAX. Values and
derivatives are compared with torch's own at one batch before the translation is used.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from typing import Any

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import extra
from ofediq.models.adapters.torch_operations import UntranslatedError
from ofediq.models.adapters.torch_table import OPERATIONS
from ofediq.models.stages import Shape

Outputs = Callable[[list[Array], Array], Array]
"""From the parameters that learn, in the module's order, and one sample to its outputs."""


def translate(module: Any, shape: Shape) -> Outputs | str:
    """The JAX function that gives the same as `module` for samples of this `shape`, or why there is none."""
    if find_spec("jax") is None:
        return "there is no JAX"
    try:
        x = _samples(module, shape)
        outputs = _Translation(module, x)
        return outputs if _agrees(module, outputs, x) else "its translation computes something else"
    except UntranslatedError as error:
        return str(error)
    except (
        Exception
    ) as error:  # torch's tracer raises all kinds, and what either library cannot do runs in torch
        return f"it cannot be traced ({type(error).__name__})"


class _Translation:
    """Runs the exported graph in JAX."""

    def __init__(self, module: Any, x: Any) -> None:
        torch = extra("torch", "torch")
        with _silent():
            program = torch.export.export(module, (x[:1],), strict=False)
        self.graph = program.graph
        learnt = {id(one): place for place, one in enumerate(_learnt(module))}
        self.places: dict[str, int] = {}
        self.constants: dict[str, Any] = {}
        for spec in program.graph_signature.input_specs:
            kind, name = spec.kind.name, spec.arg.name
            if kind == "PARAMETER" and id(module.get_parameter(spec.target)) in learnt:
                self.places[name] = learnt[id(module.get_parameter(spec.target))]
            elif kind != "USER_INPUT":
                held = program.state_dict if spec.target in program.state_dict else program.constants
                self.constants[name] = held[spec.target].detach().numpy()
        given = program.graph_signature.user_outputs
        if len(given) != 1:
            raise UntranslatedError(f"a module with {len(given)} outputs is not translated")
        (self.result,) = given
        for node in self.graph.nodes:  # what is not known is known now
            if node.op == "call_function":
                _function(node.target)

    def __call__(self, leaves: list[Array], x: Array) -> Array:
        values: dict[Any, Any] = {}
        node_of = extra("torch.fx", "torch").node.map_arg
        for node in self.graph.nodes:
            if node.op == "placeholder":
                place = self.places.get(node.name)
                values[node] = self.constants.get(node.name, x[None]) if place is None else leaves[place]
            elif node.op == "call_function":
                arguments, options = node_of((node.args, node.kwargs), values.__getitem__)
                function, in_place = _function(node.target)
                values[node] = function(*arguments, **options)
                if in_place:
                    values[node.args[0]] = values[node]
        ends = {node.name: value for node, value in values.items()}
        return ends[self.result][0]


def _function(target: Any) -> tuple[Callable[..., Any], bool]:
    """What an operation is in JAX, and whether torch puts its result in the place of the first array."""
    schema = getattr(target, "_schema", None)
    name = getattr(target, "__name__", str(target)) if schema is None else schema.name.split("::")[-1]
    in_place = schema is not None and schema.is_mutable
    known = name.removesuffix("_") if in_place else name
    if known not in OPERATIONS:
        raise UntranslatedError(f"{name!r} has no translation")
    return OPERATIONS[known], in_place


@contextmanager
def _silent() -> Iterator[None]:
    """Without what torch logs and prints of a module that it cannot trace."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _learnt(module: Any) -> list[Any]:
    return [value for value in module.parameters() if value.requires_grad]


def _samples(module: Any, shape: Shape) -> Any:
    """Two samples that the module takes: numbers, or places in a table."""
    torch = extra("torch", "torch")
    rng = np.random.default_rng(0)
    found = torch.tensor(rng.normal(size=(2, *shape)).astype(np.float32))
    try:
        with torch.no_grad():
            module(found)
    except IndexError:
        found = torch.tensor(rng.integers(0, 2, (2, *shape)).astype(np.float32))
    return found


def _agrees(module: Any, outputs: _Translation, x: Any) -> bool:
    """Whether outputs and derivatives of two samples are those of torch."""
    jax, torch = extra("jax", "sim"), extra("torch", "torch")
    learnt = _learnt(module)
    expected = module(x)
    weights = np.random.default_rng(1).normal(size=tuple(expected.shape)).astype(np.float32)
    slopes = torch.autograd.grad((expected * torch.tensor(weights)).sum(), learnt, allow_unused=True)
    leaves = [value.detach().numpy() for value in learnt]

    def with_slopes(leaves: list[Array]) -> tuple[Array, list[Array]]:
        found, back = jax.vjp(lambda leaves: jax.vmap(outputs, (None, 0))(leaves, x.numpy()), leaves)
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
