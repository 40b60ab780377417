"""Options made from declared settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.cli.options import Given, Variant, options, split
from ofediq.errors import InputError
from ofediq.experiment import Config
from ofediq.settings import Fraction, Settings, declared, limited, setting


@dataclass(frozen=True)
class Choices(Settings):
    share: Fraction = setting(0.5, "A share.")
    sizes: tuple[Annotated[int, limited(1, 9)], ...] = setting((1, 2), "Sizes.")
    words: tuple[str, ...] = setting((), "Words.")
    loud: bool | None = setting(None, "Whether to shout.", shown="at night")
    more: dict[str, Any] = setting({}, "More.", option="other")


def given(*arguments: str, **variants: Variant) -> Given:
    """What a command with these options hears."""
    heard: list[Given] = []

    @options(Choices, into="given", panels=True, **variants)
    def listen(given: Given) -> None:
        heard.append(given)

    program = typer.Typer()
    program.command()(listen)
    typer.main.get_command(program).main([*arguments], standalone_mode=False)
    return heard[0]


def test_only_what_was_said_is_given() -> None:
    assert given() == {}
    assert given("--share", "1", "--no-loud") == {"share": 1.0, "loud": False}
    assert given("--sizes", "3,4", "--words", "a, b(c=1,d=2)") == {
        "sizes": (3, 4),
        "words": ("a", "b(c=1,d=2)"),
    }
    assert given("--other", "a=1", "--other", "b=x=y") == {"more": {"a": 1, "b": "x=y"}}


def test_a_command_may_have_another_default_and_name() -> None:
    assert given(share=Variant(0.25)) == {"share": 0.25}
    assert given("--part", "0.75", share=Variant(0.25, name="part")) == {"share": 0.75}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--share", "2"), r"`share` must lie in \(0, 1\], got 2.0"),
        (("--share", "nan"), r"`share` must lie in \(0, 1\], got nan"),
        (("--sizes", "1,10"), r"`sizes` must be a list of integers from 1 to 9, got \[1, 10\]"),
        (("--sizes", "1,x"), "`sizes` must be whole numbers with commas between them, got '1,x'"),
        (("--other", "a"), "`other` must look like name=value, got 'a'"),
    ],
)
def test_a_wrong_value_is_named_as_it_was_typed(arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{sentence}$"):
        given(*arguments)


def test_every_choice_of_an_experiment_is_an_option_of_run() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout
    for one in declared(Config):
        assert f"--{(one.note.option or one.name).replace('_', '-')} " in shown
        assert one.note.doc in shown


def test_commas_inside_brackets_do_not_split() -> None:
    assert split("fedogd,ofediq(levels=7, blocks=3),local") == [
        "fedogd",
        "ofediq(levels=7, blocks=3)",
        "local",
    ]
