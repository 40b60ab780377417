"""Contracts of what is sent: the right mean, the right bytes, the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from ofediq.arrays import Vector
from ofediq.randomness import Address
from ofediq.testing.case import SEED, STEP, Case
from ofediq.testing.compare import agree, compiled, demand, quiet, repeated

_ERRORS = 5  # standard errors that a mean may be off
_EXACT = 2e-6  # of the sum of all sizes: what float32 may lose


def unbiased(case: Case) -> str:
    """The mean of what the server decodes is the update, seen along many directions."""
    if not getattr(case.method.compress, "unbiased", True):
        return "declared biased: `compress.unbiased` is False."
    rows = int(np.clip(2**22 // case.dim, 256, 4096))
    seen = 0
    for name, update in case.shapes.items():
        signs = np.random.default_rng(2).choice([-1.0, 1.0], (16, case.dim))
        directions = np.concatenate([signs, [update, np.sign(update), np.eye(case.dim)[0]]]).T
        error, spread = _projected_error(case, update, directions, rows)
        allowed = _ERRORS * spread / np.sqrt(rows) + _EXACT * (np.abs(update) @ np.abs(directions))
        worst = int(np.argmax(np.abs(error) / allowed))
        demand(
            bool((np.abs(error) <= allowed).all()),
            f"on {name} the mean of {rows} messages is off by {abs(error[worst]):.3g} along a direction where "
            f"{allowed[worst]:.3g} would be chance; declare it with `unbiased = False` if that is intended.",
        )
        seen += directions.shape[1]
    return (
        f"{seen} directions, {rows} messages, {_ERRORS} standard errors: a false alarm in 1 of 30,000 seeds."
    )


def apply_equals_encode(case: Case) -> str:
    """What `apply` returns is what the receiver decodes from the bytes of `encode`."""
    for updates in (case.dense, 1e9 * case.dense[:3], 1e-9 * case.dense[:3]):
        sent, _ = _apply(case, updates)
        received = np.array([_received(case, row, client)[0] for client, row in enumerate(updates)])
        demand(
            agree(sent, received),
            "`apply` and `encode` differ: the simulator would learn from other numbers than a server receives.",
        )
    return "14 messages through encode and decode, float32 tolerance."


def bits_are_bytes(case: Case) -> str:
    """The bits that `apply` counts are those of the payload on the wire."""
    entropy = case.method.compress.coding == "entropy"
    for updates in (case.long, case.dense):
        _, bits = _apply(case, updates)
        for client, row in enumerate(updates):
            real = _received(case, row, client)[1]
            # The ideal length of an entropy code: documented to 1 % for thousands of coordinates.
            slack = (0.01 if updates is case.long else 0.1) * real + 64 if entropy else 0
            demand(
                abs(float(bits[client]) - real) <= slack,
                f"`apply` counts {float(bits[client]):,.0f} bits for {row.size} coordinates where {real:,} are "
                "sent.",
            )
    return "11 messages, " + ("within 1 % of the entropy code." if entropy else "exactly.")


def bits_below_formula(case: Case) -> str:
    """`formula_bits` is a bound on the payload, or NaN where there is no formula."""
    limit = float(case.method.compress.formula_bits(case.dim))
    if np.isnan(limit):
        return "no formula: it is NaN, and bits are counted as they are on the wire."
    for client, row in enumerate(case.dense):
        real = _received(case, row, client)[1]
        demand(real <= limit, f"`formula_bits` promises at most {limit:,.0f} bits, and {real:,} are sent.")
    return f"{len(case.dense)} messages."


def draws_are_addressed(case: Case) -> str:
    """Draws depend on (seed, step, client) and on nothing else: not on the order, the chunk or earlier calls."""
    compress, updates, ids = case.method.compress, case.dense, np.arange(8)

    def call(rows: Vector, numbers: Any) -> Any:
        return compress.apply(rows, Address(SEED, STEP, numbers), case.signal)

    sent, _ = repeated("compress.apply", call, updates, ids, between=lambda: call(updates[:2] * 3, ids[:2]))
    turned, _ = call(updates[::-1].copy(), ids[::-1].copy())
    demand(
        agree(sent, turned[::-1]),
        "`apply` gives a client another message when clients come in another order.",
    )
    alone = [call(updates[k : k + 1], ids[k : k + 1])[0][0] for k in range(8)]
    demand(agree(sent, np.array(alone)), "`apply` gives a client another message when it is treated alone.")
    same = np.tile(updates[0], (8, 1))
    others = {
        "client": call(same, ids)[0],
        "step": [
            compress.apply(same[:1], Address(SEED, step, ids[:1]), case.signal)[0][0] for step in range(1, 9)
        ],
        "seed": [
            compress.apply(same[:1], Address(seed, STEP, ids[:1]), case.signal)[0][0] for seed in range(1, 9)
        ],
    }
    varies = {name: len(np.unique(np.asarray(rows), axis=0)) > 1 for name, rows in others.items()}
    if case.method.compress.scheduled:
        demand(not varies["seed"], "`compress.scheduled` is True, but messages depend on the seed.")
        return "same message alone, in any order, and again; by a schedule, not by draws."
    for name, does in varies.items():
        demand(does or not any(varies.values()), f"the draws of `apply` do not depend on the {name}.")
    return "same message alone, in any order, and again." if any(varies.values()) else "there are no draws."


def same_in_jax(case: Case) -> str:
    """NumPy on a device and JAX in the simulator give the same."""
    compress, ids = case.method.compress, np.arange(8, dtype=np.int32)
    sent, bits = _apply(case, case.dense)
    fast = compiled("compress.apply", compress.apply)
    there, counted = fast(case.dense, Address(np.uint32(SEED), np.int32(STEP), ids), case.signal)
    demand(agree(sent, there), "`apply` gives other numbers in JAX than in NumPy.")
    demand(np.allclose(bits, counted, rtol=0.01), "`apply` counts other bits in JAX than in NumPy.")
    return "8 updates inside jax.jit, float32 tolerance."


def survives_extremes(case: Case) -> str:
    """An update of zeros stays zero unless noise hides it, and neither huge nor tiny ones become NaN."""
    noisy = bool(getattr(case.method.compress, "noise", 0))
    zeros = np.zeros((2, case.dim), np.float32)
    with quiet():
        sent, bits = _apply(case, zeros)
        demand(noisy or not np.any(sent), "an update of zeros does not come out as zeros.")
        demand(bool(np.isfinite(bits).all()), "the bits of an update of zeros are not finite.")
        demand(
            noisy or not _received(case, zeros[0], 0)[0].any(),
            "the message of zeros does not decode to zeros.",
        )
        for scale in (1e15, 1e-15):
            sent, _ = _apply(case, np.float32(scale) * np.sign(case.dense))
            demand(
                bool(np.isfinite(sent).all()),
                f"an update with coordinates of {scale:g} comes out not finite.",
            )
            sparse = np.zeros((1, case.dim), np.float32)
            sparse[0, 0] = scale
            finite = np.isfinite(_apply(case, sparse)[0]).all()
            demand(bool(finite), f"an update with one coordinate of {scale:g} comes out not finite.")
    return "zeros, 1e15 and 1e-15."


def _apply(case: Case, updates: Vector) -> tuple[Vector, Vector]:
    """What the simulator computes, with its shapes checked."""
    updates = np.asarray(updates, np.float32)
    sent, bits = case.method.compress.apply(
        updates, Address(SEED, STEP, np.arange(len(updates))), case.signal
    )
    shapes = np.shape(sent), np.shape(bits)
    wanted = updates.shape, updates.shape[:1]
    demand(shapes == wanted, f"`apply` must return arrays of shapes {wanted}, got {shapes}.")
    return np.asarray(sent), np.asarray(bits)


def _received(case: Case, update: Vector, client: int) -> tuple[Vector, int]:
    """What a server decodes from a client's bytes, and the bits of their payload."""
    compress = case.method.compress
    signal = None if case.signal is None else float(case.signal)
    address = Address(SEED, STEP, client)
    encoded = compress.encode(np.asarray(update, np.float32), address, signal)
    return compress.decode(encoded, update.size, address, signal), encoded.bits


def _projected_error(case: Case, update: Vector, directions: Any, rows: int) -> tuple[Any, Any]:
    """Mean and standard deviation of (sent - update) along each direction, over `rows` clients."""
    chunk = max(1, 2**20 // case.dim)
    parts = []
    for first in range(0, rows, chunk):
        ids = np.arange(first, min(first + chunk, rows))
        copies = np.tile(update, (len(ids), 1))
        sent, _ = case.method.compress.apply(copies, Address(SEED, STEP, ids), case.signal)
        parts.append((np.asarray(sent, np.float64) - update) @ directions)
    errors = np.concatenate(parts)
    return errors.mean(0), errors.std(0)
