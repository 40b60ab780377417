"""Every help page: examples, nothing lost on the way to the terminal, and the same names for the same things."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ofediq.cli.app import app


def commands(path: tuple[str, ...] = (), group: Any = None) -> Iterator[tuple[tuple[str, ...], Any]]:
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands((*path, name), command)
        else:
            yield (*path, name), command


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_examples_and_keeps_every_word(path: tuple[str, ...]) -> None:
    text = COMMANDS[path].help
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "100"}).stdout
    assert "Examples:" in text
    assert f"ofediq {' '.join(path)}" in text.partition("Examples:")[2]
    lost = [word for word in text.split() if word not in shown]  # brackets may be taken for markup
    assert not lost


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_does(path: tuple[str, ...]) -> None:
    for parameter in COMMANDS[path].params:
        assert parameter.help, parameter.name
        assert all(re.fullmatch(r"--[a-z]+(-[a-z]+)*|-h|[a-z_]+", name) for name in parameter.opts)


def test_every_command_speaks_json() -> None:
    assert {path for path, command in COMMANDS.items() if "--json" not in options(command)} == set()


def test_the_same_name_means_the_same_kind_of_value() -> None:
    kinds: dict[str, set[object]] = {}
    for command in COMMANDS.values():
        for name, parameter in options(command).items():
            kinds.setdefault(name, set()).add(
                re.sub(r"^.*? ", "", parameter.get_help_record(context(command))[0])
            )
    # A planner's method has three names, a federation's is one of the catalogue.
    assert {name for name, values in kinds.items() if len(values) > 1} <= {"--method"}


def test_completion_knows_the_commands() -> None:
    asked = {"_OFEDIQ_COMPLETE": "complete_bash", "COMP_WORDS": "ofediq fr", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from ofediq.cli.app import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["frontier"]


def test_completion_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    # Typer asks for the shell among the parents of this process, where a test need not have one.
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    result = CliRunner().invoke(app, ["--show-completion"], prog_name="ofediq")
    assert "complete" in result.stdout


def options(command: Any) -> dict[str, Any]:
    return {parameter.opts[0]: parameter for parameter in command.params if parameter.opts[0].startswith("-")}


def context(command: Any) -> typer.Context:
    return typer.Context(command)
