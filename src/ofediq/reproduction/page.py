"""report.html: figures, our values beside the authors', a sentence per claim; tables.md: the same to be pasted."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from ofediq.errors import extra
from ofediq.report import NAIVE_NAMES, value_text
from ofediq.report.words import markdown_table
from ofediq.reproduction.table1 import COLUMNS, cells

_HOLDS = {True: "holds", False: "does not hold", None: "not known"}
_NOTES = (
    "FedOMD at 99 % sends nine times in 900 steps: its final value is decided by where the weights start. The "
    "authors warm up theirs for one epoch on a few samples that are not published; ours start from Glorot draws. "
    "Their value is matched in rank, not in number.",
    "Room: the authors drew 2,499 of 8,228 empty-room rows and did not say which. We draw our own.",
    "Air and Energy: fig4c, fig4d and fig4f use the network that the authors' code has, 1-32-32-1 on every feature "
    "alone (per_feature), so that their values can be compared. The panels with _all in their names have one network "
    "that sees all features at once, which is what the text describes; there is no value of the authors beside them.",
    "Energy: with the authors' network every method is worse than a constant, in their runs and in ours.",
    "OFedIQ(1, .086, 7, 1) sends 1.07 % of FedOGD's bits by the paper's formula, not 1 %.",
)
_PAPER_NOTE = (
    "This is the text's algorithm: plain descent with step size 0.01. The authors' figures were made with Adam, so "
    "their values are not a target here; they stand beside ours to show what the server rule does. Where "
    "methods end within each other's spread, their rank says nothing."
)


def render_page(results: Mapping[str, Any], pictures: Mapping[str, Path]) -> str:
    """The report as one HTML page; `pictures` are PNG files by panel name, `regret` among them."""
    template = files("ofediq.reproduction").joinpath("pages", "report.html").read_text(encoding="utf-8")
    page: str = (
        extra("jinja2", "report")
        .Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        .from_string(template)
        .render(
            results=results,
            warnings=_warnings(results),
            values=[(panel_title(*item), item[1], panel_rows(item[1])) for item in results["panels"].items()],
            columns=VALUE_COLUMNS,
            notes=[_PAPER_NOTE] if results["preset"] == "paper" else _NOTES,
            bounds=(COLUMNS, cells(results["table1"])),
            pictures=[
                (
                    _caption(name, results["panels"].get(name)),
                    base64.b64encode(path.read_bytes()).decode("ascii"),
                )
                for name, path in pictures.items()
            ],
        )
    )
    return page


def _warnings(results: Mapping[str, Any]) -> list[str]:
    sentences = []
    if not results["paper_scale"]:
        sentences.append(
            "QUICK RUN: fewer clients, fewer steps. It shows that everything works; it says nothing about the paper, "
            "and nothing is compared with the authors' values."
        )
    unfinished = [name for name, panel in results["panels"].items() if not panel["complete"]]
    if unfinished:
        sentences.append(f"Not all runs are finished: {', '.join(unfinished)} show what there is so far.")
    return sentences


def _caption(name: str, panel: Mapping[str, Any] | None) -> str:
    return f"{panel_title(name, panel)}. {panel['title']}" if panel else "Regret and its bounds"


VALUE_COLUMNS = ("method", "ours", "authors", "difference", "CCR", "seeds")


def panel_rows(panel: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Our values, the authors', the difference: one row per method, naive references below."""
    metric = panel["metric"]
    methods: list[tuple[str, ...]] = [
        (
            one["parameters"],
            spread_text(one["value"], one["std"], metric),
            number_text(one["authors"], metric),
            difference_text(one["difference"], metric),
            f"{100 * one['ccr']:.2f}%",
            str(len(one["seeds"])),
        )
        for one in panel["methods"].values()
    ]
    naive = [
        (NAIVE_NAMES.get(reference, reference), number_text(value, metric), "", "", "", "")
        for reference, value in panel["naive"].items()
    ]
    return [*methods, *naive]


def panel_title(name: str, panel: Mapping[str, Any]) -> str:
    """A panel in one line."""
    return (
        f"{name}: {panel['dataset']}, {panel['metric']}, CCR {panel['ccr']} %, "
        f"K = {panel['clients']:,}, T = {panel['steps']}"
    )


def number_text(value: float | None, metric: str) -> str:
    """A final value with the digits that the authors' have.

    >>> number_text(0.98643, "accuracy"), number_text(0.00257, "mse"), number_text(None, "mse")
    ('.9864', '.00257', '')
    """
    if value is None:
        return ""
    return (f"{value:.4f}" if metric == "accuracy" else f"{value:.5f}").replace("0.", ".", 1)


def spread_text(value: float | None, deviation: float | None, metric: str) -> str:
    """A mean with its standard deviation."""
    if value is None:
        return value_text(float("nan"), metric)
    shown = number_text(value, metric)
    return shown if deviation is None else f"{shown} ± {number_text(deviation, metric)}"


def difference_text(difference: float | None, metric: str) -> str:
    """Points of accuracy, or plain numbers of MSE."""
    if difference is None:
        return ""
    return f"{100 * difference:+.2f} points" if metric == "accuracy" else f"{difference:+.5f}"


def render_tables(results: Mapping[str, Any]) -> str:
    """A table of claims, and one per panel."""
    claims = [(one["statement"], _HOLDS[one["holds"]], _why(one["sentence"])) for one in results["claims"]]
    parts = ["### Claims", markdown_table(("claim", "here", "why"), claims)]
    for name, panel in results["panels"].items():
        parts += [f"### {panel_title(name, panel)}", markdown_table(VALUE_COLUMNS, panel_rows(panel))]
        if panel["same_order"] is not None:
            parts.append(
                f"The methods rank {'as' if panel['same_order'] else 'differently from'} the authors'."
            )
    return "\n\n".join(parts) + "\n"


def _why(sentence: str) -> str:
    """A claim's sentence without the verdict, which has a column of its own.

    >>> _why("Holds here: on MNIST (3 seeds).")
    'on MNIST (3 seeds).'
    """
    verdict, found, rest = sentence.partition(" here: ")
    return rest if found else verdict
