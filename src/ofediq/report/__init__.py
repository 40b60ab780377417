"""From results to what people read: numbers, tables, pictures, files.

comparison   several methods on the same streams, with their naive references and regrets
summary      the comparison in a few numbers, ready for JSON
metrics      one row per method, seed and step, as Parquet
tables       rows for a terminal
words        values as people read them
figures      pictures, one style for all; needs the extra `report` (matplotlib)
"""

from ofediq.report.comparison import Comparison
from ofediq.report.figures.comparison import draw, draw_comparison, draw_regrets
from ofediq.report.figures.frontier import draw_frontier, draw_sweep
from ofediq.report.metrics import metrics_table, write_metrics
from ofediq.report.summary import summarize
from ofediq.report.tables import TextTable, method_rows, missing_bounds, regret_rows
from ofediq.report.words import NAIVE_NAMES, bits_text, skill_text, value_text

__all__ = [
    "NAIVE_NAMES",
    "Comparison",
    "TextTable",
    "bits_text",
    "draw",
    "draw_comparison",
    "draw_frontier",
    "draw_regrets",
    "draw_sweep",
    "method_rows",
    "metrics_table",
    "missing_bounds",
    "regret_rows",
    "skill_text",
    "summarize",
    "value_text",
    "write_metrics",
]
