"""Every key of every file with every wrong type: one sentence that names it and exit code 2, never a traceback."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ofediq.cli import app
from ofediq.errors import InputError
from ofediq.experiment import Config
from ofediq.federation import Broker, ClientConfig, FederationConfig, Rules
from ofediq.federation.choices import (
    FeatureChoice,
    MemoryChoice,
    MethodChoice,
    ModelChoice,
    PageChoice,
    PredictionChoice,
    SourceChoice,
)
from ofediq.settings import declared, form
from ofediq.tracking import TrackerChoice

NUMBER, LIST = (int, float), (list,)
# What each key may hold, written down once more: a declaration that is too generous must not excuse itself.
FEDERATION: dict[str, dict[str, Any]] = {
    "": {"name": str, "seed": int, "folder": str, "start_from": str},
    "model": {
        "name": str,
        "features": int,
        "shape": LIST,
        "names": LIST,
        "labels": LIST,
        "task": str,
        "classes": int,
        "hidden": LIST,
        "l2": NUMBER,
    },
    "method": {
        "key": str,
        "budget": NUMBER,
        "step_size": NUMBER,
        "preset": str,
        "planner": str,
        "server": str,
        "combine": str,
        "clients": int,
        "steps": int,
    },
    "rounds": {
        "pace": str,
        "interval": NUMBER,
        "deadline": NUMBER,
        "min_clients": int,
        "start_clients": int,
        "count": int,
        "clip": NUMBER,
        "report_every": int,
        "secure": bool,
    },
    "features": {
        "enabled": bool,
        "baseline": str,
        "lags": int,
        "horizon": int,
        "flags": LIST,
        "gaps": LIST,
        "calendar": bool,
        "scaling": str,
    },
    "clients": {"roster": LIST, "open": bool},
    "broker": {"address": str, "ca": str, "certificate": str, "key": str, "insecure": bool, "keepalive": int},
    "page": {"enabled": bool, "host": str, "port": int, "token": str},
    "tracker": {"kind": str, "folder": str},
}
CLIENT: dict[str, dict[str, Any]] = {
    "": {"name": str, "federation": str},
    "broker": FEDERATION["broker"],
    "source": {"kind": str, "path": str, "target": str, "features": LIST, "time": str, "follow": bool},
    "memory": {"path": str, "every": int},
    "predictions": {"path": str, "publish": bool, "discovery": str},
}
FORMS = {"integer": int, "number": NUMBER, "flag": bool, "integers": LIST, "texts": LIST, "table": dict}
EXPERIMENT = {one.key: FORMS.get(form(one.kind), str) for one in declared(Config)}
LOCAL = {"address": "mqtt://localhost:1883", "insecure": True}
BASES: dict[str, dict[str, Any]] = {
    "federation": {"name": "greenhouse", "model": {"features": 5}, "broker": LOCAL},
    "client": {"name": "pi-1", "federation": "greenhouse", "broker": LOCAL},
    "experiment": {},
}
VALUES: list[Any] = [
    *(0, 5, -1, 99999999999999, 10**30, -(10**30)),
    *(2.5, -0.5, 1e300, math.nan, math.inf, -math.inf),
    *(True, False, "", "text", "5", "a\0b", "x" * 5000, datetime.date(2026, 1, 1)),
    *([], [1], ["a"], [[]], [0], [10**30], ["a/b"], {}, {"a": 1}, {"a": math.nan}),
]


def cases() -> Iterator[Any]:
    files = {"federation": FEDERATION, "client": CLIENT, "experiment": {"": EXPERIMENT}}
    for file, tables in files.items():
        for table, keys in tables.items():
            for key, kinds in keys.items():
                yield pytest.param(file, table, key, kinds, id=f"{file}-{table}-{key}")
            if table:
                yield pytest.param(file, "", table, dict, id=f"{file}-{table}")


@pytest.mark.parametrize(("file", "table", "key", "kinds"), [*cases()])
def test_a_wrong_value_is_one_sentence(tmp_path: Path, file: str, table: str, key: str, kinds: Any) -> None:
    path, tried = tmp_path / f"{file}.file", set[type]()
    for value in VALUES:
        if file == "experiment" and isinstance(value, datetime.date):
            continue  # JSON has none
        content = {**BASES[file], **({} if table else {key: value})}
        if table:
            content[table] = {**BASES[file].get(table, {}), key: value}
        path.write_text(json.dumps(content) if file == "experiment" else toml(content), encoding="utf-8")
        sentence = refusal(file, path)
        if sentence is not None:
            assert f"`{key}`" in sentence or f"[{key}]" in sentence, (value, sentence)
            assert len(sentence.splitlines()) == 1
            assert len(sentence) < 400
            if type(value) in tried:
                continue  # the command line is slow, and one of a kind shows that there is no traceback
            tried.add(type(value))
            command = {"federation": "serve", "client": "client", "experiment": "run"}[file]
            assert ofediq(command, "--config", str(path)) == (2, f"ofediq: error: {sentence}\n")
            continue
        assert isinstance(value, kinds), f"{value!r} is accepted"
        assert kinds is bool or not isinstance(value, bool), f"{value!r} is accepted"
        if isinstance(value, (int, float)):
            assert math.isfinite(value)
            assert value >= 0


def refusal(file: str, path: Path) -> str | None:
    readers: dict[str, Any] = {"federation": FederationConfig, "client": ClientConfig, "experiment": Config}
    try:
        readers[file].read(path)
    except InputError as error:
        return str(error)
    return None


def test_every_key_is_tried() -> None:
    tables = {
        "model": ModelChoice,
        "features": FeatureChoice,
        "method": MethodChoice,
        "rounds": Rules,
        "clients": Rules,
        "broker": Broker,
        "page": PageChoice,
        "tracker": TrackerChoice,
    }
    for table, kind in tables.items():
        assert {one.key for one in declared(kind, table)} == set(FEDERATION[table])
    assert {one.key for one in declared(FederationConfig)} == set(FEDERATION[""])
    assert {one.key for one in declared(ClientConfig)} == set(CLIENT[""])
    assert {one.key for one in declared(SourceChoice)} == set(CLIENT["source"])
    assert {one.key for one in declared(MemoryChoice)} == set(CLIENT["memory"])
    assert {one.key for one in declared(PredictionChoice)} == set(CLIENT["predictions"])


@pytest.mark.parametrize(
    "kind", [Config, Rules, Broker, ModelChoice, MethodChoice, PageChoice, SourceChoice, MemoryChoice]
)
def test_every_setting_has_a_line_of_documentation(kind: type[Any]) -> None:
    for one in declared(kind):
        assert one.note.doc.endswith("."), one.name
        assert "\n" not in one.note.doc


def ofediq(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    command = mock.patch.object(sys, "argv", ["ofediq", *arguments])
    with command, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app.main()
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return code, out.getvalue() + err.getvalue()


def toml(content: dict[str, Any]) -> str:
    """A TOML file with these keys and tables."""
    plain = {key: value for key, value in content.items() if not isinstance(value, dict)}
    lines = [f"{key} = {toml_value(value)}" for key, value in plain.items()]
    for table, keys in content.items():
        if isinstance(keys, dict):
            lines += [f"[{table}]", *(f"{key} = {toml_value(value)}" for key, value in keys.items())]
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, (str, bool)):
        return json.dumps(value)
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
