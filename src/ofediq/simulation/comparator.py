"""The best fixed model in hindsight: w*, what regret is measured against.

For a convex model it is found to a stated tolerance: least squares in closed form, everything else by L-BFGS in
double precision. For other models nobody can find it; what is returned is the best model seen, an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ofediq.arrays import Floats, Numbers, Vector
from ofediq.errors import extra, require, require_kind, require_positive
from ofediq.models import LayeredModel, Model, Network
from ofediq.streams import Stream

_CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Comparator:
    """The best fixed model in hindsight.

    Attributes:
        params: w*.
        losses: its loss at each step, summed over the clients present, [steps].
        gradients: the squared norms of its gradients at each step, summed over the clients present, [steps].
        heterogeneity: sigma_diff^2 of Definition 1: mean squared norm of the gradients at w*.
        gradient_norm: norm of the gradient of the mean loss at w*; zero at an exact optimum.
        exact: whether w* was found to the tolerance; else it is the best model seen, an estimate.
    """

    params: Floats
    losses: Floats
    gradients: Floats
    heterogeneity: float
    gradient_norm: float
    exact: bool


def hindsight(
    model: Model,
    stream: Stream,
    *,
    tolerance: float = 1e-6,
    start: npt.ArrayLike | None = None,
    passes: int = 3,
) -> Comparator:
    """w* = argmin over w of the sum of all losses on the stream.

    Args:
        model: whose parameters are sought.
        stream: every sample counts as often as a client sees it.
        tolerance: for convex models, the norm of the gradient of the mean loss at which the search ends.
        start: for other models, parameters to improve on.
        passes: for other models, passes of Adam over the data.
    """
    require_kind(Model, "model", model)
    require_kind(Stream, "stream", stream)
    tolerance = require_positive("tolerance", tolerance)
    seen = stream.order[stream.present]
    require(len(seen) > 0, "stream", "must hold at least one sample", "none")
    weights = np.bincount(seen, minlength=len(stream.y)).astype(np.float64)
    if _can_be_found(model):
        params = _minimise(model, stream, weights, tolerance)
    else:
        params = _best_seen(model, stream, weights, start, passes).astype(np.float64)
    losses, squared, gradient = _at(model, stream, weights, params)
    norm = float(np.linalg.norm(gradient) / weights.sum())
    exact = bool(model.convex and norm <= 2 * tolerance)
    heterogeneity = float(weights @ squared / weights.sum())
    return Comparator(params, _by_step(stream, losses), _by_step(stream, squared), heterogeneity, norm, exact)


def losses_of(model: Model, stream: Stream, params: Numbers) -> Floats:
    """The loss of one model at each step, summed over the clients present, [steps]."""
    return _by_step(stream, _losses(model, stream, params))


def _minimise(model: LayeredModel, stream: Stream, weights: Floats, tolerance: float) -> Floats:
    """The optimum of a convex model, in double precision."""
    if isinstance(model, Network) and model.task == "regression":
        return _least_squares(model, stream, weights)
    optimize = extra("scipy.optimize", "sim")
    total = weights.sum()

    def mean_loss(params: Floats) -> tuple[float, Floats]:
        loss, gradient = 0.0, np.zeros_like(params)
        for x, y, weight in _pieces(stream, weights):
            losses, _, part = model.batch_gradient(params, x, y, weight)
            loss, gradient = loss + float(weight @ losses), gradient + part
        return loss / total, gradient / total

    options = {
        "maxiter": 5000,
        "maxfun": 10000,
        "maxcor": 30,
        "gtol": tolerance / np.sqrt(model.dim),
        "ftol": 0.0,
    }
    found = optimize.minimize(mean_loss, np.zeros(model.dim), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, np.float64)


def _can_be_found(model: Model) -> TypeGuard[LayeredModel]:
    """Whether it is convex and ours: these run in double precision, and have an optimum that can be found."""
    return isinstance(model, LayeredModel) and model.convex


def _least_squares(model: Network, stream: Stream, weights: Floats) -> Floats:
    """Normal equations with the penalty l2 / 2 ||w||^2 per sample; the pseudo-inverse where features depend."""
    gram, moment = model.l2 * weights.sum() * np.eye(model.dim), np.zeros(model.dim)
    for x, y, weight in _pieces(stream, weights):
        flat = x.reshape(len(x), -1).astype(np.float64)
        design = np.hstack([flat, np.ones((len(x), 1))]) if model.stages[0].bias else flat
        gram += 2 * (design.T * weight) @ design
        moment += 2 * design.T @ (weight * y)
    solution, *_ = np.linalg.lstsq(gram, moment, rcond=None)
    return np.asarray(solution, np.float64)


def _best_seen(
    model: Model, stream: Stream, weights: Floats, start: npt.ArrayLike | None, passes: int
) -> Vector:
    """The better of `start` and what some passes of Adam from there lead to."""
    optax = extra("optax", "sim")
    first = jnp.asarray(model.initial(0) if start is None else start, jnp.float32)
    rule = optax.adam(1e-3)
    size = min(128, len(stream.y))
    pool_x, pool_y, counts = jnp.asarray(stream.x), jnp.asarray(stream.y), jnp.asarray(weights, jnp.float32)

    @jax.jit
    def one_pass(carry: Any, rows: jax.Array) -> Any:
        def step(carry: Any, batch: jax.Array) -> tuple[Any, None]:
            params, state = carry
            share = counts[batch] / jnp.maximum(counts[batch].sum(), 1)
            _, _, gradient = model.batch_gradient(params, pool_x[batch], pool_y[batch], share)
            move, state = rule.update(gradient, state, params)
            return (params + move, state), None

        return jax.lax.scan(step, carry, rows)[0]

    rng = np.random.default_rng(0)
    carry, candidates = (first, rule.init(first)), [np.asarray(first)]
    for _ in range(passes):
        rows = rng.permutation(len(stream.y))[: len(stream.y) // size * size].reshape(-1, size)
        carry = one_pass(carry, rows)
        candidates.append(np.asarray(carry[0]))
    totals = [float(weights @ _losses(model, stream, params)) for params in candidates]
    return candidates[int(np.nanargmin(totals))]


def _losses(model: Model, stream: Stream, params: Numbers) -> Floats:
    """The loss of every sample in the dataset."""
    parts = [
        np.asarray(_evaluated(model, params, stream.x[i : i + _CHUNK], stream.y[i : i + _CHUNK]))
        for i in range(0, len(stream.y), _CHUNK)
    ]
    return np.concatenate(parts).astype(np.float64)


# Made for a model once: a function that is compiled anew for each question takes longer than the answer.
@partial(jax.jit, static_argnames="model")
def _evaluated(model: Model, params: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    losses: jax.Array = model.evaluate(params, x, y)[0]
    return losses


@partial(jax.jit, static_argnames="model")
def _gradients(model: Model, params: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    gradients: jax.Array = model.client_gradients(params, x, y)
    return gradients


def _at(model: Model, stream: Stream, weights: Floats, params: Floats) -> tuple[Floats, Floats, Floats]:
    """Loss and squared gradient norm of every sample (zero if nobody sees it), and the sum of the gradients."""
    if _can_be_found(model):  # in double precision
        at, size, gradients_of = params, _CHUNK, model.client_gradients
    else:
        at, size, gradients_of = params.astype(np.float32), model.chunk, partial(_gradients, model)
    parts, total = [], np.zeros(model.dim)
    for x, y, weight in _pieces(stream, weights, size):
        gradients = np.asarray(gradients_of(at, x, y), np.float64)
        parts.append((np.asarray(model.evaluate(at, x, y)[0], np.float64), (gradients * gradients).sum(1)))
        total += weight @ gradients
    found = np.zeros((2, len(weights)))
    found[:, weights > 0] = np.concatenate(parts, axis=1)
    return found[0], found[1], total


def _by_step(stream: Stream, values: Floats) -> Floats:
    """Sums over the clients present from one value per sample."""
    return np.asarray(np.where(stream.present, values[stream.order], 0.0).sum(1))


def _pieces(stream: Stream, weights: Floats, size: int = _CHUNK) -> Iterator[tuple[Numbers, Numbers, Floats]]:
    """The samples that somebody sees, in pieces of bounded size."""
    seen = np.flatnonzero(weights)
    for i in range(0, len(seen), size):
        rows = seen[i : i + size]
        yield stream.x[rows], stream.y[rows], weights[rows]
