"""Rows for a terminal, made from a summary."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ofediq.report.words import NAIVE_NAMES, bits_text, bytes_text, skill_text, value_text


class TextTable(NamedTuple):
    """A header and the rows below it."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def method_rows(summary: dict[str, Any]) -> TextTable:
    """Methods and naive references: how well, and for how many bits."""
    metric: str = summary["metric"]
    private = any(one.get("epsilon") is not None for one in summary["methods"].values())
    header = (
        "",
        metric,
        "skill",
        "formula bits",
        "wire bits",
        "CCR",
        "bytes",
        *(["epsilon"] if private else []),
    )
    methods: list[tuple[str, ...]] = [
        (
            one["name"] + (f", {one['steps']:,} steps" if one["interrupted"] else ""),
            _with_spread(one, metric),
            skill_text(one.get("skill")),
            bits_text(one["bits_formula"]),
            bits_text(one["bits_wire"]),
            f"{100 * one['ccr']:.4g}%",
            bytes_text(one["bytes_total"]),
            *([_epsilon(one.get("epsilon"))] if private else []),
        )
        for one in summary["methods"].values()
    ]
    naive = [
        (NAIVE_NAMES.get(name, name), _value(value, metric), *[""] * (len(header) - 2))
        for name, value in summary["naive"].items()
    ]
    return TextTable(header, [*methods, *naive])


def regret_rows(summary: dict[str, Any]) -> TextTable:
    """Mean loss, regret and its bound; no rows if no regret was measured."""
    measured = [one for one in summary["methods"].values() if "regret" in one]
    estimate = any(one["regret_is_estimate"] for one in measured)
    return TextTable(
        ("", "mean loss", "regret (estimate)" if estimate else "regret", "bound"),
        [
            (
                one["name"],
                _number(one["loss"]),
                _number(one["regret"]),
                "none" if one["regret_bound"] is None else _number(one["regret_bound"]),
            )
            for one in measured
        ],
    )


def missing_bounds(summary: dict[str, Any]) -> list[str]:
    """Why the theorems say nothing about a method, a sentence each."""
    reasons: dict[str, list[str]] = {}
    for one in summary["methods"].values():
        if one.get("regret_bound_missing"):
            reasons.setdefault(one["regret_bound_missing"], []).append(one["name"])
    return [f"No bound for {' and '.join(names)}: {reason}." for reason, names in reasons.items()]


def _with_spread(one: dict[str, Any], metric: str) -> str:
    deviation = one[f"{metric}_std"]
    if deviation is None:
        return _value(one[metric], metric)
    spread = f"{100 * deviation:.1f}" if metric == "accuracy" else f"{deviation:.1g}"
    return f"{_value(one[metric], metric)} ± {spread}"


def _value(value: float | None, metric: str) -> str:
    return value_text(math.nan if value is None else value, metric)


def _epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _number(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.4g}"
