"""What the paper proves, as functions: numbers in, numbers out. NumPy only.

bounds     Theorems 1 and 2, Corollary 1
table      Table 1: guarantee and cost of each method; why periods do not pay
quantizer  cost and variance of the (s, b) quantiser
rates      one rate for all clients, or one per client
planner    a bit budget in, parameters out
search     the exact minimum behind the planner
coding     bits and variance of entropy-coded messages, fitted or assumed
measured   the best parameters for bits on the wire
"""

from ofediq.theory.bounds import (
    best_step_size,
    federation_gap,
    ofedavg_regret_bound,
    ofedavg_step_limit,
    ofediq_regret_bound,
    ofediq_step_limit,
    regret_bound,
    regret_bound_curve,
    regret_constant,
)
from ofediq.theory.coding import Cost, RateModel, fitted_rates, gaussian_rates, laplace_rates
from ofediq.theory.planner import Plan, plan
from ofediq.theory.quantizer import message_bits, quantizer_variance
from ofediq.theory.rates import RateSummary, rate_summary
from ofediq.theory.table import (
    Guarantee,
    PeriodComparison,
    compare_period,
    expected_bits,
    fedogd_guarantee,
    fedomd_guarantee,
    ofedavg_guarantee,
    ofediq_guarantee,
)

__all__ = [
    "Cost",
    "Guarantee",
    "PeriodComparison",
    "Plan",
    "RateModel",
    "RateSummary",
    "best_step_size",
    "compare_period",
    "expected_bits",
    "federation_gap",
    "fedogd_guarantee",
    "fedomd_guarantee",
    "fitted_rates",
    "gaussian_rates",
    "laplace_rates",
    "message_bits",
    "ofedavg_guarantee",
    "ofedavg_regret_bound",
    "ofedavg_step_limit",
    "ofediq_guarantee",
    "ofediq_regret_bound",
    "ofediq_step_limit",
    "plan",
    "quantizer_variance",
    "rate_summary",
    "regret_bound",
    "regret_bound_curve",
    "regret_constant",
]
