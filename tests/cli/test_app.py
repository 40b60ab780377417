import os
import subprocess
import sys
from pathlib import Path

import pytest

from ofediq import __version__
from ofediq.cli import app
from ofediq.errors import OFedIQError

HEAVY = {"numpy", "jax", "optax", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "constriction"}


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["ofediq", *arguments])
    with pytest.raises(SystemExit) as stopped:
        app.main()
    output = capsys.readouterr()
    return int(stopped.value.code or 0), output.out, output.err


def test_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(capsys, monkeypatch, "--version") == (0, f"ofediq {__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_the_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, monkeypatch, *arguments)
    assert (code, err) == (0, "")
    assert "plan" in out
    assert "ofediq plan --budget 0.01 --dim 34826" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nonsense",), "no such command 'nonsense'; `ofediq -h` shows what there is"),
        (("plan",), "`budget` or `bytes_per_hour` must be given, one of them"),
        (("plan", "--budget", "0.1"), "`dim` must be given, or `sample`, a file whose model has one"),
        (
            ("plan", "--budget", "many", "--dim", "10"),
            "invalid value for '--budget': Input should be a valid number, got 'many'; ",
        ),
        (
            ("run", "--steps", "1.5"),
            "invalid value for '--steps': Input should be a valid integer, got '1.5'; ",
        ),
        (("plan", "--budget"), "option '--budget' requires an argument; `ofediq plan -h` shows "),
        (("run", "--step_size", "1"), "no such option: --step_size "),
        (("data", "digits"), "got unexpected extra argument"),
        (("certs", "nonsense"), "no such command 'nonsense'; `ofediq certs -h` shows what there is"),
        (("--wrong",), "no such option: --wrong"),
    ],
)
def test_usage_errors_are_one_sentence_too(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    code, out, err = run(capsys, monkeypatch, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"ofediq: error: {sentence}")
    assert err.count("\n") == 1


def test_a_group_without_a_command_shows_its_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(capsys, monkeypatch, "certs")
    assert (code, err) == (0, "")
    assert "authority" in out


def test_an_error_of_ofediq_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(capsys, monkeypatch, "plan", "--budget", "2", "--dim", "10")
    assert (code, out, err) == (2, "", "ofediq: error: `budget` must lie in (0, 1], got 2.0\n")


@pytest.mark.parametrize(
    ("error", "code"), [(OFedIQError("no"), 2), (MemoryError("1 PiB"), 2), (KeyboardInterrupt(), 130)]
)
def test_exit_codes_of_what_a_command_raises(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("ofediq.theory.plan", fail)
    assert run(capsys, monkeypatch, "plan", "--budget", "0.1", "--dim", "10")[0] == code


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("ofediq.theory.plan", fail)
    monkeypatch.setattr(sys, "argv", ["ofediq", "plan", "--budget", "0.1", "--dim", "10"])
    with pytest.raises(ZeroDivisionError):
        app.main()


def test_the_help_page_loads_nothing_heavy() -> None:
    code = "import sys, ofediq.cli.app; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "typer" in loaded
    assert not HEAVY & set(loaded)


def test_an_output_without_a_letter_shows_another() -> None:
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "ofediq", "methods"], capture_output=True, env=latin, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"ofedgrid" in done.stdout


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        (
            "MPLBACKEND",
            "nonsense",
            "matplotlib cannot be loaded (Key backend: 'nonsense' is not a valid value",
        ),
        ("JAX_PLATFORMS", "tpu", "JAX cannot compute here: RuntimeError: Unable to initialize backend 'tpu'"),
    ],
)
def test_a_library_that_cannot_work_is_one_sentence(
    tmp_path: Path, variable: str, value: str, sentence: str
) -> None:
    arguments = ["run", "--clients", "2", "--steps", "1", "--methods", "local", "--out", "there"]
    done = subprocess.run(
        [sys.executable, "-m", "ofediq", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, variable: value},
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ofediq: error: {sentence}")
    assert done.stderr.count("\n") == 1


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ofediq", "plan", "--budget", "0", "--dim", "10"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ofediq: error: `budget` must lie in (0, 1], got 0.0\n"
