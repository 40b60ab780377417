"""Blocks of windows: state and samples in, next state and records out.

`scan_block` is one compiled program; `loop_block` is a plain loop for sums that are computed elsewhere, by compiled
kernels. Both end each window with the same `server_round`. Between blocks the host records, saves, and can stop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ofediq.methods.robust.scales import Scales
from ofediq.methods.round import RoundState, first_memory, first_state, server_round
from ofediq.methods.server.rule import Optimizer, Totals
from ofediq.simulation.mesh import over_clients
from ofediq.simulation.window import Feed, Setting, Slot, Sums, window_sums


class Carry(NamedTuple):
    """A run between two windows."""

    round: RoundState
    memory: Any  # [clients, ...] each; () for methods without memory
    known: Any = ()  # what the server knows of its clients, in NumPy; () where it just adds up

    @property
    def params(self) -> Any:
        """The model."""
        return self.round.params


class Records(NamedTuple):
    """What is written down about each window."""

    loss: jax.Array  # [windows, L]
    error: jax.Array  # [windows, L]
    senders: jax.Array  # [windows]
    wire: jax.Array  # [windows], bits up
    downlink: jax.Array  # [windows], bits of the broadcast


Block = Slot
"""Some windows in a row: a leading axis on each field."""

Runner = Callable[[Setting, Any, Feed, Block], tuple[Any, Records]]
WindowSums = Callable[[Setting, Any, Any, Feed, Slot], tuple[Sums, Any]]


def first_carry(setting: Setting, params: jax.Array, padded: int) -> Carry:
    """Before the first window; `padded` clients have a place in the memory."""
    method = setting.method
    state = first_state(method, params, setting.clients)
    memory = first_memory(method, state.params, padded)
    # A copy of each: runners give their input's memory back, so nothing may share it.
    state, memory = jax.tree.map(jnp.array, (state, memory))
    return Carry(state, memory, _scales(setting).export() if method.combine.remembers else ())


@partial(jax.jit, static_argnames="setting", donate_argnames="carry")
def scan_block(setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
    """A block of windows in one compiled program."""
    sums_of = over_clients(partial(window_sums, setting), setting.mesh)

    def window(carry: Carry, slot: Slot) -> tuple[Carry, Records]:
        sums, memory = sums_of(carry.round.down, carry.memory, feed, slot)
        state, bits = _close(setting, carry.round, sums.totals(setting.clients, slot.step), feed.seed)
        state = jax.tree.map(lambda new, old: jnp.where(slot.transmit, new, old), state, carry.round)
        records = Records(sums.loss, sums.error, sums.senders, sums.bits, jnp.where(slot.transmit, bits, 0))
        return carry._replace(round=state, memory=memory), records

    return jax.lax.scan(window, carry, block)


@partial(jax.jit, static_argnames="setting", donate_argnames="memory")
def compiled_sums(setting: Setting, down: Any, memory: Any, feed: Feed, slot: Slot) -> tuple[Sums, Any]:
    """The sums of one window in a compiled program of their own."""
    found: tuple[Sums, Any] = over_clients(partial(window_sums, setting), setting.mesh)(
        down, memory, feed, slot
    )
    return found


def loop_block(sums_of: WindowSums) -> Runner:
    """A runner whose sums come from `sums_of`, in NumPy."""

    def run(setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
        state, memory = jax.tree.map(np.asarray, carry.round), carry.memory
        scales = None
        if setting.method.combine.remembers:
            scales = _scales(setting)
            scales.restore(carry.known)
        close = _close if _quick(setting) else _compiled_close
        slots: Any = Slot(*(np.asarray(field) for field in block))  # type: ignore[arg-type]  # NumPy for JAX
        records = []
        with np.errstate(all="ignore"):  # as in JAX, a run that diverges does so in silence; its result tells
            for number in range(len(slots.step)):
                slot = Slot(*(field[number] for field in slots))
                sums, memory = sums_of(setting, state.down, memory, feed, slot)
                bits: Any = 0.0
                if slot.transmit:
                    totals = sums.totals(setting.clients, slot.step)
                    if scales is not None:
                        totals, memory = _guarded(scales, state.down, memory, sums, slot)
                    state, bits = close(setting, state, totals, feed.seed)
                records.append((sums.loss, sums.error, sums.senders, sums.bits, float(bits)))
        fields: Any = (np.asarray(field) for field in zip(*records, strict=True))
        state = jax.tree.map(jnp.asarray, state)
        return Carry(state, memory, () if scales is None else scales.export()), Records(*fields)

    return run


def _scales(setting: Setting) -> Scales:
    return Scales(setting.method, setting.clients, setting.model.dim)


def _guarded(scales: Scales, down: Any, memory: Any, sums: Sums, slot: Slot) -> tuple[Totals, Any]:
    """What the guard leaves of a window, and memories: those whose messages did not count are told so."""
    apart: Any = jax.tree.map(np.asarray, sums.apart)
    totals, counted = scales.totals(down, apart.messages, apart.sent, apart.bits, step=int(slot.step))
    if not jax.tree.leaves(apart.lost):
        return totals, memory
    rejected = np.zeros(len(jax.tree.leaves(memory)[0]), bool)
    rejected[: len(counted)] = apart.sent & ~counted

    def settled(kept: Any, lost: Any) -> Any:
        return np.where(rejected.reshape(-1, *(1,) * (np.ndim(kept) - 1)), lost, kept)

    return totals, jax.tree.map(settled, memory, apart.lost)


def _close(setting: Setting, state: RoundState, totals: Totals, seed: Any) -> tuple[RoundState, Any]:
    known = totals._replace(clients=setting.clients)  # a number, also where everything around is traced
    return server_round(setting.method, state, known, seed)


_jitted_close = jax.jit(_close, static_argnames="setting")


def _compiled_close(setting: Setting, state: RoundState, totals: Totals, seed: Any) -> tuple[RoundState, Any]:
    closed: tuple[RoundState, Any] = jax.tree.map(np.asarray, _jitted_close(setting, state, totals, seed))
    return closed


def _quick(setting: Setting) -> bool:
    """Whether the end of a round is quick in NumPy: no optax, and nothing to compress."""
    return setting.method.broadcast.exact and setting.method.server.part(Optimizer) is None
