"""`window.window_sums` by compiled kernels: the same call, for the models and methods that they know."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ofediq.arrays import Flags, Vector
from ofediq.codec.kit import MAX_LEVELS, Blockwise, packed_symbol_bytes
from ofediq.kernels import library
from ofediq.methods import Method
from ofediq.methods.broadcast import Broadcast, Delta, Whole
from ofediq.methods.client import Down, Hold, Ogd
from ofediq.methods.compress import Compressor, Grid, Identity, KeepLargest, Quantize, Rotate
from ofediq.methods.mirror import Euclidean
from ofediq.methods.participation import Bernoulli, Participation
from ofediq.methods.server.rule import Descend
from ofediq.methods.zoo.scaffold import Controlled
from ofediq.methods.zoo.topk_ef import ErrorFeedback
from ofediq.models import Model
from ofediq.models.stack import Network
from ofediq.randomness import Address, Purpose, uniform
from ofediq.simulation.blocks import Block, Carry, Records
from ofediq.simulation.mesh import one_device_each
from ofediq.simulation.native.compiled import Compiled
from ofediq.simulation.native.layout import (
    DIFFERENCE,
    SILENCE,
    WHOLE_MODEL,
    Broadcasts,
    Remembered,
    SenderRules,
    SteeredRound,
    load,
)
from ofediq.simulation.native.window import Kernels, supports
from ofediq.simulation.window import Feed, Setting, Slot, Sums

_SAID = {
    "": ("plain", "quantized", "rotated", "grid"),
    "errors": ("quantized", "rotated", "largest"),
    "controls": ("plain",),
}
"""What kernels send of clients with each memory."""

_SMALL = 1000
"""Parameters of a convex model below which Python's part of a step is longer than the whole step in JAX."""


def native_sums(setting: Setting) -> NativeSums | str:
    """What sums up a window in compiled code, or the reason why that is not possible or not worth it.

    It takes stacks of layers, clients that hold still or descend, and updates that are sent as they are, quantised,
    rotated or rounded to the common grid, by those drawn or in proportion to norms; errors that are fed back, and
    SCAFFOLD's controls; on a CPU, alone or as one process among several. A plain sum of the gradients of dense layers
    is one large matrix product for each, which JAX does in half the time.
    """
    rules = _rules(setting.method, setting.model.dim)
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


def _rules(method: Method, dim: int) -> SenderRules | str:
    """The method in the kernels' numbers, or which of its pieces they do not know."""
    client, compress, rule = method.client, method.compress, method.participation
    if type(client) is Hold:
        rules = SenderRules()
    elif type(client) is Ogd and client.mirror == Euclidean():
        rules = SenderRules(moves=True, step_size=client.step_size)
    elif type(client) is ErrorFeedback:
        rules = SenderRules(memory="errors")
    elif type(client) is Controlled:
        rules = SenderRules(True, client.step_size, memory="controls", period=client.period)
    else:
        return f"kernels do not know the client rule {type(client).__name__}"
    if not method.combine.adds:
        return "kernels add messages up"
    if not _go_together(compress, rule) or (rules.memory and not rule.foreseeable):
        return f"kernels do not know {compress!r} with {rule!r}"
    form = _form(compress, dim)
    if isinstance(form, str):
        return form
    found = rules._replace(**form)
    if found.form not in _SAID[found.memory]:
        return f"kernels do not know {compress!r} of the client rule {type(client).__name__}"
    return found


def _go_together(compress: Compressor, rule: Participation) -> bool:
    """Whether the kernels know who sends, if that depends on updates: C has one spread for both."""
    if rule.foreseeable or rule.proportional is None:
        return rule.foreseeable
    return (
        type(compress) is not Identity
        and getattr(compress, "spread", rule.proportional[0]) == rule.proportional[0]
    )


