"""From results to what people read: numbers, tables, pictures, files.

comparison   several methods on the same streams, with their naive references and regrets
summary      the comparison in a few numbers, ready for JSON
metrics      one row per method, seed and step, as Parquet
tables       rows for a terminal
figures      pictures of a comparison
"""

from ofediq.report.comparison import Comparison
from ofediq.report.figures import draw_comparison, draw_regrets
from ofediq.report.metrics import metrics_table, write_metrics
from ofediq.report.summary import summarize
from ofediq.report.tables import Rows, bits_text, method_rows, missing_bounds, regret_rows

__all__ = [
    "Comparison",
    "Rows",
    "bits_text",
    "draw_comparison",
    "draw_regrets",
    "method_rows",
    "metrics_table",
    "missing_bounds",
    "regret_rows",
    "summarize",
    "write_metrics",
]
