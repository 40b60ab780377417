"""Pictures: one style for every figure of the project. Needs the extra `report` (matplotlib).

style     one colour, line and marker per method, everywhere
canvas    figures and axes, without pyplot and its global state
lines     a curve per method: mean and band over seeds
labels    direct labels at the ends of lines, never on top of each other
compare   accuracy or MSE over time and over bits
regret    measured regret beside its bound
frontier  accuracy or MSE against the bits really spent

The functions take axes and return what they drew, so that other figures can be built from them.
"""

from ofediq.drawing.canvas import new_figure, save, style_axes
from ofediq.drawing.compare import NAIVE_NAMES, Run, bits_panel, compare, longest, time_panel, value_text
from ofediq.drawing.frontier import draw_frontier
from ofediq.drawing.labels import End, label_ends, spread
from ofediq.drawing.lines import draw_line, draw_reference
from ofediq.drawing.regret import Measured, regret_panel, regrets
from ofediq.drawing.style import Look, looks

__all__ = [
    "NAIVE_NAMES",
    "End",
    "Look",
    "Measured",
    "Run",
    "bits_panel",
    "compare",
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
    "value_text",
]