def _form(compress: Compressor, dim: int) -> dict[str, Any] | str:
    """What is sent, in the kernels' numbers, or that they do not know it."""
    if type(compress) is Identity:
        return {}
    if type(compress) is Grid:
        packed = packed_symbol_bytes(dim, MAX_LEVELS)
        return {"form": "grid", "levels": MAX_LEVELS, "fixed": packed, "own": min(packed + 4, 4 * dim)}
    if type(compress) is KeepLargest and type(compress.values) is Identity:
        return {"form": "largest", "keep": compress.kept(dim), "fixed": _whole_bits(compress, dim) // 8}
    if type(compress) is Quantize:
        form = "quantized"
    elif type(compress) is Rotate and compress.rotation == "dither":
        form = "rotated"
    else:
        return f"kernels do not know {compress!r}"
    if compress.norm_bits != 32:
        return f"kernels know norms of 32 bits, {compress!r} has {compress.norm_bits}"
    levels, blocks = compress.shape(dim)
    fixed = compress.fixed_bits(dim) // 8 if compress.coding == "entropy" else 0
    return {"form": form, "levels": levels, "blocks": blocks, "fixed": fixed}


def _whole_bits(compress: Compressor, dim: int) -> int:
    """Bits of a message that is not zero, of a scheme whose messages have one size."""
    return int(compress.apply(np.ones((1, dim), np.float32), Address(0, 1, np.zeros(1, np.int32)))[1][0])


class NativeSums:
    """Called like `window_sums`; keeps its working memory from window to window of one run."""

    def __init__(self, rules: SenderRules) -> None:
        self._rules = rules
        self._kernels: Kernels | None = None

    def __call__(self, setting: Setting, down: Down, memory: Any, feed: Feed, slot: Slot) -> tuple[Sums, Any]:
        """Losses, errors and the sum of what is sent over one window."""
        method = setting.method
        order, ids = np.asarray(slot.order), np.asarray(feed.ids)
        params = np.asarray(down.model)
        address = Address(int(feed.seed), int(slot.step), ids)
        present = np.logical_or.reduce(order >= 0) & bool(slot.transmit)
        sends = present.copy()
        rule, round_ = method.participation, None
        rates = np.ones(order.shape[1], np.float32)
        if rule.proportional is not None:
            draws = np.asarray(uniform(address.key(Purpose.PARTICIPATE), np.zeros(1, np.uint32)))
            round_ = SteeredRound.round(down.scalars["grid_step"], *rule.proportional, draws)
        elif not rule.everyone:
            drawn, rates = (np.asarray(part) for part in rule.draw(address, setting.clients))
            sends &= drawn
        if round_ is None and isinstance(method.compress, Grid):
            round_ = SteeredRound.on_grid(down.scalars["grid_step"], method.compress.spread, len(sends))
        remembered, learn = self._remembered(memory, sends[None], present[None], down)
        sums = self._for(setting, feed).run(
            params,
            order,
            learn[0],
            self._divisors(rates),
            self._rules,
            address.seed,
            address.step,
            steered=round_,
            first=int(ids[0]),
            remembered=remembered,
        )
        count = (round_.sent if round_ is not None and round_.decides else sends).sum()
        bits = self._bits(setting, sums.bits, count)
        loss: Any = sums.loss
        total: Any = sums.total
        found = Sums(loss, sums.error, {"update": total}, np.int32(count), bits)  # type: ignore[arg-type]  # NumPy for JAX
        return found, memory if remembered is None else dict.fromkeys(memory, remembered.rows)

    def block(self, setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
        """A block of windows in one call, for what `descends` accepts: C moves the model between them."""
        method, rule = setting.method, setting.method.participation
        order, ends, ids = np.asarray(block.order), np.asarray(block.step), np.asarray(feed.ids)
        transmit, seed, state = np.asarray(block.transmit), int(feed.seed), carry.round
        present = (order >= 0).any(1) & transmit[:, None]
        sends = present.copy()
        rates = np.ones(order.shape[2], np.float32)
        if not rule.everyone:
            sends &= _senders(rule, seed, ends, ids, setting.clients)
            rates = rule.rates(setting.clients)[ids]
        descent = np.float32(descends(setting) / setting.clients)
        params = np.asarray(state.params)
        remembered, learn = self._remembered(carry.memory, sends, present, state.down)
        broadcasts = _broadcasts(method, np.asarray(state.down.model), ends, transmit)
        sums = self._for(setting, feed).walk(
            params,
            order,
            learn,
            self._divisors(rates),
            self._rules,
            seed,
            ends,
            first=int(ids[0]),
            descent=float(descent),
            remembered=remembered,
            broadcasts=broadcasts,
        )
        senders = sends.sum(1)
        moved = jnp.asarray(sums.params)
        copy = moved if broadcasts is None else jnp.asarray(broadcasts.copy)
        down = np.where(transmit, np.float32(32 * len(params)) if broadcasts is None else broadcasts.bits, 0)
        records: Any = (
            sums.loss,
            sums.error,
            senders.astype(np.int32),
            self._bits(setting, sums.bits, senders),
            down,
        )
        after = state._replace(params=moved, down=state.down._replace(model=copy))
        if remembered is not None:
            carry = carry._replace(memory=dict.fromkeys(carry.memory, remembered.rows))
        return carry._replace(round=after), Records(*records)

    def _remembered(
        self, memory: Any, sends: Flags, present: Flags, down: Down
    ) -> tuple[Remembered | None, Flags]:
        """What clients remember, in an array that may be written to, and who learns in each window, [W, K]."""
        if not self._rules.memory:
            return None, sends
        (rows,) = memory.values()
        if not (isinstance(rows, np.ndarray) and rows.flags.writeable):
            rows = np.array(rows, np.float32)
        if self._rules.memory == "errors":
            return Remembered(rows, np.ascontiguousarray(sends)), present
        common = np.ascontiguousarray(down.vectors["control"], np.float32)
        return Remembered(rows, common=common), sends

    def _divisors(self, rates: Vector) -> Vector:
        """What updates are divided by: nothing where they are remembered."""
        return np.ones_like(rates) if self._rules.memory else rates

    def _for(self, setting: Setting, feed: Feed) -> Kernels:
        if self._kernels is None:
            model = cast(Any, setting.model)
            self._kernels = Kernels(model, np.asarray(feed.pool.x), np.asarray(feed.pool.y))
        return self._kernels

    def _bits(self, setting: Setting, coded: Vector, senders: Any) -> Any:
        """Bits of all payloads of each window."""
        if self._rules.fixed:
            return coded.sum(-1)
        return np.float32(senders * _bits(setting.method, setting.model))


def _senders(
    rule: Participation, seed: int, steps: npt.NDArray[np.int32], ids: npt.NDArray[np.int32], clients: int
) -> Flags:
    """Who sends at each of the `steps`, [W, n]."""
    if type(rule) is Bernoulli:  # all steps at once: independent draws
        return np.asarray(rule.active(seed, steps[:, None], ids, clients))
    return np.array([rule.active(seed, int(step), ids, clients) for step in steps])


def descends(setting: Setting) -> float:
    """The step size of a server that descends and broadcasts everything or quantised differences; 0 for any other.

    Then a block of windows is one call of the kernels.
    """
    method = setting.method
    plain = type(method.server) is Descend and setting.mesh is None
    if not plain or not _is_told(method.broadcast, setting.model.dim):
        return 0.0
    if type(method.participation).draw is not Participation.draw:
        return 0.0
    return method.server.descent or 0.0


def _is_told(broadcast: Broadcast, dim: int) -> bool:
    """Whether the kernels know what clients hear."""
    if type(broadcast) is Delta:
        return broadcast.keeps == 1 and isinstance(_form(broadcast.quantizer, dim), dict)
    return type(broadcast) is Whole


def _broadcasts(
    method: Method,
    copy: Vector,
    ends: npt.NDArray[np.int32],
    transmit: Flags,
) -> Broadcasts | None:
    """What goes down after windows with these `ends`; None where it is the model itself."""
    broadcast = method.broadcast
    if not isinstance(broadcast, Delta):
        return None
    kinds = np.where(transmit, DIFFERENCE, SILENCE)
    if broadcast.refresh is not None:
        kinds[transmit & (np.asarray(method.number_to(ends)) % broadcast.refresh == 0)] = WHOLE_MODEL
    dim, quantizer = len(copy), broadcast.quantizer
    coded = quantizer.fixed_bits(dim)
    bits = np.where(kinds == WHOLE_MODEL, 32 * dim, coded).astype(np.float32)
    fixed = coded // 8 if quantizer.coding == "entropy" else 0
    copied, sizes = np.array(copy, np.float32), quantizer.shape(dim)
    return Broadcasts(*sizes, fixed, copied, kinds.astype(np.uint8), bits)


def _bits(method: Method, model: Model) -> float:
    """Bits of one payload of fixed size."""
    if isinstance(method.compress, Blockwise):
        return float(method.compress.fixed_bits(model.dim))
    return method.compress.formula_bits(model.dim)
