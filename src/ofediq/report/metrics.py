"""Everything that was recorded, as one table: a row per method, seed and step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ofediq.errors import extra, refusing
from ofediq.report.comparison import Comparison
from ofediq.simulation import Result
from ofediq.storage import replaced


def metrics_table(comparison: Comparison) -> Any:
    """A pyarrow table with a row per method key, seed and step; interrupted runs have fewer rows.

    Columns: method, seed, step, accuracy or mse (up to the step), and of the step itself, summed over the clients:
    loss, error, present, senders, bits_formula, bits_wire, bits_downlink, bytes_total; naive, that of the best naive
    forecast (up to the step), where there is one; where regrets were computed also regret and regret_bound (up to
    the step).
    """
    arrow = extra("pyarrow", "sim")
    parts = [
        arrow.table(_columns(comparison, key, result))
        for key, results in comparison.runs.items()
        for result in results
    ]
    return arrow.concat_tables(parts)


def write_metrics(comparison: Comparison, path: str | Path) -> None:
    """Write `metrics_table` as a Parquet file."""
    with refusing("path", "writable", path), replaced(Path(path)) as file:
        extra("pyarrow.parquet", "sim").write_table(metrics_table(comparison), file, compression="zstd")


def _columns(comparison: Comparison, key: str, result: Result) -> dict[str, Any]:
    columns = {**result.table(), "method": [key] * result.steps}
    best = comparison.best_naive(result.steps)
    if best is not None:
        columns["naive"] = comparison.naive_curves[best[0]][: result.steps]
    if not comparison.regrets:
        return columns
    missing = np.full(result.steps, np.nan)
    regret = comparison.regrets.get(key, {}).get(result.seed)
    columns["regret"] = missing if regret is None else regret.curve
    columns["regret_bound"] = missing if regret is None or regret.bound is None else regret.bound
    return columns
