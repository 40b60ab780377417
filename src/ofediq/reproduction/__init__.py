"""The paper again: every table and figure, with the authors' numbers beside ours.

recipes     methods with their parameters, as the paper has them
panels      the paper's panels as data: parameters, horizons, the authors' values; the experiments behind them
convex      the runs whose regret is held against the theorems
claims      the paper's claims, each true or false
table1      Table 1 with numbers
results     everything in numbers
figures     one picture per panel
page        the HTML report, and its tables as Markdown
session     all of it, run by `ofediq.experiment`, with how long that will take
"""

from ofediq.lazy import public
from ofediq.reproduction.claims import Claim as Claim
from ofediq.reproduction.claims import check_claims as check_claims
from ofediq.reproduction.panels import PANELS as PANELS
from ofediq.reproduction.panels import PRESETS as PRESETS
from ofediq.reproduction.panels import Panel as Panel
from ofediq.reproduction.panels import Problem as Problem
from ofediq.reproduction.panels import Scale as Scale
from ofediq.reproduction.recipes import Recipe as Recipe
from ofediq.reproduction.session import TARGETS as TARGETS
from ofediq.reproduction.session import reproduce as reproduce
from ofediq.reproduction.table1 import guarantees as guarantees

__all__ = public(globals())
