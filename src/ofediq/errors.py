"""Every error that ofediq raises on purpose.

    OFedIQError
    ├── InputError (also a ValueError)       an argument breaks a rule
    │   ├── BudgetError                      a method cannot come down to a budget
    │   ├── DataError                        a dataset or file does not hold what was asked for
    │   └── WireError                        received bytes are not a valid message
    ├── MissingExtraError (also an ImportError)   an optional dependency is not installed
    ├── LostProcessError                     another process of a run is gone
    ├── CheckpointError                      a saved run cannot be read or does not fit
    └── ContractError (also an AssertionError)    a method breaks a rule that the engine relies on

The command line turns each of them into one sentence and exit code 2.
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

_FEW = 8  # choices that can be seen at a glance


class OFedIQError(Exception):
    """Base of all errors that ofediq raises on purpose."""


class InputError(OFedIQError, ValueError):
    """An argument breaks a rule. The message names the argument, the rule and the value."""


class BudgetError(InputError):
    """A method cannot come down to a budget."""


class DataError(InputError):
    """A dataset or a data file does not hold what was asked for."""


class WireError(InputError):
    """Received bytes are not a valid message."""


class CheckpointError(OFedIQError):
    """A saved run cannot be read, or does not fit the run that wants to continue from it."""


class LostProcessError(OFedIQError):
    """Another process of a run that several share is gone, and its sums with it."""


class ContractError(OFedIQError, AssertionError):
    """A method breaks a rule that the engine relies on. The message has one sentence for each of them."""


class MissingExtraError(OFedIQError, ImportError):
    """An optional dependency is not installed."""


@contextmanager
def refusing(
    name: str, what: str, path: object, *others: type[Exception], kind: type[InputError] | None = None
) -> Iterator[None]:
    """What the system refuses inside, or `others`, becomes one sentence: `name` must be `what`, got `path`."""
    refused: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except refused as error:
        why = getattr(error, "strerror", None) or error
        raise (kind or InputError)(f"`{name}` must be {what}, got {str(path)!r} ({why})") from None


def require(condition: bool, name: str, rule: str, value: object) -> None:
    """Raise `InputError` unless `condition` holds.

    >>> require(0 < 2, "rate", "must lie in (0, 1]", 2)
    >>> require(2 <= 1, "rate", "must lie in (0, 1]", 2)
    Traceback (most recent call last):
    ofediq.errors.InputError: `rate` must lie in (0, 1], got 2
    """
    if not condition:
        raise InputError(f"`{name}` {rule}, got {shown(value)}")


def require_kind(kind: type[Any], name: str, value: object) -> None:
    """Raise `InputError` unless `value` is a `kind`: where somebody may well have given something else.

    >>> require_kind(dict, "options", "fast")
    Traceback (most recent call last):
    ofediq.errors.InputError: `options` must be a dict, got 'fast'
    """
    require(isinstance(value, kind), name, f"must be a {kind.__name__}", value)


def shown(value: object) -> str:
    """A value in a sentence: its repr, cut where it is long.

    >>> shown("5"), len(shown("long" * 100)) < 130
    ("'5'", True)
    """
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
    return _cut(text, 120)


def told(error: Exception) -> str:
    r"""The first line of what an exception says, not long; with its kind, unless it is a sentence for itself.

    >>> told(KeyError("grid")), told(ValueError("must be  2\nand a page about it"))
    ("KeyError: 'grid'", 'must be 2')
    """
    text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return _cut(" ".join(text.strip().partition("\n")[0].split()), 400)


def require_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int in [`low`, `high`], or raise `InputError`.

    >>> require_integer("levels", 3, 1)
    3
    >>> require_integer("levels", 0, 1, 32768)
    Traceback (most recent call last):
    ofediq.errors.InputError: `levels` must be an integer from 1 to 32768, got 0
    """
    if type(value) is int and low <= value and (high is None or value <= high):
        return value  # as nearly always, and sentences take time
    rule = f"must be an integer >= {low}" if high is None else f"must be an integer from {low} to {high}"
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        raise InputError(f"`{name}` {rule}, got {shown(value)}") from None
    require(
        not isinstance(value, bool) and low <= number and (high is None or number <= high), name, rule, value
    )
    return int(number)


def require_positive(name: str, value: float) -> float:
    """Return `value` as a finite float > 0, or raise `InputError`.

    >>> require_positive("step_size", 0.01)
    0.01
    """
    number = _as_float(name, value, "must be a finite number > 0")
    require(math.isfinite(number) and number > 0, name, "must be a finite number > 0", value)
    return number


def require_nonnegative(name: str, value: float) -> float:
    """Return `value` as a finite float >= 0, or raise `InputError`.

    >>> require_nonnegative("heterogeneity", 0)
    0.0
    """
    number = _as_float(name, value, "must be a finite number >= 0")
    require(math.isfinite(number) and number >= 0, name, "must be a finite number >= 0", value)
    return number


def require_path(name: str, value: Any) -> Path:
    """Return `value` as a path, or raise `InputError`.

    >>> require_path("checkpoint", 3)
    Traceback (most recent call last):
    ofediq.errors.InputError: `checkpoint` must be the path of a file, got 3
    """
    require(isinstance(value, (str, PurePath)), name, "must be the path of a file", value)
    return Path(value)


def require_fraction(name: str, value: float) -> float:
    """Return `value` as a float in (0, 1], or raise `InputError`.

    >>> require_fraction("budget", 0.01)
    0.01
    """
    number = _as_float(name, value, "must lie in (0, 1]")
    require(0 < number <= 1, name, "must lie in (0, 1]", value)
    return number


def require_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`, or raise `InputError`.

    >>> require_choice("method", "exakt", ("paper", "exact"))
    Traceback (most recent call last):
    ofediq.errors.InputError: `method` must be one of paper, exact, got 'exakt'
    """
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"`{name}` {not_among(value, choices)}")
    return value


def not_among(value: object, choices: tuple[str, ...]) -> str:
    """The rule that a value breaks which is none of the choices; of many, also those that were probably meant.

    >>> not_among("fedgod", (*"abcdefgh", "fedogd", "fedsgd"))
    "must be one of a, b, c, d, e, f, g, h, fedogd, fedsgd, got 'fedgod': did you mean 'fedsgd' or 'fedogd'?"
    """
    sentence = f"must be one of {', '.join(choices)}, got {shown(value)}"
    close = difflib.get_close_matches(str(value), choices, 2) if len(choices) > _FEW else []
    return f"{sentence}: did you mean {' or '.join(map(repr, close))}?" if close else sentence


def extra(module: str, extra_name: str) -> ModuleType:
    """Import `module`, or say which optional extra of ofediq brings it.

    >>> extra("math", "sim").sqrt(4)
    2.0
    """
    package = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except Exception as error:  # also what stops an installed package: a setting, a library of the system
        absent = isinstance(error, ModuleNotFoundError) and error.name in (package, module)
        why = "is not installed" if absent else f"cannot be loaded ({told(error)})"
        raise MissingExtraError(
            f"{package} {why}: it comes with `pip install 'ofediq[{extra_name}]'`"
        ) from error


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _as_float(name: str, value: Any, rule: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"`{name}` {rule}, got {shown(value)}") from None
