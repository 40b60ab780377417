"""`steered.steered` with compiled kernels: one pass gives predictions, updates, norms, and what is sent."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ofediq.codec import MAX_LEVELS, class_bits
from ofediq.methods import Method
from ofediq.methods.compress import Grid
from ofediq.methods.participation import NormProportional
from ofediq.models import Model
from ofediq.simulation.native.runner import local_rules, penalty, ready, server_rule
from ofediq.simulation.native.window import Kernels, Rules, Steered
from ofediq.simulation.topologies import Block, Carry, Feed, Records, Setting


def native_steered(method: Method, model: Model, mesh: Any) -> NativeSteered | None:
    """What runs blocks of a steered method in compiled code, or None: it must round to the grid."""
    rules = local_rules(method)
    known = method.compress == Grid() and isinstance(method.participation, NormProportional)
    return NativeSteered(method, rules) if known and rules is not None and ready(model, mesh) else None


class NativeSteered:
    """Called like `steered.steered`; keeps its working memory from block to block of one run."""

    def __init__(self, method: Method, rules: Rules) -> None:
        self._rules, self._server = rules, server_rule(method)
        self._kernels: Kernels | None = None

    def __call__(self, setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
        """A block of windows: next state and records."""
        method, model, steer = setting.method, cast(Any, setting.model), setting.method.steer
        ids, seed = np.asarray(feed.ids), int(feed.seed)
        assert steer is not None
        if self._kernels is None:
            self._kernels = Kernels(model, np.asarray(feed.pool.x), np.asarray(feed.pool.y))
        params, (state, signal) = np.asarray(carry[0]), jax.tree.map(np.asarray, carry[1])
        apply, records = self._server(setting.clients), []
        with np.errstate(all="ignore"):
            for order, step, transmit in zip(*(np.asarray(field) for field in block), strict=True):
                round_ = self._round(method, signal.value, ids, seed, int(step))
                sends = np.logical_or.reduce(order >= 0) & bool(transmit)
                ones = np.ones(order.shape[1], np.float32)
                sums = self._kernels.run(params, order, sends, ones, self._rules, seed, int(step), round_)
                count, bits = _cost(round_, model.dim)
                records.append((sums.loss + penalty(model, params, order), sums.error, count, bits))
                if count:
                    params, state = apply(params, sums.total, state)
                if transmit:
                    signal = steer.next(signal, np.float32(bits), np.float32(step), method.period)
        fields: Any = (np.asarray(field) for field in zip(*records, strict=True))
        signal = jax.tree.map(jnp.asarray, signal)
        return (jnp.asarray(params), (state, signal)), Records(*fields)

    def _round(
        self, method: Method, signal: Any, ids: npt.NDArray[np.int32], seed: int, step: int
    ) -> Steered:
        """An empty round; an infinite signal, after the budget is spent, becomes the largest number there is."""
        piece: Any = method.participation
        value = float(min(signal, np.float32(1e30)))
        return Steered.round(value, piece.spread, piece.floor, np.asarray(piece.draws(seed, step, ids)))


def _cost(round_: Steered, dim: int) -> tuple[int, float]:
    """How many sent, and the bits of their payloads."""
    who = np.flatnonzero(round_.sent)
    if not who.size:
        return 0, 0.0
    norms = np.full((who.size, 1), np.float32(MAX_LEVELS) * np.float32(round_.signal), np.float32)
    bits = class_bits(round_.counts[who].astype(np.float32), norms, dim, MAX_LEVELS)
    return int(who.size), float(bits.sum())
