"""Contracts of what clients remember: the same for many as for one, and right when something is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from ofediq.arrays import map_leaves
from ofediq.methods import round as rounds
from ofediq.methods.client import Down, Outcome, Window
from ofediq.randomness import Address
from ofediq.simulation import client_mesh, simulate
from ofediq.testing.case import SEED, STEP, Case
from ofediq.testing.compare import SkipError, agree, compiled, demand

_ROWS = 8


def memory_is_rowwise(case: Case) -> str:
    """Many clients at once remember and send what each of them would alone, in NumPy and in JAX."""
    down, memory, window = _some(case)
    finish, settle = case.method.client.finish, case.method.client.settle
    together = _parts(finish(window, down, memory)), _parts(settle(memory, window, _outcome(case), down))
    alone: tuple[list[Any], list[Any]] = ([], [])
    for k in range(_ROWS):
        one, mine = _row(window, k), _row(memory, k)
        here, known = _row(_outcome(case), k), down._replace(address=_address(np.array([k])))
        alone[0].append(_parts(finish(one, known, mine)))
        alone[1].append(_parts(settle(mine, one, here, known)))
    for name, many, each in zip(("finish", "settle"), together, alone, strict=True):
        rows = np.concatenate([np.atleast_2d(one) for one in each])
        demand(agree(many, rows), f"`client.{name}` treats a client alone differently than together.")
    there = compiled("client.settle", settle)(memory, window, _outcome(case), down)
    demand(agree(together[1], _parts(there)), "`client.settle` gives other numbers in JAX than in NumPy.")
    return f"{_ROWS} clients, together and alone, NumPy and JAX."


def lost_updates_leave_it_right(case: Case) -> str:
    """Where an update did not count, memory does not follow what the server never used."""
    down, memory, window = _some(case)
    lost = _outcome(case)._replace(accepted=np.zeros(_ROWS, bool))
    other = {name: 3 * vectors + 1 for name, vectors in lost.decoded.items()}
    here = _parts(rounds.settle(case.method, memory, window, lost, down))
    there = _parts(rounds.settle(case.method, memory, window, lost._replace(decoded=other), down))
    demand(
        np.array_equal(here, there), "`client.settle` uses what was decoded though the update did not count."
    )
    absent = window._replace(taken=np.zeros(_ROWS, np.float32))
    kept = _parts(rounds.settle(case.method, memory, absent, lost, down))
    demand(np.array_equal(kept, _parts(memory)), "a client without a sample does not keep its memory.")
    return "refused updates and absent clients."


def lost_memory_starts_clean(case: Case) -> str:
    """A client that has lost its memory goes on with a new one: what it sends is finite."""
    down, _, window = _some(case)
    fresh = rounds.first_memory(case.method, np.asarray(down.model), _ROWS)
    sent = _parts(case.method.client.finish(window, down, fresh))
    demand(bool(np.isfinite(sent).all()), "with a new memory a client sends something that is not finite.")
    again = _parts(rounds.first_memory(case.method, np.asarray(down.model), _ROWS))
    demand(np.array_equal(_parts(fresh), again), "`client.memory` gives another start the second time.")
    return "a new memory in the middle of a run."


def chunks_and_meshes_agree(case: Case) -> str:
    """How many clients are treated at once, and on how many devices, does not matter."""
    if case.method.topology != "federated":
        raise SkipError(f"a {case.method.topology} reference has no chunks of senders.")
    small: Any = replace(case.model, chunk=5)  # type: ignore[type-var]  # built-in models are dataclasses
    mesh, name = (
        (client_mesh(1), "chunks of 5 on a mesh") if case.method.combine.adds else (None, "chunks of 5")
    )
    run = simulate(case.running, case.stream, small, case.seed, mesh=mesh)
    same = bool((run.senders == case.run.senders).all()) and np.allclose(
        run.loss, case.run.loss, rtol=2e-3, atol=1e-5
    )
    demand(same, f"a run with {name} learns something else.")
    return f"{name}."


def _some(case: Case) -> tuple[Down, Any, Window]:
    """A broadcast, memories that are not empty, and a window in which something was learnt."""
    client = case.method.client
    start = np.asarray(case.method.server.start(case.model.initial(case.seed)), np.float32)
    memory = rounds.first_memory(case.method, start, _ROWS)
    if not jax.tree.leaves(memory):
        raise SkipError("its clients remember nothing.")
    rng = np.random.default_rng(6)
    memory = map_leaves(lambda leaf: leaf + rng.standard_normal(leaf.shape).astype(leaf.dtype), memory)
    state = rounds.first_state(case.method, start, _ROWS)
    down = state.down._replace(address=_address(np.arange(_ROWS)))
    window = rounds.open_window(case.method, down, memory, _ROWS)
    own = np.array(np.broadcast_to(np.asarray(window.own), (_ROWS, case.dim)))
    window = Window(own, case.dense, np.ones(_ROWS, np.float32), client.notes(down, memory))
    return down, memory, window


def _address(clients: Any) -> Address:
    return Address(np.uint32(SEED), np.int32(STEP), clients)


def _outcome(case: Case) -> Outcome:
    """Half of the updates counted, as they were wanted up to a rounding."""
    wanted = {
        name: np.asarray(case.dense[:, :size]) for name, size in case.method.client.sends(case.dim).items()
    }
    decoded = {name: np.round(vectors, 1) for name, vectors in wanted.items()}
    return Outcome(wanted, decoded, np.arange(_ROWS) % 2 == 0)


def _row(tree: Any, k: int) -> Any:
    return map_leaves(lambda leaf: np.asarray(leaf)[k : k + 1], tree)


def _parts(tree: Any) -> Any:
    """All numbers of a tree, one row per client."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)
