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

from ofediq.lazy import public
from ofediq.theory.bounds import best_step_size as best_step_size
from ofediq.theory.bounds import federation_gap as federation_gap
from ofediq.theory.bounds import ofedavg_regret_bound as ofedavg_regret_bound
from ofediq.theory.bounds import ofedavg_step_limit as ofedavg_step_limit
from ofediq.theory.bounds import ofediq_regret_bound as ofediq_regret_bound
from ofediq.theory.bounds import ofediq_step_limit as ofediq_step_limit
from ofediq.theory.bounds import regret_bound as regret_bound
from ofediq.theory.bounds import regret_bound_curve as regret_bound_curve
from ofediq.theory.bounds import regret_constant as regret_constant
from ofediq.theory.coding import Cost as Cost
from ofediq.theory.coding import RateModel as RateModel
from ofediq.theory.coding import fitted_rates as fitted_rates
from ofediq.theory.coding import gaussian_rates as gaussian_rates
from ofediq.theory.coding import laplace_rates as laplace_rates
from ofediq.theory.planner import Plan as Plan
from ofediq.theory.planner import plan as plan
from ofediq.theory.quantizer import message_bits as message_bits
from ofediq.theory.quantizer import quantizer_variance as quantizer_variance
from ofediq.theory.rates import RateSummary as RateSummary
from ofediq.theory.rates import rate_summary as rate_summary
from ofediq.theory.table import Guarantee as Guarantee
from ofediq.theory.table import PeriodComparison as PeriodComparison
from ofediq.theory.table import compare_period as compare_period
from ofediq.theory.table import expected_bits as expected_bits
from ofediq.theory.table import fedogd_guarantee as fedogd_guarantee
from ofediq.theory.table import fedomd_guarantee as fedomd_guarantee
from ofediq.theory.table import ofedavg_guarantee as ofedavg_guarantee
from ofediq.theory.table import ofediq_guarantee as ofediq_guarantee

__all__ = public(globals())
