"""Contracts of how models move: the local rule, the server's rule and its broadcast."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ofediq.arrays import Vector
from ofediq.testing.case import SEED, STEP, Case
from ofediq.testing.compare import SkipError, agree, compiled, demand, quiet, repeated


def client_is_rowwise(case: Case) -> str:
    """The client rule moves many models at once as it moves each of them, without a memory."""
    rule, models, gradients = case.method.client, _models(case), case.dense
    moved = repeated(
        "client.step", rule.step, models, gradients, between=lambda: rule.step(models[:1], 2 * gradients[:1])
    )
    alone = np.array([np.asarray(rule.step(models[k], gradients[k])) for k in range(len(models))])
    demand(agree(moved, alone), "`client.step` moves a client differently when it is treated alone.")
    demand(
        rule.moves or bool((np.asarray(moved) == models).all()),
        "`client.moves` is False, but `client.step` moves the model.",
    )
    there = compiled("client.step", rule.step)(models, gradients)
    demand(agree(moved, there), "`client.step` gives other numbers in JAX than in NumPy.")
    return f"{len(models)} clients, together and alone, NumPy and JAX."


def server_is_pure(case: Case) -> str:
    """The server's rule keeps nothing but the state that it returns."""
    rule, start, totals = case.method.server, _start(case), _totals(case)
    state = rule.init(start)

    def call(total: Vector) -> Any:
        return rule.apply(start, total, case.stream.clients, state)

    repeated("server.apply", call, totals[0], between=lambda: call(totals[1].copy()))
    again = jax.tree.leaves(rule.init(start))
    same = all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(state), again, strict=True))
    demand(same, "`server.init` gives another state the second time.")
    return "the same call before and after another one."


def server_works_in_jax(case: Case) -> str:
    """A compiled loop gets the same models as NumPy, and model and state keep their shapes and types."""
    rule, clients, start = case.method.server, case.stream.clients, _start(case)
    fast = compiled("server.apply", lambda w, u, s: rule.apply(w, u, clients, s))
    here: Any = (start, rule.init(start))
    there: Any = jax.tree.map(jnp.asarray, here)
    layout = _layout(there)
    for total in _totals(case)[:3]:
        here = rule.apply(here[0], total.copy(), clients, here[1])
        there = fast(there[0], total, there[1])
        demand(
            _layout(there) == layout,
            "`server.apply` must return a model and a state of the shapes and types that it was given.",
        )
    demand(
        agree([np.asarray(here[0])], [there[0]]), "`server.apply` gives another model in JAX than in NumPy."
    )
    return "3 steps, float32 tolerance, same shapes."


def server_survives_extremes(case: Case) -> str:
    """Sums of zeros and huge sums leave no NaN behind."""
    rule, start = case.method.server, _start(case)
    demand(bool(np.isfinite(start).all()), "`server.start` gives a model that is not finite.")
    with quiet():
        for scale in (0.0, 1e15):
            moved, state = rule.apply(
                start, np.float32(scale) * _totals(case)[0], case.stream.clients, rule.init(start)
            )
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((moved, state))]
            nan = any(np.isnan(leaf).any() for leaf in leaves if leaf.dtype.kind == "f")
            demand(not nan, f"a sum with coordinates of {scale:g} leaves NaN in the model or the state.")
    return "zeros and 1e15."


def broadcast_agrees(case: Case) -> str:
    """The copy that the server computes is the one that clients decode, at the bits that are counted."""
    piece = case.method.broadcast
    if case.method.topology != "federated":
        raise SkipError(f"a {case.method.topology} reference has no broadcast.")
    model, copy = case.dense[:2]
    fast = compiled("broadcast.send", piece.send)
    for number in (1, 2, 50):
        here, bits = piece.send(model, copy, SEED, STEP, number)
        there, counted = fast(model, copy, np.uint32(SEED), np.int32(STEP), np.int32(number))
        message, adds = piece.encode(model, copy, SEED, STEP, number)
        decoded = piece.decode(message, adds, copy, case.dim, SEED, STEP)
        real = message.bits
        slack = 0.1 * real + 64 if adds else 0
        demand(agree([here], [there]), "`broadcast.send` gives another copy in JAX than in NumPy.")
        demand(
            agree([here], [decoded]),
            "`broadcast.send` and `broadcast.encode` give clients different copies.",
        )
        demand(
            abs(float(bits) - real) <= slack and np.allclose(counted, bits, rtol=0.01),
            f"`broadcast.send` counts {float(bits):,.0f} bits where {real:,} are sent.",
        )
        exact = not piece.exact or bool((np.asarray(here) == model).all())
        demand(exact, "`broadcast.exact` is True, but the copy is not the model.")
    return "3 broadcasts: NumPy, JAX and the wire."


def _start(case: Case) -> Vector:
    return np.asarray(case.method.server.start(case.model.initial(case.seed)), np.float32)


def _totals(case: Case) -> Vector:
    """Sums of what clients send, as long as that is."""
    return case.dense[:, : case.method.client.sends(case.dim)["update"]]


def _models(case: Case) -> Vector:
    """Models inside the rule's domain, where it has one: around the start."""
    noise = 1 + 0.1 * np.random.default_rng(4).standard_normal((8, case.dim))
    return np.asarray(_start(case) * noise, np.float32)


def _layout(tree: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves]
