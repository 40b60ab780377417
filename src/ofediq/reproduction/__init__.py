"""The paper again: every table and figure, with the authors' numbers beside ours.

recipes     methods with their parameters, as the paper has them
panels      the paper's panels as data: parameters, horizons, the authors' values; the experiments behind them
estimate    how long these will take
convex      the runs whose regret is held against the theorems
claims      the paper's claims, each true or false
table1      Table 1 with numbers
results     everything in numbers
figures     one picture per panel
page        the HTML report
session     all of it, run by `ofediq.experiment`
"""

from ofediq.reproduction.claims import Claim, check_claims
from ofediq.reproduction.panels import PANELS, PRESETS, Panel, Problem, Scale, Series
from ofediq.reproduction.recipes import Recipe
from ofediq.reproduction.session import TARGETS, reproduce
from ofediq.reproduction.table1 import guarantees

__all__ = [
    "PANELS",
    "PRESETS",
    "TARGETS",
    "Claim",
    "Panel",
    "Problem",
    "Recipe",
    "Scale",
    "Series",
    "check_claims",
    "guarantees",
    "reproduce",
]
