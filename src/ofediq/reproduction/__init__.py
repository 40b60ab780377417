"""The paper again: every table and figure, with the authors' numbers beside ours.

panels      the paper's panels as data: parameters, horizons, the authors' values
units       one method on one stream with one seed; panels share them
store       finished units on disk
work        run what is missing
estimate    how long that will take
convex      measured regret beside the theorems
claims      the paper's claims, each true or false
guarantees  Table 1 with numbers
results     everything in numbers
figures     one picture per panel
page        the HTML report
session     all of it
"""

from ofediq.reproduction.claims import Claim, check_claims
from ofediq.reproduction.guarantees import guarantees
from ofediq.reproduction.panels import PANELS, PRESETS, Panel, Scale, Task
from ofediq.reproduction.session import TARGETS, Outcome, reproduce
from ofediq.reproduction.store import Record, Store
from ofediq.reproduction.units import Data, Recipe, Unit

__all__ = [
    "PANELS",
    "PRESETS",
    "TARGETS",
    "Claim",
    "Data",
    "Outcome",
    "Panel",
    "Recipe",
    "Record",
    "Scale",
    "Store",
    "Task",
    "Unit",
    "check_claims",
    "guarantees",
    "reproduce",
]
