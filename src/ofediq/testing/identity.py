"""Contracts of what a method is: values that can be compared, stored and sent, not objects that change."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from ofediq.methods.composition import pieces_of
from ofediq.testing.case import Case
from ofediq.testing.compare import demand

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def pieces_are_frozen(case: Case) -> str:
    """Every piece is a frozen dataclass that can be hashed: the engine compiles once for each value."""
    for name, piece in pieces_of(case.method).items():
        demand(
            _is_frozen(piece),
            f"`{name}` must be a frozen dataclass or a named tuple, got {type(piece).__name__}.",
        )
        try:
            hash(piece)
        except TypeError as error:
            demand(False, f"`{name}` must be hashable: {error}.")
    return "hashable, and equal when their values are."


def describe_is_json(case: Case) -> str:
    """`describe()` can be written into a configuration and read back, and is the same in another process."""
    try:
        text = json.dumps(case.method.describe(), allow_nan=False)
    except (TypeError, ValueError) as error:
        demand(False, f"`describe()` must be JSON: {error}.")
    found = _ADDRESS.search(text)
    demand(found is None, "`describe()` holds a memory address, so a checkpoint would never fit again.")
    demand(
        json.loads(text) == case.method.describe(), "`describe()` is not the same after a trip through JSON."
    )
    return f"{len(text)} characters."


def _is_frozen(piece: Any) -> bool:
    if dataclasses.is_dataclass(piece):
        return bool(type(piece).__dataclass_params__.frozen)  # type: ignore[union-attr]  # not in the type stubs
    return isinstance(piece, tuple)
