"""`topologies.federated` with compiled kernels: a plain loop over windows, with the method's own server rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ofediq.codec import packed_payload_bytes
from ofediq.methods import Method
from ofediq.methods.compress import Identity, Quantize
from ofediq.methods.local import Hold, Ogd
from ofediq.methods.mirror import Euclidean
from ofediq.methods.server import Descend, ServerRule
from ofediq.models import Model, Network
from ofediq.simulation.native import library
from ofediq.simulation.native.window import Kernels, Rules, load, supports
from ofediq.simulation.topologies import Block, Carry, Feed, Records, Setting

_SMALL = 1000
"""Parameters of a linear model below which Python's part of a step is longer than the whole step in JAX."""

Apply = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(model, sum, state) -> (next model, next state)."""


def native_runner(method: Method, model: Model, mesh: Any) -> NativeRunner | None:
    """What runs blocks of this method's windows in compiled code, or None where that is not possible.

    It takes federated methods with the built-in models, whose clients hold still or descend, and send their
    updates as they are or quantised and packed; on a CPU, without a mesh. A plain sum of the gradients of dense
    layers is one large matrix product for each, which JAX does in half the time.
    """
    rules = _rules(method)
    if method.sums_gradients and not (isinstance(model, Network) and model.convolves):
        return None
    return NativeRunner(rules, server_rule(method)) if rules is not None and ready(model, mesh) else None


def ready(model: Model, mesh: Any) -> bool:
    """Whether the kernels can run `model` here, and are worth it."""
    if mesh is not None or supports(model) is not None or jax.default_backend() != "cpu":
        return False
    if model.convex and model.dim < _SMALL:
        return False
    try:
        load()
    except library.UnavailableError:
        return False
    return True


class NativeRunner:
    """Called like `topologies.federated`; keeps its working memory from block to block of one run."""

    def __init__(self, rules: Rules, server: Callable[[int], Apply]) -> None:
        self._rules = rules
        self._server = server
        self._kernels: Kernels | None = None

    def __call__(self, setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
        """A block of windows: next state and records."""
        method, model = setting.method, cast(Any, setting.model)
        clients, seed = setting.clients, int(feed.seed)
        if self._kernels is None:
            self._kernels = Kernels(model, np.asarray(feed.pool.x), np.asarray(feed.pool.y))
        params, state = np.asarray(carry[0]), carry[1]
        apply, rates, bits = self._server(clients), method.participation.rates(clients), _bits(method, model)
        numbers, records = np.asarray(feed.ids), []
        with np.errstate(all="ignore"):  # as in JAX, a run that diverges does so in silence; its result tells
            for order, step, transmit in zip(*(np.asarray(field) for field in block), strict=True):
                sends = _senders(method, numbers, clients, seed, int(step), order) & bool(transmit)
                sums = self._kernels.run(params, order, sends, rates, self._rules, seed, int(step))
                count = int(sends.sum())
                records.append((sums.loss + penalty(model, params, order), sums.error, count, bits * count))
                if count:  # an empty round leaves model and state alone
                    params, state = apply(params, sums.total, state)
        fields: Any = (np.asarray(field) for field in zip(*records, strict=True))
        return (jnp.asarray(params), state), Records(*fields)


def _rules(method: Method) -> Rules | None:
    """The method in the kernels' numbers, or None if they do not know one of its pieces."""
    rules, compress = local_rules(method), method.compress
    if rules is None or method.steer is not None:
        return None
    if compress == Identity():
        return rules
    if isinstance(compress, Quantize) and compress == Quantize(compress.levels, compress.blocks, "packed"):
        return rules._replace(levels=compress.levels, blocks=compress.blocks)
    return None


def local_rules(method: Method) -> Rules | None:
    """What clients do between transmissions, in the kernels' numbers.

    None if the kernels do not know it, or do not know the way back: they take v = w for granted.
    """
    local = method.local
    if method.topology != "federated" or not method.broadcast.exact:
        return None
    if local == Hold():
        return Rules()
    if isinstance(local, Ogd) and local == Ogd(local.step_size, Euclidean()):
        return Rules(moves=True, step_size=local.step_size)
    return None


def penalty(model: Any, params: npt.NDArray[np.float32], order: npt.NDArray[np.int32]) -> Any:
    """l2 / 2 ||w||^2 for each client that is there, at each step."""
    return model.l2 / 2 * float(params @ params) * (order >= 0).sum(1) if model.l2 else 0.0


def _bits(method: Method, model: Model) -> float:
    """Bits of one payload."""
    if isinstance(method.compress, Quantize):
        return 8.0 * packed_payload_bytes(model.dim, method.compress.levels, method.compress.blocks)
    return method.compress.formula_bits(model.dim)


def _senders(
    method: Method,
    ids: npt.NDArray[np.int32],
    clients: int,
    seed: int,
    step: int,
    order: npt.NDArray[np.int32],
) -> npt.NDArray[np.bool_]:
    """Who sends at `step`: those chosen who had a sample in the window."""
    seen = np.logical_or.reduce(order >= 0)
    if not method.participation.everyone:
        seen &= np.asarray(method.participation.active(seed, step, ids, clients))
    return np.asarray(seen)


def server_rule(method: Method) -> Callable[[int], Apply]:
    """The method's server rule for K clients: in NumPy where that is quick, else compiled by JAX."""
    rule = method.server
    if type(rule) is Descend:
        return lambda clients: lambda params, total, state: rule.apply(params, total, clients, state)

    def with_jax(clients: int) -> Apply:
        def apply(params: Any, total: Any, state: Any) -> tuple[Any, Any]:
            moved, state = _apply(rule, params, total, clients, state)
            return np.asarray(moved), state

        return apply

    return with_jax


@partial(jax.jit, static_argnums=(0, 3))
def _apply(rule: ServerRule, params: Any, total: Any, clients: int, state: Any) -> tuple[Any, Any]:
    """`rule.apply`, compiled once for all runs with the same rule."""
    return rule.apply(params, total, clients, state)
