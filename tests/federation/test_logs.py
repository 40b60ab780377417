"""Log lines for people and for a collector."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from ofediq.errors import InputError
from ofediq.federation.network.logs import set_up


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger("ofediq")
    before = (root.handlers, root.level, root.propagate)
    yield
    root.handlers, root.level, root.propagate = before


def write() -> None:
    log = logging.getLogger("ofediq.federation")
    log.info("round closed", extra={"fields": {"step": 3, "seconds": 0.25}})
    log.debug("not shown")


def test_a_line_of_json_has_time_level_message_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("json")
    write()
    (line,) = capsys.readouterr().err.splitlines()
    content = json.loads(line)
    assert content.pop("time").endswith("Z")
    expected = {"level": "info", "logger": "ofediq.federation", "message": "round closed"}
    assert content == {**expected, "step": 3, "seconds": 0.25}


def test_a_line_of_text_has_the_fields_behind_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("text")
    write()
    assert capsys.readouterr().err.split(maxsplit=1)[1] == "info    round closed step=3 seconds=0.25\n"


def test_an_exception_stays_on_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("json")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("ofediq.federation").exception("it failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: broken" in json.loads(line)["exception"]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="`log_format` must be one of text, json"):
        set_up("xml")
