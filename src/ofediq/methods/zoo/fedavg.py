"""FedAvg and its relatives: several local steps, and a mean over those who sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import require_choice
from ofediq.methods.client import ClientRule, Down, Sample, Window, local_ogd
from ofediq.methods.composition import Method
from ofediq.methods.compress import quantize
from ofediq.methods.participation import bernoulli, fixed_size
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import FromTotals, Totals, descend
from ofediq.methods.terms import Terms
from ofediq.settings import NonNegative, Positive


@piece
@dataclass(frozen=True)
class Proximal(ClientRule):
    """y <- y - eta (g(y) + mu (y - w)); sends (w - y) / eta, the sum of what it moved by."""

    step_size: Positive
    pull: NonNegative = 0.0
    divides = False

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """One step, pulled back towards the common model."""
        moved = sample.gradient(window.own) + np.float32(self.pull) * (window.own - down.model)
        own = window.own - np.float32(self.step_size) * moved
        return window._replace(own=own, gradients=window.gradients + moved)


@piece
@dataclass(frozen=True)
class SenderMean(FromTotals):
    """w <- w - eta times the mean of the updates over those who sent."""

    step_size: Positive
    name = "sender_mean"

    def moved(self, params: Array, totals: Totals, state: Any) -> tuple[Array, Any]:
        """Divided by the number of senders, whoever they are."""
        return params - np.float32(self.step_size) * totals.vectors["update"] / totals.divisor, state


def spend_on_periods(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """A period of rate / budget, rounded up; where the period is set by hand, the rate spends what is left."""
    if "period" in given:
        return {"rate": min(1.0, terms.budget * given["period"])}
    return {"period": math.ceil(float(given.get("rate", 1.0)) / terms.budget - 1e-9)}


@named("fedsgd", source="B. McMahan et al.: Communication-Efficient Learning, 2017", theorem="1")
def fedsgd(step_size: float = 0.01) -> Method:
    """FedSGD: every client sends its gradient, the server moves by their mean. Online, with one sample, it is FedOGD.

    w <- w - eta / K sum of the gradients. Costs 32 K D bits per step.
    """
    return method(local_ogd(step_size), descend(step_size), name="FedSGD")


@named("fedavg", source="B. McMahan et al.: Communication-Efficient Learning, 2017", spend=spend_on_periods)
def fedavg(
    period: int = 8, rate: float = 1.0, step_size: float = 0.01, divide: Literal["senders", "all"] = "senders"
) -> Method:
    """FedAvg: L local steps, then the mean of the local models of those who are drawn.

    y = w;  L times y <- y - eta g(y);  w <- mean of y over the senders. `divide="senders"` is the original: stable,
    and biased where the number of senders varies; `divide="all"` divides by p K instead, which is unbiased and the
    paper's way. If nobody is drawn the model stays. Costs 32 p K D / L bits per step.

    Args:
        period: L.
        rate: p, with which each client is drawn at the end of a window.
        divide: by the number of `senders`, or of `all` clients, times p.
    """
    require_choice("divide", divide, ("senders", "all"))
    if divide == "all":
        return method(
            local_ogd(step_size), descend(step_size), bernoulli(rate), period=period, name="FedAvg (all)"
        )
    return method(Proximal(step_size), SenderMean(step_size), bernoulli(rate), period=period, name="FedAvg")


@named(
    "fedprox",
    source="T. Li et al.: Federated Optimization in Heterogeneous Networks, 2020",
    spend=spend_on_periods,
)
def fedprox(period: int = 8, rate: float = 1.0, step_size: float = 0.01, pull: float = 0.01) -> Method:
    """FedProx: FedAvg with local steps that are pulled back towards the common model.

    y = w;  L times y <- y - eta (g(y) + mu (y - w));  w <- mean of y over the senders. With L = 1 it is FedOGD for
    every mu. The originals try mu from 0.001 to 1. Costs 32 p K D / L bits per step.

    Args:
        period: L.
        rate: p, with which each client is drawn at the end of a window.
        pull: mu.
    """
    return method(
        Proximal(step_size, pull), SenderMean(step_size), bernoulli(rate), period=period, name="FedProx"
    )


def _spend_quantised(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """As `_spend`, with messages of the quantiser's size."""
    each = quantize(given.get("levels", 1), 1).formula_bits(terms.dim) / (32.0 * terms.dim)
    if "period" in given:
        return {"rate": min(1.0, terms.budget * given["period"] / each)}
    return {"period": max(1, math.ceil(float(given.get("rate", 1.0)) * each / terms.budget - 1e-9))}


@named("fedpaq", source="A. Reisizadeh et al.: FedPAQ, 2020", spend=_spend_quantised)
def fedpaq(period: int = 8, rate: float = 1.0, levels: int = 1, step_size: float = 0.01) -> Method:
    """FedPAQ: periodic averaging of quantised updates of clients that are drawn without replacement.

    y = w;  L times y <- y - eta g(y);  sends Q_s(y - w) with one norm;  w <- w + mean over the r = floor(p K) drawn.
    It is OFedIQ with one block and fixed-size sampling. Costs (p / L) K (32 + D (1 + log2(s + 1))) bits per step; the
    originals use s = 1, 5, 10 and L from 1 to 50.

    Args:
        period: L.
        rate: p.
        levels: s.
    """
    return method(
        Proximal(step_size),
        SenderMean(step_size),
        fixed_size(rate),
        quantize(levels, 1),
        period=period,
        name="FedPAQ",
    )
