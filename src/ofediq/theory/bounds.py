"""Regret bounds: Theorems 1 and 2, Corollary 1, and the gap between federated and central learning.

All bounds speak about the sum of the losses of all clients over all steps, minus that of the best fixed model in
hindsight, w*. They need convex, beta-smooth losses. The paper starts at zero; from another first model w_1 the same
proofs hold with ||w_1 - w*|| for ||w*||.

    regret       what is bounded              heterogeneity       sigma_diff^2, mean squared gradient norm at w*
    optimum_norm ||w*||, or ||w_1 - w*||      smoothness          beta
    rate         p_k, with p_min and p_sum    quantizer_variance  sigma_q^2
    period       L                            clients, steps      K, T
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Floats
from ofediq.errors import InputError, require, require_integer, require_nonnegative, require_positive
from ofediq.theory.rates import MAX_COUNT, Rate, RateSummary, rate_summary


def ofedavg_step_limit(rate: Rate, *, clients: int, smoothness: float) -> float:
    """The step size must stay below this for Theorem 1.

        eta < p_min / (2 beta)

    >>> ofedavg_step_limit(0.5, clients=10, smoothness=1.0)
    0.25
    """
    return rate_summary(rate, clients).lowest / (2 * require_positive("smoothness", smoothness))


def ofediq_step_limit(
    rate: Rate, *, clients: int, smoothness: float, quantizer_variance: float = 0.0, period: int = 1
) -> float:
    """The step size must stay below this for Theorem 2.

        eta < p_min / (4 beta L R)   with R = 1 + sigma_q^2 (p_sum - p_min + 1) / K

    The theorem is printed without L. Its proof divides by 1 - 4 eta beta L R / p_min, which must be positive,
    so for L > 1 the condition needs the factor L.

    >>> ofediq_step_limit(0.5, clients=10, smoothness=1.0, period=5)
    0.025
    """
    senders = rate_summary(rate, clients)
    smoothness, period = require_positive("smoothness", smoothness), _period(period)
    return senders.lowest / (4 * smoothness * period * _inflation(senders, quantizer_variance))


def ofedavg_regret_bound(
    step_size: float,
    rate: Rate,
    *,
    clients: int,
    steps: int,
    optimum_norm: float,
    heterogeneity: float,
    smoothness: float,
) -> float:
    """Theorem 1: the regret of OFedAvg (no quantiser, period 1); of FedOGD with `rate=1`.

        regret <= K ||w*||^2 / (2 eta) + eta K T sigma_diff^2 / p_min

    Raises `InputError` when the step size breaks the theorem's condition, `ofedavg_step_limit`.

    >>> ofedavg_regret_bound(0.1, 0.5, clients=10, steps=100, optimum_norm=1.0, heterogeneity=2.0, smoothness=1.0)
    450.0
    """
    limit = ofedavg_step_limit(rate, clients=clients, smoothness=smoothness)
    step_size = _step_size(step_size, limit, "p_min / (2 beta)")
    start, noise = _terms(step_size, clients, steps, optimum_norm, heterogeneity)
    return start + noise / rate_summary(rate, clients).lowest


def ofediq_regret_bound(
    step_size: float,
    rate: Rate,
    *,
    clients: int,
    steps: int,
    optimum_norm: float,
    heterogeneity: float,
    smoothness: float,
    quantizer_variance: float = 0.0,
    period: int = 1,
) -> float:
    """Theorem 2: the regret of OFedIQ.

        regret <= K ||w*||^2 / (2 eta)
                  + 2 eta L K T sigma_diff^2 / p_min (1 + sigma_q^2 (p_sum - p_min + 1) / K)
                  + 3 beta eta^2 L (L - 1) K T sigma_diff^2

    Raises `InputError` when the step size breaks the theorem's condition, `ofediq_step_limit`. The leading 2 of
    the second line is an artefact of the proof (see `regret_constant`).

    >>> ofediq_regret_bound(0.1, 0.5, clients=10, steps=100, optimum_norm=1.0, heterogeneity=2.0, smoothness=1.0)
    850.0
    """
    senders, period = rate_summary(rate, clients), _period(period)
    limit = ofediq_step_limit(
        rate, clients=clients, smoothness=smoothness, quantizer_variance=quantizer_variance, period=period
    )
    step_size = _step_size(step_size, limit, "p_min / (4 beta L R)")
    start, noise = _terms(step_size, clients, steps, optimum_norm, heterogeneity)
    sampling = 2 * period * noise / senders.lowest * _inflation(senders, quantizer_variance)
    return start + sampling + 3 * smoothness * step_size * period * (period - 1) * noise


def regret_bound_curve(
    step_size: float,
    rate: Rate,
    *,
    distance: float,
    gradients: npt.ArrayLike,
    clients: int,
    smoothness: float,
    quantizer_variance: float = 0.0,
    period: int = 1,
) -> Floats:
    """Theorem 1 (no quantiser, period 1) or 2 (else) at every step, not only at the last one.

        regret up to t <= K ||w_1 - w*||^2 / (2 eta) + c sum over tau <= t of sum_k ||gradient_k,tau(w*)||^2

    c is what the theorem multiplies K T sigma_diff^2 by. The proofs add up one inequality per window, so their first
    t steps are a proof for t, and w* may be any model: here the best over all steps.

    Args:
        step_size: eta, of the server and of local steps.
        rate: p_k, one number or one per client.
        distance: ||w_1 - w*||.
        gradients: the squared norms of the gradients at w*, summed over the clients, at each step.
        clients: K.
        smoothness: beta.
        quantizer_variance: sigma_q^2.
        period: L.

    Raises `InputError` when the step size breaks the theorem's condition.

    >>> regret_bound_curve(0.1, 0.5, distance=1.0, gradients=[20.0] * 100, clients=10, smoothness=1.0)[[0, 99]]
    array([ 54., 450.])
    """
    try:
        squares = np.asarray(gradients, np.float64)
    except (TypeError, ValueError):
        squares = np.full(1, np.nan)
    finite = squares.ndim == 1 and bool(np.isfinite(squares).all()) and float(squares.min(initial=0.0)) >= 0
    require(finite, "gradients", "must be one finite number >= 0 per step", gradients)
    common: dict[str, Any] = {"clients": clients, "steps": 1, "smoothness": smoothness}
    theorem = ofedavg_regret_bound
    if quantizer_variance or period != 1:
        theorem = partial(ofediq_regret_bound, quantizer_variance=quantizer_variance, period=period)
    start = theorem(step_size, rate, optimum_norm=distance, heterogeneity=0.0, **common)
    each = theorem(step_size, rate, optimum_norm=0.0, heterogeneity=1.0, **common) / clients
    return start + each * np.cumsum(squares)


def regret_constant(
    rate: Rate, *, clients: int, quantizer_variance: float = 0.0, period: int = 1, factor: int = 2
) -> float:
    """alpha in regret <= sqrt(alpha ||w*||^2 K^2 sigma_diff^2 T), at the best step size (Corollary 1).

        alpha = factor L / p_min (3 p_min^2 (L - 1) / 8 + 1 + sigma_q^2 (p_sum + 1) / K)

    With equal rates (p_sum + 1) / K = p + 1/K, as in the paper. `factor=4` is Corollary 1 and Table 1. `factor=2`
    is what the paper's own example and Algorithm 3 use, and for L = 1 it holds: the quantiser's error has mean
    zero, so the cross term that the proof pays a factor 2 for vanishes in expectation. Without a quantiser and
    with L = 1 it is Theorem 1's 2 / p.

    Args:
        rate: p_k, one number or one per client.
        clients: K.
        quantizer_variance: sigma_q^2; 0 without a quantiser.
        period: L.
        factor: 2 or 4.

    >>> regret_constant(0.01, clients=1000)
    200.0
    """
    senders = rate_summary(rate, clients)
    return _scale(factor, period) / senders.lowest * _spread(senders, quantizer_variance, period)


def best_step_size(
    rate: Rate,
    *,
    clients: int,
    steps: int,
    optimum_norm: float,
    heterogeneity: float,
    quantizer_variance: float = 0.0,
    period: int = 1,
    factor: int = 2,
) -> float:
    """The step size of Corollary 1, which balances the two terms of the bound.

        eta = sqrt(p_min ||w*||^2 / (factor L sigma_diff^2 T X)),
        X = 3 p_min^2 (L - 1) / 8 + 1 + sigma_q^2 (p_sum + 1) / K

    The paper prints 3 p^2 (L - 1) / 8 + 1 + C with C = 1 + ..., which counts the 1 twice; its alpha counts it
    once, and so do we. For large T this step size meets the conditions of the theorems.

    >>> best_step_size(1.0, clients=10, steps=50, optimum_norm=1.0, heterogeneity=1.0)
    0.1
    """
    senders = rate_summary(rate, clients)
    steps = require_integer("steps", steps, 1, MAX_COUNT)
    optimum_norm = require_positive("optimum_norm", optimum_norm)
    heterogeneity = require_positive("heterogeneity", heterogeneity)
    spread = _spread(senders, quantizer_variance, period)
    return optimum_norm * math.sqrt(
        senders.lowest / (_scale(factor, period) * heterogeneity * steps * spread)
    )


def regret_bound(
    constant: float, *, clients: int, steps: int, optimum_norm: float, heterogeneity: float
) -> float:
    """The regret that belongs to a constant alpha.

        regret <= sqrt(alpha ||w*||^2 K^2 sigma_diff^2 T)

    >>> regret_bound(2.0, clients=10, steps=50, optimum_norm=1.0, heterogeneity=1.0)
    100.0
    """
    constant = require_positive("constant", constant)
    clients, steps = (
        require_integer("clients", clients, 1, MAX_COUNT),
        require_integer("steps", steps, 1, MAX_COUNT),
    )
    optimum_norm = require_nonnegative("optimum_norm", optimum_norm)
    return (
        clients
        * optimum_norm
        * math.sqrt(constant * require_nonnegative("heterogeneity", heterogeneity) * steps)
    )


def federation_gap(*, clients: int, steps: int, optimum_norm: float, heterogeneity: float) -> float:
    """Delta_F-C: how far FedOGD's guarantee lies above central OGD's, per sample.

        Delta_F-C = (1 - 1 / sqrt(K)) sqrt(2 ||w*||^2 sigma_diff^2 / T)

    It is the difference of two upper bounds. The paper calls it a bound on the difference of the losses, which
    would need a lower bound on the loss of OGD.

    >>> federation_gap(clients=4, steps=50, optimum_norm=1.0, heterogeneity=1.0)
    0.1
    """
    regret = regret_bound(
        2.0, clients=clients, steps=steps, optimum_norm=optimum_norm, heterogeneity=heterogeneity
    )
    return (1 - 1 / math.sqrt(clients)) * regret / (clients * steps)


def _scale(factor: int, period: int) -> int:
    require(require_integer("factor", factor, 2, 4) != 3, "factor", "must be 2 or 4", factor)
    return factor * _period(period)


def _inflation(senders: RateSummary, quantizer_variance: float) -> float:
    """R of the proof of Theorem 2: 1 + sigma_q^2 (p_sum - p_min + 1) / K."""
    variance = require_nonnegative("quantizer_variance", quantizer_variance)
    return 1 + variance * (senders.total - senders.lowest + 1) / senders.clients


def _spread(senders: RateSummary, quantizer_variance: float, period: int) -> float:
    """X of Corollary 1. Like the paper it drops - p_min from R, which makes the bound a little larger."""
    variance = require_nonnegative("quantizer_variance", quantizer_variance)
    drift = 3 * senders.lowest**2 * (_period(period) - 1) / 8
    return drift + 1 + variance * (senders.total + 1) / senders.clients


def _terms(
    step_size: float, clients: int, steps: int, optimum_norm: float, heterogeneity: float
) -> tuple[float, float]:
    """K ||w*||^2 / (2 eta), the cost of the start, and eta K T sigma_diff^2, the cost of noise at p = 1."""
    steps = require_integer("steps", steps, 1, MAX_COUNT)
    norm = require_nonnegative("optimum_norm", optimum_norm)
    start = clients * (norm * norm) / (2 * step_size)  # infinite where a power would raise an error
    return start, step_size * clients * steps * require_nonnegative("heterogeneity", heterogeneity)


def _step_size(value: float, limit: float, condition: str) -> float:
    value = require_positive("step_size", value)
    if value >= limit:
        raise InputError(f"`step_size` must be below {condition} = {limit:.6g}, got {value!r}")
    return value


def _period(value: int) -> int:
    return require_integer("period", value, 1, MAX_COUNT)
