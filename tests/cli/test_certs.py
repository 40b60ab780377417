from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ofediq.cli import app
from ofediq.federation.security.certificates import describe, issue, make_authority

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def certs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`ofediq certs` with these arguments, in an empty folder: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ofediq", "certs", *arguments])
        with pytest.raises(SystemExit) as stopped:
            app.main()
        output = capsys.readouterr()
        return int(stopped.value.code or 0), output.out, output.err

    return command


def listed(certs: Command, *arguments: str) -> dict[str, Any]:
    code, out, err = certs(*arguments, "--json")
    assert (code, err) == (0, "")
    return {Path(one["folder"]).name: one for one in json.loads(out)["certificates"]}


def test_from_nothing_to_a_broker(certs: Command, tmp_path: Path) -> None:
    assert listed(certs, "authority", "--name", "greenhouse")["authority"]["name"] == "greenhouse"
    assert listed(certs, "broker", "localhost", "10.0.0.1")["broker"]["hosts"] == ["localhost", "10.0.0.1"]
    assert listed(certs, "server")["server"]["kind"] == "server"
    assert set(listed(certs, "client", "pi-1", "pi-2", "--days", "10")) == {"pi-1", "pi-2"}
    everything = listed(certs, "list")
    assert list(everything) == ["authority", "broker", "server", "pi-1", "pi-2"]
    assert {one["trusted"] for one in everything.values()} == {True}
    assert everything["pi-1"]["days_left"] == 9  # ten days less the moment since
    code, out, _ = certs("broker-config", "--federation", "f", "--at", "/etc/mosquitto/ofediq", "--json")
    assert (code, json.loads(out)["clients"]) == (0, ["pi-1", "pi-2"])
    text = (tmp_path / "certs" / "broker" / "mosquitto.conf").read_text()
    assert "acl_file /etc/mosquitto/ofediq/access.acl\n" in text


def test_the_table_says_what_expires(certs: Command) -> None:
    make_authority("certs")
    issue("certs", "pi-1")
    make_authority("certs", force=True)
    issue("certs", "pi-2", days=30)
    code, out, _ = certs("list")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert any(line.startswith("pi-1 client") and line.endswith("of another authority") for line in lines)
    assert any(line.startswith("pi-2 client") and line.endswith("in 29 days") for line in lines)


def test_renewal(certs: Command) -> None:
    make_authority("certs")
    issue("certs", "pi-1", days=10)
    assert listed(certs, "renew", "pi-1", "--days", "20")["pi-1"]["days_left"] == 19


@pytest.mark.parametrize(
    ("arguments", "users"),
    [
        ((), ["server", "pi-1"]),
        (("--only", "a, b", "--server", "boss"), ["boss", "a", "b"]),
        (("--any-client",), ["server"]),
    ],
)
def test_who_is_let_in(certs: Command, arguments: tuple[str, ...], users: list[str]) -> None:
    make_authority("certs")
    issue("certs", "broker", "broker", hosts=["localhost"])
    issue("certs", "pi-1")
    assert certs("broker-config", "--federation", "f", *arguments)[0] == 0
    lines = Path("certs/broker/access.acl").read_text().splitlines()
    assert [line.split()[1] for line in lines if line.startswith("user")] == users


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("client", "a", "pi-1"),
            "`name` must be new, got 'pi-1', which 'certs' has already; --force replaces it",
        ),
        (("client", "server"), "`name` must not be that of the server, got 'server'"),
        (("client", "a/b"), "`name` must have 1 to 64 letters"),
        (
            ("list", "--folder", "no"),
            "`folder` must hold an authority, got 'no'; `ofediq certs authority` makes one",
        ),
        (
            ("broker-config", "--federation", "f"),
            "`folder` must hold the broker's certificate, got 'certs/broker'",
        ),
        (
            ("broker-config", "--federation", "f", "--only", "a", "--any-client"),
            "`only` must not be given",
        ),
    ],
)
def test_errors_are_one_sentence(certs: Command, arguments: tuple[str, ...], sentence: str) -> None:
    make_authority("certs")
    issue("certs", "pi-1")
    code, out, err = certs(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"ofediq: error: {sentence}")
    assert [one.name for one in describe("certs")] == ["ofediq", "pi-1"]


def test_nobody_to_let_in(certs: Command) -> None:
    make_authority("certs")
    issue("certs", "broker", "broker", hosts=["localhost"])
    code, _, err = certs("broker-config", "--federation", "f")
    assert code == 2
    assert err.startswith("ofediq: error: no client has a certificate in 'certs'")
