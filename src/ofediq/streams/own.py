"""A stranger's file: what can be assumed about it, and what is then said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ofediq.errors import require_choice
from ofediq.streams.columns import is_feature
from ofediq.streams.dataset import Dataset
from ofediq.streams.dates import is_clock, is_time_of_day, is_whole_days
from ofediq.streams.files import load_file
from ofediq.streams.strays import Stray, without_strays
from ofediq.streams.tables import read_table
from ofediq.streams.tidy import Unread

_PARTS = ("year", "month", "day", "hour", "minute", "second")
_FEWEST_ROWS, _USUAL_CLIENTS, _MOST_STEPS = 100, 10, 50_000


class Own(NamedTuple):
    """A file as a dataset.

    Attributes:
        dataset: its samples in time order.
        time_column: what they are sorted by; None: the order of the file.
        left_out: columns that are neither numbers nor categories.
        unread: cells that count as missing because they are no numbers in a column of numbers, by column.
        dropped: rows without target, client or time.
        strays: numbers that stand for none, such as -999, and count as missing, by column.
    """

    dataset: Dataset
    time_column: str | None
    left_out: tuple[str, ...]
    unread: Mapping[str, Unread]
    dropped: int
    strays: Mapping[str, Stray]


def load_own(
    path: str | Path,
    target: str,
    *,
    client_column: str | None = None,
    time_column: str | None = None,
    features: Sequence[str] | None = None,
    strays: Literal["drop", "keep"] = "drop",
    **options: Any,
) -> Own:
    r"""`load_file` for a file that nobody has prepared.

    The time is `time_column`; else a column of dates, with one of times of day where it has none; else columns
    called year, month and day; else the order of the file. Columns that cannot be features are left out, and
    there need not be any. Features may be missing; rows without a target are dropped. Numbers that stand for none
    are missing (`ofediq.streams.strays`), unless `strays` is "keep".

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "plant.csv"
    ...     _ = path.write_text("when,heat,load\n2024-01-02,20,\n2024-01-01,,0.7\n2024-01-03,30,0.9\n")
    ...     own = load_own(path, target="load")
    >>> own.time_column, own.dataset.x.ravel().tolist(), own.dataset.target_range
    ('when', [nan, 0.0], (0.7, 0.9))
    """
    table = read_table(path)
    frame, taken = table.frame, {target, client_column}
    if time_column is None:
        time_column = _clock(frame, [name for name in frame.columns if name not in taken])
    taken |= {time_column} if time_column in frame.columns else set((time_column or "").split(","))
    left_out: tuple[str, ...] = ()
    if features is None and not table.blocks and target in frame.columns:
        others = [name for name in frame.columns if name not in taken]
        features = [name for name in others if is_feature(frame[name])]
        left_out = tuple(name for name in others if name not in features)
    options.setdefault("missing", "keep")
    away: Mapping[str, Stray] = {}
    if require_choice("strays", strays, ("drop", "keep")) == "drop":
        named = [target, *(features or ())]
        cleaned, away = without_strays(frame, named)
        table = replace(table, frame=cleaned)
    dataset = load_file(
        table, target, client_column=client_column, time_column=time_column, features=features, **options
    )
    used = {target, client_column, time_column, *(features or ())}
    unread = {name: cells for name, cells in table.unread.items() if name in used}
    return Own(dataset, time_column, left_out, unread, len(table) - len(dataset), away)


def usual_clients(samples: int) -> int:
    """How many stretches a file without clients is cut into.

    Ten, so that there is something to share and every client has a past of its own; fewer if that left less than 100
    rows each, more so that no client has more than 50,000.

    >>> [usual_clients(samples) for samples in (50, 450, 45_000, 10**6)]
    [1, 4, 10, 20]
    """
    fewest = min(_USUAL_CLIENTS, max(1, samples // _FEWEST_ROWS))
    return max(fewest, -(-samples // _MOST_STEPS))


def _clock(frame: Any, names: Sequence[str]) -> str | None:
    dates = [name for name in names if is_clock(frame[name])]
    if dates:
        times = [name for name in names if name not in dates and is_time_of_day(frame[name])]
        apart = (
            times and is_whole_days(frame[dates[0]]) and not any("," in name for name in (dates[0], times[0]))
        )
        return f"{dates[0]},{times[0]}" if apart else dates[0]
    lower = {str(name).lower(): name for name in names}
    parts = [lower[part] for part in _PARTS if part in lower]
    return ",".join(parts) if {"year", "month", "day"} <= lower.keys() else None
