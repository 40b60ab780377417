"""Pictures: one style for every figure of the project. Needs the extra `report` (matplotlib).

style     one colour, line and marker per method, everywhere
canvas    figures and axes, without pyplot and its global state
lines     a curve per method: mean and band over seeds
labels    direct labels at the ends of lines, never on top of each other
curves    accuracy or MSE over time and over bits
comparison   the same for the results of an experiment
regret    measured regret: what learning gained, what saved bits cost; and beside its bound
frontier  accuracy or MSE against the bits really spent

The functions take axes and return what they drew, so that other figures can be built from them.
"""

from ofediq.report.figures.canvas import new_figure, save, style_axes
from ofediq.report.figures.curves import Drawn, bits_panel, compare, longest, time_panel
from ofediq.report.figures.frontier import draw_frontier
from ofediq.report.figures.labels import End, label_ends, spread
from ofediq.report.figures.lines import draw_line, draw_reference
from ofediq.report.figures.regret import (
    Measured,
    bound_panel,
    cost_panel,
    regret_panel,
    regrets,
    under_bounds,
)
from ofediq.report.figures.style import Look, looks

__all__ = [
    "Drawn",
    "End",
    "Look",
    "Measured",
    "bits_panel",
    "bound_panel",
    "compare",
    "cost_panel",
    "draw_frontier",
    "draw_line",
    "draw_reference",
    "label_ends",
    "longest",
    "looks",
    "new_figure",
    "regret_panel",
    "regrets",
    "save",
    "spread",
    "style_axes",
    "time_panel",
    "under_bounds",
]
