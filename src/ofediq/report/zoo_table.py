"""The zoo as a table: one row per method, the best first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ofediq.report.words import bits_text, markdown_table, value_text

COLUMNS = ("method", "value", "loss", "step size", "real bits", "down", "memory", "ms/step")


def zoo_rows(part: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows of one stream, naive answers below; a star marks methods on random features.

    >>> row = {"name": "FedOGD", "model": "mlp", "value": 0.5, "std": None, "loss": 1.0, "step_size": 0.1}
    >>> row |= {"share": 1.0, "downlink": 64.0, "memory": 0, "milliseconds": 1.25}
    >>> found = zoo_rows({"metric": "accuracy", "rows": {"fedogd": row}, "naive": {"last value": 0.25}})
    >>> found[0][:5], found[1][:2]
    (('FedOGD', '50.0%', '1.0000', '0.1', '100%'), ('last value', '25.0%'))
    """
    metric, better = part["metric"], -1 if part["metric"] == "accuracy" else 1
    known = [row for row in part["rows"].values() if row["value"] is not None]
    lost = [row for row in part["rows"].values() if row["value"] is None and "refused" not in row]
    rows = [_cells(row, metric) for row in [*sorted(known, key=lambda row: better * row["value"]), *lost]]
    blank = ("",) * (len(COLUMNS) - 2)
    return rows + [(name, value_text(value, metric), *blank) for name, value in part["naive"].items()]


def zoo_markdown(part: Mapping[str, Any]) -> str:
    """The same as a Markdown table, with the sentences of `remarks` below.

    >>> print(zoo_markdown({"metric": "mse", "rows": {}, "naive": {"last value": 0.25}}))
    | method | mse | loss | step size | real bits | down | memory, bytes | ms/step |
    |---|---|---|---|---|---|---|---|
    | last value | 0.25 |  |  |  |  |  |  |
    """
    titles = [part["metric"] if one == "value" else one.replace("memory", "memory, bytes") for one in COLUMNS]
    said = remarks(part)
    return "\n".join([markdown_table(titles, zoo_rows(part)), *(["", *said] if said else [])])


def remarks(part: Mapping[str, Any]) -> list[str]:
    """Which methods have no row, or sent nothing, and why: a sentence each.

    >>> remarks({"rows": {"fedomd": {"name": "fedomd", "value": None, "refused": "`period` must be small"}}})
    ['fedomd has no row: `period` must be small.']
    """
    rows = list(part["rows"].values())
    said = [f"{row['name']} has no row: {row['refused']}." for row in rows if "refused" in row]
    mute = [row["name"] for row in rows if row.get("federated") and not row["uplink"]]
    if mute:
        said.append(f"The budget paid for no message of {', '.join(mute)} in this run.")
    return said


def _cells(row: Mapping[str, Any], metric: str) -> tuple[str, ...]:
    value = "diverged" if row["value"] is None else value_text(row["value"], metric)
    if row["std"] is not None:
        value += f" ± {value_text(row['std'], metric)}"
    return (
        row["name"] + " *" * (row["model"] == "random_features"),
        value,
        "" if row["loss"] is None else f"{row['loss']:.4f}" if row["loss"] >= 0.1 else f"{row['loss']:.5f}",
        f"{row['step_size']:g}",
        f"{100 * row['share']:.3g}%",
        bits_text(row["downlink"]),
        f"{row['memory']:,}",
        f"{row['milliseconds']:.1f}",
    )
