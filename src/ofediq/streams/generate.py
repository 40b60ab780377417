"""Synthetic streams whose optimum is known."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ofediq.arrays import Numbers
from ofediq.errors import InputError, require_choice, require_integer, require_nonnegative
from ofediq.streams.dataset import TASKS, Dataset, Task, Truth
from ofediq.streams.draws import Draw, generator
from ofediq.streams.stream import Stream

Drift = Literal["none", "abrupt", "gradual"]


def synthetic(
    task: Task = "regression",
    clients: int = 100,
    steps: int = 300,
    *,
    features: int = 10,
    classes: int = 3,
    heterogeneity: float = 0.0,
    noise: float = 0.1,
    drift: Drift = "none",
    seed: int = 0,
) -> Stream:
    """A stream drawn from linear models, every sample new; the optimum is in `stream.dataset.truth`.

    Samples x are standard normal. With w_k(t) the optimum of client k at step t:

        regression       y = <x, w_k(t)> + noise * N(0, 1)
        classification   y = argmax_c <x, w_k(t)_c> + noise * Gumbel,   so  P(y = c) ~ exp(<x, w_k(t)_c> / noise)
        optimum          w_k(t) = w*(t) + offset_k,   mean_k offset_k = 0,   ||w*(t)||^2 = 1 (regression), classes

    so that w* (w* / noise for the logistic loss) is the best common model.

    Arguments:
        task: "regression" or "classification".
        clients: K.
        steps: T.
        features: length of x, at least 2.
        classes: of a classification.
        heterogeneity: root mean square of ||offset_k|| over ||w*||; 0 makes the clients identically distributed.
        noise: standard deviation (regression) or Gumbel scale (classification) of the noise.
        drift: "abrupt" replaces w* by an orthogonal one at step T // 2; "gradual" turns it there at a constant
            angular speed from the first to the last step.
        seed: fixes every draw.

    >>> stream = synthetic(clients=4, steps=50, features=3, noise=0.0)
    >>> x, y, _ = stream.step(0)
    >>> bool(np.allclose(x @ stream.dataset.truth.weights[0], y, atol=1e-5))
    True
    """
    require_choice("task", task, TASKS)
    require_choice("drift", drift, ("none", "abrupt", "gradual"))
    clients, steps = require_integer("clients", clients, 1), require_integer("steps", steps, 1)
    features = require_integer("features", features, 2)
    outputs = require_integer("classes", classes, 2) if task == "classification" else 1
    noise, heterogeneity = (
        require_nonnegative("noise", noise),
        require_nonnegative("heterogeneity", heterogeneity),
    )
    rng = generator(seed, Draw.SYNTHETIC)
    weights = _moving_optimum(rng, (features, outputs), _angles(drift, steps))
    offsets = _offsets(rng, (clients, features, outputs), heterogeneity)
    x = rng.standard_normal((steps, clients, features), np.float32)
    # <x, w*(t)> + <x, offset_k> without ever forming w_k(t) for all k and t. All of it is finite: OpenBLAS sets the
    # flag of an invalid operation now and then where there was none, which NumPy then warns of.
    with np.errstate(invalid="ignore"):
        scores = x @ weights + (x.swapaxes(0, 1) @ offsets).swapaxes(0, 1)
    dataset = Dataset(
        "synthetic",
        x=x.reshape(-1, features),
        y=_answers(rng, scores, noise, task).ravel(),
        task=task,
        classes=outputs if task == "classification" else None,
        client_ids=np.tile(np.arange(clients), steps),
        truth=_truth(weights, offsets, task),
    )
    return Stream(dataset, np.arange(steps * clients).reshape(steps, clients))


def _angles(drift: Drift, steps: int) -> Numbers:
    time = np.arange(steps)
    if drift == "abrupt":
        return np.where(time >= steps // 2, np.pi / 2, 0.0)
    if drift == "gradual":
        return np.pi / 2 * time / max(steps - 1, 1)
    return np.zeros(steps)


def _moving_optimum(rng: np.random.Generator, shape: tuple[int, int], angles: Numbers) -> Numbers:
    """w*(t) = cos(angle) a + sin(angle) b for orthogonal a, b of equal norm, [steps, features, outputs]."""
    start, end = _centred(rng.standard_normal((2, *shape)))
    end -= start * np.sum(start * end) / np.sum(start**2)
    start, end = (part * np.sqrt(shape[1] / np.sum(part**2)) for part in (start, end))
    turn = angles[:, None, None]
    return np.asarray(np.cos(turn) * start + np.sin(turn) * end, np.float32)


def _offsets(rng: np.random.Generator, shape: tuple[int, int, int], heterogeneity: float) -> Numbers:
    if heterogeneity > 0 and shape[0] < 2:
        raise InputError(f"`clients` must be at least 2 for `heterogeneity` {heterogeneity}, got {shape[0]}")
    offsets = _centred(rng.standard_normal(shape))
    offsets -= offsets.mean(axis=0)
    mean_square = np.sum(offsets**2) / shape[0]
    size = heterogeneity * np.sqrt(shape[2] / mean_square) if heterogeneity > 0 else 0.0
    return np.asarray(offsets * size, np.float32)


def _centred(weights: Numbers) -> Numbers:
    """Several classes: only differences between them matter, so their mean is taken out."""
    return weights - weights.mean(axis=-1, keepdims=True) if weights.shape[-1] > 1 else weights


def _answers(rng: np.random.Generator, scores: Numbers, noise: float, task: Task) -> Numbers:
    if task == "regression":
        return np.asarray(scores[..., 0] + noise * rng.standard_normal(scores.shape[:2], np.float32))
    return np.asarray(np.argmax(scores + noise * rng.gumbel(size=scores.shape), axis=-1))


def _truth(weights: Numbers, offsets: Numbers, task: Task) -> Truth:
    if task == "regression":
        return Truth(weights[..., 0], offsets[..., 0])
    return Truth(weights, offsets)
