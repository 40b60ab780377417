import math

import numpy as np
import pytest

from ofediq import errors
from ofediq.errors import (
    CheckpointError,
    DataError,
    InputError,
    MissingExtraError,
    OFedIQError,
    WireError,
    extra,
    require,
    require_choice,
    require_fraction,
    require_integer,
    require_nonnegative,
    require_positive,
)

HUGE = pytest.param(10**400, id="huge")


@pytest.mark.parametrize("error", [InputError, DataError, WireError, CheckpointError, MissingExtraError])
def test_one_except_clause_catches_every_error(error: type[OFedIQError]) -> None:
    assert issubclass(error, OFedIQError)


def test_errors_are_also_the_builtin_ones_that_callers_expect() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(DataError, InputError)
    assert issubclass(WireError, InputError)
    assert issubclass(MissingExtraError, ImportError)


def test_the_tree_in_the_docstring_names_every_error() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in defined)


def test_the_message_names_argument_rule_and_value() -> None:
    with pytest.raises(InputError, match=r"^`rate` must lie in \(0, 1\], got 'x'$"):
        require(False, "rate", "must lie in (0, 1]", "x")


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint8(3), np.array(3)])
def test_integers_of_every_kind_come_back_as_int(value: object) -> None:
    number = require_integer("levels", value, 1)
    assert number == 3
    assert type(number) is int


@pytest.mark.parametrize("value", [0, 11, -1, 3.0, "3", None, True, np.True_, np.array([3]), math.nan, HUGE])
def test_what_is_not_an_integer_in_range_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"^`levels` must be an integer from 1 to 10, got "):
        require_integer("levels", value, 1, 10)


def test_an_open_range_is_named_as_such() -> None:
    with pytest.raises(InputError, match=r"^`levels` must be an integer >= 1, got 0$"):
        require_integer("levels", 0, 1)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "x", None, [1, 2], HUGE])
def test_what_is_not_positive_is_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"^`step_size` must be a finite number > 0, got "):
        require_positive("step_size", value)


@pytest.mark.parametrize("value", [-1e-300, math.nan, math.inf, "x", None, HUGE])
def test_what_is_negative_is_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"^`heterogeneity` must be a finite number >= 0, got "):
        require_nonnegative("heterogeneity", value)


@pytest.mark.parametrize("value", [0, -0.1, 1.0000001, math.nan, math.inf, "x", None, HUGE])
def test_what_is_not_a_fraction_is_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"^`budget` must lie in \(0, 1\], got "):
        require_fraction("budget", value)


def test_numbers_come_back_as_floats() -> None:
    assert [
        require_positive("x", 2),
        require_nonnegative("x", 0),
        require_fraction("x", np.float64(0.5)),
    ] == [2, 0, 0.5]
    assert type(require_fraction("x", 1)) is float


def test_a_choice_outside_the_list_is_refused() -> None:
    assert require_choice("method", "exact", ("paper", "exact")) == "exact"
    with pytest.raises(InputError, match=r"^`method` must be one of paper, exact, got 'exakt'$"):
        require_choice("method", "exakt", ("paper", "exact"))


def test_a_missing_module_names_the_extra_that_brings_it() -> None:
    with pytest.raises(MissingExtraError, match=r"^no_such_module is not installed: .*'ofediq\[sim\]'"):
        extra("no_such_module.inside", "sim")


def test_a_present_module_is_returned() -> None:
    assert extra("math", "sim") is math
