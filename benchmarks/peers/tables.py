"""Results as Markdown tables, and their place in the README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
BEGIN, END = "<!-- results: written by `python -m benchmarks peers --table` -->", "<!-- end of results -->"
NAMES = {
    "torch-loop": "PyTorch loop",
    "torch-vmap": "torch.func",
    "torch-tuned": "torch.func, tuned",
    "fedjax": "FedJAX",
    "pfl": "pfl-research",
    "flower": "Flower",
}
SOURCES = ("Gaussian", "lognormal", "MNIST gradients")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column to the left, the others to the right.

    >>> print(markdown(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    rule = "|---|" + "--:|" * (len(header) - 1)
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], rule, *lines[1:]])


def number(value: float) -> str:
    """Three significant digits, thousands apart.

    >>> number(1234.5), number(12.345), number(0.012345)
    ('1,234', '12.3', '0.0123')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def with_limits(rows: Sequence[Row]) -> list[Row]:
    """Rows with the milliseconds of both limits, at the best speeds that the machine showed in all measurements."""
    best = {
        unit: max((row[unit] for row in rows if unit in row), default=1.0) for unit in ("gflops", "gbytes")
    }
    return [
        row | {"product_ms": row["mflop"] / best["gflops"], "pass_ms": row["mbyte"] / best["gbytes"]}
        if "ms" in row
        else row
        for row in rows
    ]


def ratios(rows: Sequence[Row]) -> str:
    """How many times longer than ofediq each peer takes for a step."""
    programs = [name for name in NAMES if any(row["program"] == name for row in rows)]
    lines = []
    for work in dict.fromkeys(row["workload"] for row in rows):
        found = {row["program"]: row for row in rows if row["workload"] == work}
        ours = found.get("ofediq", {})
        limit = f"{ours['ms'] / ours['product_ms']:.2f}" if "ms" in ours else ""
        cells = [_ratio(found.get(name)) for name in programs]
        lines.append([work, number(ours["ms"]) if "ms" in ours else "", limit, *cells])
    return markdown(["", "ofediq ms", "x limit", *(NAMES[name] for name in programs)], lines)


def details(rows: Sequence[Row]) -> str:
    """Everything that was measured, row by row."""
    header = [
        "",
        "program",
        "ms",
        "x ofediq",
        "x product",
        "x pass",
        "steps",
        "score",
        "ofediq's",
        "model apart",
    ]
    lines = []
    for row in rows:
        first = [row["workload"], NAMES.get(row["program"], row["program"])]
        if "problem" in row:
            lines.append([*first, row["problem"], *[""] * 10])
            continue
        speeds = [row["ms"], row["ratio"], row["ms"] / row["product_ms"], row["ms"] / row["pass_ms"]]
        apart = "" if row["program"] == "ofediq" else f"{row['distance']:.1g}"
        scores = [_score(row, row["error"]), _score(row, row["ofediq_error"]), apart]
        ends = [number(row["memory_mib"]), f"{row['start_s']:.1f}", f"{100 * row['others']:.0f} %"]
        lines.append([*first, *map(number, speeds), str(row["steps"]), *scores, *ends])
    return markdown([*header, "MiB", "first step s", "others"], lines)


def growth(rows: Sequence[Row]) -> str:
    """ofediq from few to many clients."""
    lines = [
        [
            row["workload"],
            number(row["ms"]),
            number(1e3 * row["ms"] / row["clients"]),
            f"{row['ms'] / row['product_ms']:.2f}",
            f"{row['ms'] / row['pass_ms']:.2f}",
            number(row["memory_mib"]),
            f"{row['start_s']:.1f}",
            f"{100 * row['others']:.0f} %",
        ]
        for row in rows
        if "ms" in row
    ]
    return markdown(
        ["", "ms per step", "us per client", "x product", "x pass", "MiB", "first step s", "others"], lines
    )


def codecs(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """Error and bits on each source, and speed on the first."""
    sources = [name for name in SOURCES if any(name in figures for figures in found.values())]
    header = [
        "",
        *(f"{name}: {what}" for name in sources for what in ("error", "bits")),
        "encode MB/s",
        "decode MB/s",
    ]
    lines = []
    for name, figures in found.items():
        cells = []
        for source in sources:
            cells += [_figure(figures.get(source, {}), "error"), _figure(figures.get(source, {}), "bits")]
        speeds = [_figure(figures.get(sources[0], {}), way) for way in ("encode", "decode")]
        lines.append([name, *cells, *speeds])
    return markdown(header, lines)


def sizes(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """Encoding and decoding speed of vectors of each size."""
    dims = list(dict.fromkeys(key for figures in found.values() for key in figures if key.startswith("D = ")))
    lines = [
        [name, *(f"{figures[dim]['encode']:.0f} / {figures[dim]['decode']:.0f}" for dim in dims)]
        for name, figures in found.items()
        if dims and all("encode" in figures.get(dim, {}) for dim in dims)
    ]
    return markdown(["encode / decode, MB/s", *dims], lines)


def machine(found: dict[str, Any]) -> str:
    """The machine and the versions, in two lines."""
    versions = "; ".join(
        f"{name}: " + ", ".join(f"{package} {version}" for package, version in packages.items())
        for name, packages in found["versions"].items()
    )
    rows = [row for part in ("simulation", "growth") for row in found.get(part, []) if "gflops" in row]
    speeds = (
        [f"{max(row[unit] for row in rows):.0f}" for unit in ("gflops", "gbytes")] if rows else ["?", "?"]
    )
    return (
        f"Measured {found['date']} on {found['machine']}; at best {speeds[0]} GFLOP/s in a matrix product, "
        f"{speeds[1]} GB/s copying memory.\n\nVersions: {versions}."
    )


def insert(text: str, results: str) -> str:
    """`text` with `results` between its two marks.

    >>> "old" in insert(f"before {BEGIN} old {END} after", "new")
    False
    """
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{results}\n\n{END}{after}"


def write(path: Path, results: str) -> None:
    """Put `results` into the file at `path`."""
    path.write_text(insert(path.read_text(), results))


def _ratio(row: Row | None) -> str:
    if row is None:
        return "-"
    return "no" if "problem" in row else f"{number(row['ratio'])}x"


def _score(row: Row, error: float) -> str:
    return f"{error:.4f}" if row["task"] == "regression" else f"{100 * (1 - error):.1f} %"


def _figure(figures: dict[str, float], name: str) -> str:
    if name not in figures:
        return "-"
    value = figures[name]
    return f"{value:.0f}" if name in ("encode", "decode") else f"{value:.3g}"
