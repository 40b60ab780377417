"""Ridge regression online, one model per client: second order, for linear models with few features.

A linear model's gradient says everything: with x the features and 1 for the bias, it is x times the residuals, and
the bias has the residuals alone. So a client rule, which sees gradients only, knows x too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ofediq.arrays import Array, namespace

RIDGE = np.float32(30.0)
DRIFTS = (0.0, 1e-4)
"""How much the variance of each weight grows with a sample: a model for what stays, and one for what changes."""

_FLATTEST = np.float32(1e-3)  # curvature that counts at least: what is certain now may turn out wrong
_SILENT = np.float32(1e-20)  # squared residuals below this tell nothing


class Ridge(NamedTuple):
    """Some clients' models.

    Attributes:
        weights: [clients, models, dim]
        spread: [clients, models, features + 1, features + 1], P: how uncertain the weights are.
    """

    weights: Array
    spread: Array


def ridge_weight(outputs: int) -> float:
    """The ridge. Of many classes each is rare, and the loss as flat: it is less, by 2 / classes."""
    return float(RIDGE * np.float32(2 / max(2, outputs)))


def first_ridge(params: Array, outputs: int) -> Ridge:
    """One client's models before the first sample: where `params` [dim] are, P = 1 / ridge."""
    xp = namespace(params)
    size = params.shape[-1] // outputs
    weights = xp.broadcast_to(params, (len(DRIFTS), params.shape[-1]))
    start = np.eye(size, dtype=np.float32) / np.float32(ridge_weight(outputs))
    spread = np.broadcast_to(start, (len(DRIFTS), size, size))
    return Ridge(xp.array(weights), xp.asarray(spread))


def learn_ridge(
    weights: Array, spread: Array, gradient: Array, outputs: int, drift: float
) -> tuple[Array, Array]:
    """One kind of model [n, dim] and its P [n, size, size] after a sample with this gradient at it [n, dim].

    With r the residuals and h the curvature of the loss along x,

        P <- P - h P x x' P / (1 + h x' P x),   W <- W - P x r',   P <- P + drift I.

    For half the squared loss r = prediction - target and h = 1: least squares with a penalty, exactly, if drift = 0.
    For the cross-entropy r = p - (1 at the label), and h = r' (diag p - p p') r / r' r is the curvature along r.

    >>> x, y = np.array([[0.5, 1.0]], np.float32), 3.0
    >>> weights, spread = np.zeros((1, 2), np.float32), np.eye(2, dtype=np.float32)[None] / RIDGE
    >>> for _ in range(40):  # two samples in turn: y = 3 at x = .5, and y = 1 at x = -.5
    ...     residual = 2 * ((weights * x).sum(-1, keepdims=True) - y)
    ...     weights, spread = learn_ridge(weights, spread, residual * x, 1, 0.0)
    ...     x, y = x * np.array([-1, 1], np.float32), 4.0 - y
    >>> x, y = np.array([[0.5, 1.0], [-0.5, 1.0]]).repeat(20, 0), np.repeat([3.0, 1.0], 20)
    >>> exact = np.linalg.solve(x.T @ x + RIDGE * np.eye(2), x.T @ y)
    >>> bool(np.allclose(weights[0], exact, rtol=1e-4))
    True
    """
    xp = namespace(gradient)
    gradient = xp.where(xp.isfinite(gradient), gradient, np.float32(0))
    slopes = gradient.reshape(gradient.shape[0], -1, outputs)
    residual = slopes[:, -1]
    size = (residual * residual).sum(-1)
    told = size > _SILENT
    x = (slopes * residual[:, None]).sum(-1) / xp.where(told, size, np.float32(1))[:, None]
    if outputs == 1:  # the squared loss, whose gradient is twice that of its half
        curvature, step = told.astype(np.float32), residual / np.float32(2)
    else:
        label = residual.min(-1)  # p - 1 there, and p elsewhere: the only one below 0
        along = (residual**3).sum(-1) + label * label - (size + label) ** 2
        curvature, step = xp.maximum(along / xp.where(told, size, np.float32(1)), _FLATTEST), residual
    towards = (spread * x[:, None]).sum(-1)
    scale = curvature / (1 + curvature * (towards * x).sum(-1))
    narrowed = spread - scale[:, None, None] * towards[:, :, None] * towards[:, None]
    widened = narrowed + np.float32(drift) * np.eye(spread.shape[-1], dtype=np.float32) if drift else narrowed
    after = xp.where(told[:, None, None], widened, spread)
    gain = towards / (1 + curvature * (towards * x).sum(-1))[:, None]  # the narrowed P times x
    move = (gain[:, :, None] * step[:, None]).reshape(weights.shape)
    return weights - xp.where(told[:, None], move, np.float32(0)), after
