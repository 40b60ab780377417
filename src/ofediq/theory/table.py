"""Table 1: what each method guarantees and what it sends, and why periodic transmission does not pay.

A method is (period L, rate p, quantiser or none):

    FedOGD      (1, 1, none)        OFedAvg(p)      (1, p, none)
    FedOMD(L)   (L, 1, none)        OFedIQ          (L, p, (s, b))
"""

from __future__ import annotations

from typing import NamedTuple

from ofediq.errors import require_fraction, require_integer, require_positive
from ofediq.theory.bounds import regret_constant
from ofediq.theory.quantizer import FLOAT_BITS, MAX_DIM, VarianceBound, message_bits, quantizer_variance
from ofediq.theory.rates import MAX_COUNT, Rate, rate_summary


class Guarantee(NamedTuple):
    """One row of Table 1.

    Attributes:
        regret_constant: alpha in regret <= sqrt(alpha ||w*||^2 K^2 sigma_diff^2 T).
        bits_per_step: expected uplink bits of all clients together, per time step.
    """

    regret_constant: float
    bits_per_step: float


def expected_bits(rate: Rate, *, clients: int, bits: float, period: int = 1) -> float:
    """Expected uplink bits per time step when one message takes `bits`.

        (p_sum / L) bits

    >>> expected_bits(0.5, clients=10, bits=32.0)
    160.0
    """
    bits, period = require_positive("bits", bits), require_integer("period", period, 1, MAX_COUNT)
    return rate_summary(rate, clients).total * bits / period


def fedogd_guarantee(*, dim: int, clients: int) -> Guarantee:
    """FedOGD: everyone sends everything.

        alpha = 2,   32 K D bits

    >>> fedogd_guarantee(dim=100, clients=10)
    Guarantee(regret_constant=2.0, bits_per_step=32000.0)
    """
    return ofedavg_guarantee(1.0, dim=dim, clients=clients)


def ofedavg_guarantee(rate: Rate, *, dim: int, clients: int) -> Guarantee:
    """OFedAvg: client subsampling alone.

        alpha = 2 / p_min,   32 p_sum D bits

    >>> ofedavg_guarantee(0.5, dim=100, clients=10)
    Guarantee(regret_constant=4.0, bits_per_step=16000.0)
    """
    return Guarantee(
        regret_constant(rate, clients=clients), expected_bits(rate, clients=clients, bits=_raw_bits(dim))
    )


def fedomd_guarantee(period: int, *, dim: int, clients: int) -> Guarantee:
    """FedOMD with the Euclidean distance: periodic transmission alone.

        alpha = 2 L (1 + 3 (L - 1) / 8),   32 K D / L bits

    Not printed in Table 1: it is `regret_constant` at rate 1 without a quantiser.

    >>> fedomd_guarantee(9, dim=100, clients=10).regret_constant
    72.0
    """
    return Guarantee(
        regret_constant(1.0, clients=clients, period=period),
        expected_bits(1.0, clients=clients, bits=_raw_bits(dim), period=period),
    )


def ofediq_guarantee(
    rate: Rate,
    *,
    levels: int,
    blocks: int,
    dim: int,
    clients: int,
    period: int = 1,
    variance: VarianceBound = "min",
    factor: int = 2,
) -> Guarantee:
    """OFedIQ(L, p, s, b): subsampling, periodic transmission and quantisation together.

        alpha = factor L / p (3 p^2 (L - 1) / 8 + 1 + sigma_q^2 (p + 1/K)),
        (p / L) K (32 b + D (1 + log2(s + 1))) bits

    Table 1 as printed is `variance="sqrt", factor=4`; the paper's example, 4.536, is `variance="sqrt", factor=2`.

    >>> row = ofediq_guarantee(0.5151, levels=17, blocks=1134, dim=34826, clients=1000, variance="sqrt")
    >>> round(row.regret_constant, 3)
    4.536
    """
    noise = quantizer_variance(levels, blocks, dim, variance)
    return Guarantee(
        regret_constant(rate, clients=clients, quantizer_variance=noise, period=period, factor=factor),
        expected_bits(rate, clients=clients, bits=message_bits(levels, blocks, dim), period=period),
    )


class PeriodComparison(NamedTuple):
    """Two ways to send as seldom: in a period, or at random.

    Attributes:
        periodic: OFedIQ(L, p, s, b).
        every_step: OFedIQ(1, p/L, s, b). Its bits are the same, its constant is never larger.
    """

    periodic: Guarantee
    every_step: Guarantee


def compare_period(
    rate: float,
    period: int,
    *,
    levels: int,
    blocks: int,
    dim: int,
    clients: int = 1000,
    variance: VarianceBound = "min",
) -> PeriodComparison:
    """Compare sending every L steps with rate p and sending at any step with rate p / L (section 'Needlessness').

        alpha(L, p) - alpha(1, p/L) = 2 L / p (L - 1) (3 p^2 / 8 + sigma_q^2 p / L) >= 0

    Args:
        rate: p, the same for all clients.
        period: L.
        levels: s.
        blocks: b.
        dim: D.
        clients: K.
        variance: which bound on sigma_q^2 to use.

    >>> pair = compare_period(0.86, 10, levels=3, blocks=777, dim=34826)
    >>> pair.every_step.regret_constant < pair.periodic.regret_constant
    True
    """
    rate = require_fraction("rate", rate)
    period = require_integer("period", period, 1, MAX_COUNT)

    def row(rate: float, period: int) -> Guarantee:
        return ofediq_guarantee(
            rate, levels=levels, blocks=blocks, dim=dim, clients=clients, period=period, variance=variance
        )

    return PeriodComparison(row(rate, period), row(rate / period, 1))


def _raw_bits(dim: int) -> float:
    """Bits of one unquantised update."""
    return float(FLOAT_BITS * require_integer("dim", dim, 1, MAX_DIM))
