"""From results to what people read: numbers, tables, pictures, files.

comparison   several methods on the same streams, with their naive references and regrets
summary      the comparison in a few numbers, ready for JSON
metrics      one row per method, seed and step, as Parquet
tables       rows for a terminal
words        values as people read them
figures      pictures, one style for all; needs the extra `report` (matplotlib)

Names are looked up when they are first used: words about a live federation need no simulator.
"""

from typing import TYPE_CHECKING

from ofediq.lazy import attach

if TYPE_CHECKING:
    from ofediq.report.comparison import Comparison as Comparison
    from ofediq.report.figures.comparison import draw as draw
    from ofediq.report.figures.comparison import draw_comparison as draw_comparison
    from ofediq.report.figures.comparison import draw_regrets as draw_regrets
    from ofediq.report.figures.frontier import draw_frontier as draw_frontier
    from ofediq.report.figures.frontier import draw_sweep as draw_sweep
    from ofediq.report.metrics import metrics_table as metrics_table
    from ofediq.report.metrics import write_metrics as write_metrics
    from ofediq.report.summary import summarize as summarize
    from ofediq.report.tables import TextTable as TextTable
    from ofediq.report.tables import method_rows as method_rows
    from ofediq.report.tables import missing_bounds as missing_bounds
    from ofediq.report.tables import regret_rows as regret_rows
    from ofediq.report.words import NAIVE_NAMES as NAIVE_NAMES
    from ofediq.report.words import bits_text as bits_text
    from ofediq.report.words import skill_text as skill_text
    from ofediq.report.words import value_text as value_text
else:  # a type checker reads the imports above
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "comparison": "Comparison",
            "figures.comparison": "draw draw_comparison draw_regrets",
            "figures.frontier": "draw_frontier draw_sweep",
            "metrics": "metrics_table write_metrics",
            "summary": "summarize",
            "tables": "TextTable method_rows missing_bounds regret_rows",
            "words": "NAIVE_NAMES bits_text skill_text value_text",
        },
        "report",
    )
