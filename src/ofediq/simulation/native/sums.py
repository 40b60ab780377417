"""`window.window_sums` by compiled kernels: the same call, for the models and methods that they know."""

from __future__ import annotations

from typing import Any, cast

import jax
import numpy as np
import numpy.typing as npt

from ofediq.codec.kit import grid_bits
from ofediq.methods import Method
from ofediq.methods.client import Down, Hold, Ogd
from ofediq.methods.compress import Grid, Identity, Quantize
from ofediq.methods.mirror import Euclidean
from ofediq.models import Model
from ofediq.models.stack import Network
from ofediq.randomness import Address, Purpose, uniform
from ofediq.simulation.mesh import one_device_each
from ofediq.simulation.native import library
from ofediq.simulation.native.compiled import Compiled
from ofediq.simulation.native.window import Kernels, Rules, Steered, load, supports
from ofediq.simulation.window import Feed, Setting, Slot, Sums

OWN_GRID = 2
"""What the kernels write into `sent` for a message on a coarser grid of its own."""

_SMALL = 1000
"""Parameters of a convex model below which Python's part of a step is longer than the whole step in JAX."""


def native_sums(setting: Setting) -> NativeSums | str:
    """What sums up a window in compiled code, or the reason why that is not possible or not worth it.

    It takes stacks of layers, clients that hold still or descend, and updates that are sent as they are,
    quantised and packed, or rounded to the common grid; on a CPU, alone or as one process among several. A plain sum
    of the gradients of dense layers is one large matrix product for each, which JAX does in half the time.
    """
    rules = _rules(setting.method)
    if isinstance(rules, str):
        return rules
    model = setting.model
    if setting.method.sums_gradients and isinstance(model, Network) and not model.convolves:
        return "one matrix product per layer is fastest"
    if setting.mesh is not None and not one_device_each(setting.mesh):
        return "sums of a mesh of devices meet in JAX"
    return _obstacle(setting.model) or NativeSums(rules)


def native_model(setting: Setting) -> Compiled | str:
    """The model by kernels inside JAX's programs, for any method; or the reason why that is not possible."""
    model = setting.model
    if setting.method.sums_gradients and isinstance(model, Network) and not model.convolves:
        return "one matrix product per layer is fastest"
    reason = _obstacle(model)
    if reason:
        return reason
    try:
        return Compiled.of(cast(Network, model))
    except library.UnavailableError as error:
        return f"no compiled kernels: {error}"


def _obstacle(model: Model) -> str:
    """Why the kernels cannot run `model` here, or are not worth it; empty if they can and are."""
    if jax.default_backend() != "cpu":
        return f"kernels run on a CPU, not on a {jax.default_backend()}"
    reason = supports(model)
    if reason is not None:
        return reason
    if model.convex and model.dim < _SMALL:
        return f"a convex model of {model.dim} parameters is too small for kernels to pay"
    try:
        load()
    except library.UnavailableError as error:
        return f"no compiled kernels: {error}"
    return ""


def _rules(method: Method) -> Rules | str:
    """The method in the kernels' numbers, or which of its pieces they do not know."""
    client, compress, rule = method.client, method.compress, method.participation
    if type(client) is Hold:
        rules = Rules()
    elif type(client) is Ogd and client.mirror == Euclidean():
        rules = Rules(moves=True, step_size=client.step_size)
    else:
        return f"kernels do not know the client rule {type(client).__name__}"
    if not method.combine.adds:
        return "kernels add messages up"
    if type(compress) is Grid and rule.proportional is not None:
        return rules
    if not rule.foreseeable:
        return f"kernels do not know {compress!r} with {type(rule).__name__}"
    if type(compress) is Identity:
        return rules
    if type(compress) is Quantize and compress == Quantize(compress.levels, compress.blocks, "packed"):
        return rules._replace(levels=compress.levels, blocks=compress.blocks)
    return f"kernels do not know {compress!r}"


class NativeSums:
    """Called like `window_sums`; keeps its working memory from window to window of one run."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._kernels: Kernels | None = None

    def __call__(self, setting: Setting, down: Down, memory: Any, feed: Feed, slot: Slot) -> tuple[Sums, Any]:
        """Losses, errors and the sum of what is sent over one window."""
        method, model = setting.method, cast(Any, setting.model)
        if self._kernels is None:
            self._kernels = Kernels(model, np.asarray(feed.pool.x), np.asarray(feed.pool.y))
        order, ids = np.asarray(slot.order), np.asarray(feed.ids)
        params = np.asarray(down.model)
        address = Address(int(feed.seed), int(slot.step), ids)
        sends = np.logical_or.reduce(order >= 0) & bool(slot.transmit)
        rule, round_ = method.participation, None
        rates = np.ones(order.shape[1], np.float32)
        if rule.proportional is not None:
            draws = np.asarray(uniform(address.key(Purpose.PARTICIPATE), np.zeros(1, np.uint32)))
            round_ = Steered.round(down.scalars["grid_step"], *rule.proportional, draws)
        elif not rule.everyone:
            drawn, rates = (np.asarray(part) for part in rule.draw(address, setting.clients))
            sends &= drawn
        sums = self._kernels.run(
            params, order, sends, rates, self._rules, address.seed, address.step, round_, int(ids[0])
        )
        count = int(sends.sum())
        count, bits = (count, count * _bits(method, model)) if round_ is None else _cost(round_, model.dim)
        loss: Any = sums.loss + _penalty(model, params, order)
        total: Any = sums.total
        return Sums(loss, sums.error, {"update": total}, np.int32(count), np.float32(bits)), memory  # type: ignore[arg-type]  # NumPy for JAX


def _penalty(model: Any, params: npt.NDArray[np.float32], order: npt.NDArray[np.int32]) -> Any:
    """l2 / 2 ||w||^2 for each client that is there, at each step."""
    return model.l2 / 2 * float(params @ params) * (order >= 0).sum(1) if model.l2 else 0.0


def _bits(method: Method, model: Model) -> float:
    """Bits of one payload."""
    if isinstance(method.compress, Quantize):
        return float(method.compress.fixed_bits(model.dim))
    return method.compress.formula_bits(model.dim)


def _cost(round_: Steered, dim: int) -> tuple[int, float]:
    """How many sent on the grid, and the bits of their payloads."""
    who = np.flatnonzero(round_.sent)
    if not who.size:
        return 0, 0.0
    counts = round_.counts[who].astype(np.float32)
    bits = grid_bits(counts, dim, own=round_.sent[who] == OWN_GRID)
    return int(who.size), float(bits.sum())
