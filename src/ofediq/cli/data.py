"""`ofediq data`: the datasets that come by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ofediq.cli.answers import JsonOption, answer

if TYPE_CHECKING:
    from ofediq.streams import Status


def data(as_json: JsonOption = False) -> None:
    """List the datasets: where each was found, its size and licence.

    Files are looked for in $OFEDIQ_DATA, then in the cache; `ofediq run`
    downloads what is "not here". No data file is part of ofediq.

    Examples:
      ofediq data
      ofediq data --json
    """
    from ofediq.streams import status

    rows = status()
    answer({"datasets": [_plain(row) for row in rows]}, as_json, lambda _: _show(rows))


def _plain(row: Status) -> dict[str, Any]:
    about = row.about
    return {
        "name": row.name,
        "task": row.task,
        "samples": about.samples,
        "features": about.features,
        "place": row.place,
        "bytes": row.size,
        "files": list(row.files),
        "licence": about.licence,
        "citation": about.citation,
        "url": about.url,
    }


def _show(rows: tuple[Status, ...]) -> None:
    from ofediq.cli import render

    columns = ("dataset", "task", "samples", "features", "found in", "size")
    cells = [
        (
            row.name,
            row.task,
            _count(row.about.samples),
            _count(row.about.features),
            row.place,
            f"{row.size / 1e6:.1f} MB" if row.size else "",
        )
        for row in rows
    ]
    licences = {row.name: row.about.licence for row in rows}
    render.show(render.table(columns, cells), render.heading("Licences"), render.facts(licences))


def _count(number: int | None) -> str:
    return "any" if number is None else f"{number:,}"
