from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyarrow.parquet as parquet
import pytest

from ofediq.cli import app
from ofediq.cli.progress import Reporter

PROMISED = {"accuracy", "loss", "bits_formula", "bits_wire", "ccr", "senders_per_step", "seconds"}
SMALL = ("--dataset", "synthetic", "--option", "features=4", "--clients", "20", "--budget", "0.2")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.out)
        return content


def ofediq(*arguments: str) -> Done:
    """`ofediq run` with these arguments, in this process."""
    out, err = io.StringIO(), io.StringIO()
    command = mock.patch.object(sys, "argv", ["ofediq", "run", *arguments])
    with command, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app.main()
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


class Finished(NamedTuple):
    folder: Path
    done: Done


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Digits as by default, but small: four methods, two seeds."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    methods = ("--methods", "fedogd,fedomd,ofediq,local")
    size = ("--clients", "20", "--steps", "20", "--seeds", "2", "--no-regret")
    return Finished(folder, ofediq(*methods, *size, "--json", "--out", str(folder)))


def test_json_is_the_summary_and_nothing_else(finished: Finished) -> None:
    assert finished.done.code == 0
    summary = finished.done.json
    assert summary == json.loads((finished.folder / "summary.json").read_text(encoding="utf-8"))
    assert set(summary) >= {"methods", "naive", "config", "metric", "notes", "files", "interrupted"}
    assert list(summary["methods"]) == ["fedogd", "fedomd", "ofediq", "local"]
    assert set(summary["naive"]) == {"majority", "constant", "own majority", "last"}
    for one in summary["methods"].values():
        assert set(one) >= PROMISED
        assert len(one["per_seed"]["accuracy"]) == 2


def test_bits_are_counted(finished: Finished) -> None:
    methods = finished.done.json["methods"]
    assert methods["fedogd"]["bits_formula"] == methods["fedogd"]["bits_wire"] == 32 * 650 * 20 * 20
    assert methods["fedogd"]["ccr"] == 0
    assert methods["local"]["bits_wire"] == 0
    assert 0 < methods["ofediq"]["bits_wire"] <= methods["ofediq"]["bits_formula"]


def test_a_method_that_never_sends_is_noted_before_the_work(finished: Finished) -> None:
    note = "FedOMD never sends: its period of 100 steps is longer than the run of 20 (a budget of 0.05 would do)."
    assert finished.done.json["notes"] == [note]
    assert finished.done.err.startswith(f"Note: {note}\nFedOGD, seed 0: accuracy ")


def test_the_files_can_be_read(finished: Finished) -> None:
    assert sorted(path.name for path in finished.folder.iterdir()) == [
        "config.json",
        "figure.png",
        "metrics.parquet",
        "model.safetensors",
        "summary.json",
    ]
    frame = parquet.read_table(finished.folder / "metrics.parquet").to_pandas()
    assert len(frame) == 4 * 2 * 20
    last = frame[(frame["method"] == "ofediq") & (frame["step"] == 20)]["accuracy"]
    assert last.mean() == pytest.approx(finished.done.json["methods"]["ofediq"]["accuracy"])


def test_the_configuration_repeats_the_run(finished: Finished, tmp_path: Path) -> None:
    config = str(finished.folder / "config.json")
    again = ofediq("--config", config, "--out", str(tmp_path / "again"), "--json")
    assert again.json["config"] == finished.done.json["config"]
    metrics = [(folder / "metrics.parquet").read_bytes() for folder in (finished.folder, tmp_path / "again")]
    assert metrics[0] == metrics[1]


def test_an_option_overrides_the_configuration(finished: Finished, tmp_path: Path) -> None:
    config = str(finished.folder / "config.json")
    change = (*SMALL, "--model", "linear", "--methods", "local", "--json")
    other = ofediq("--config", config, *change, "--out", str(tmp_path / "other"))
    assert other.code == 0
    assert (other.json["config"]["dataset"], other.json["config"]["partition"]) == ("synthetic", "column")
    assert (other.json["config"]["steps"], other.json["config"]["seeds"]) == (20, 2)


def test_a_finished_run_stays(finished: Finished) -> None:
    out = ("--out", str(finished.folder))
    blocked = ofediq(*out, "--clients", "5")
    assert (blocked.code, blocked.out) == (2, "")
    assert blocked.err.startswith("ofediq: error: `out` must be free, got ")
    assert ofediq(*out, "--resume", "--json").json == finished.done.json
    other = ofediq(*out, "--resume", "--budget", "0.5")
    assert other.err.endswith("is another one: its budget is 0.01, not 0.5\n")


def test_the_table_ends_by_saying_where_the_picture_is(finished: Finished) -> None:
    shown = ofediq("--resume", "--out", str(finished.folder)).out
    for word in ("FedOGD", "OFedIQ", "majority class", "formula bits", "wire bits", "CCR", "2 seeds"):
        assert word in shown
    assert shown.splitlines()[-1] == f"Picture: {finished.folder / 'figure.png'}"


def test_the_table_says_what_computed_each_method_and_why(tmp_path: Path) -> None:
    layers = ("--model", "dense 30, tanh, dense", "--methods", "fedogd,ofediq", "--steps", "10")
    shown = " ".join(ofediq(*SMALL, *layers, "--out", str(tmp_path / "run")).out.split())
    assert "FedOGD: JAX: one matrix product per layer is fastest" in shown


def test_regret_is_shown_with_its_bound_or_the_reason(tmp_path: Path) -> None:
    linear = (
        *SMALL,
        "--steps",
        "10",
        "--model",
        "linear",
        "--step-size",
        "0.001",
        "--methods",
        "fedogd,local",
    )
    done = ofediq(*linear, "--out", str(tmp_path / "run"))
    assert done.code == 0
    assert "No bound for Local: the theorems speak of federated methods." in done.out
    assert f"Regret: {tmp_path / 'run' / 'regret.png'}" in done.out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["methods"]["fedogd"]["regret"] < summary["methods"]["fedogd"]["regret_bound"]
    assert (tmp_path / "run" / "regret.png").exists()


def test_folders_are_named_and_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = (*SMALL, "--steps", "3", "--model", "linear", "--methods", "local", "--no-regret")
    for name in ("synthetic-paper", "synthetic-paper-2"):
        assert ofediq(*tiny).out.endswith(f"Picture: runs/{name}/figure.png\n")
    assert ofediq(*tiny, "--out", "runs/synthetic-paper").code == 2
    assert ofediq(*tiny, "--out", "runs/synthetic-paper", "--force", "--seed", "1", "--json").code == 0
    assert json.loads(Path("runs/synthetic-paper/config.json").read_text())["config"]["seed"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_run_is_kept_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    long = (*SMALL, "--steps", "150", "--model", "linear", "--methods", "local,ofediq", "--no-regret")
    assert ofediq(*long, "--out", "whole").code == 0
    moved = Reporter.advanced

    def interrupt(self: Reporter, done: int) -> None:
        moved(self, done)
        if self._name.startswith("OFedIQ"):
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Reporter, "advanced", interrupt)
    stopped = ofediq(*long, "--json")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert stopped.code == 130
    assert stopped.err.endswith(
        "Interrupted; continue with: ofediq run --resume --out runs/synthetic-paper\n"
    )
    assert stopped.json["interrupted"]
    assert [one["interrupted"] for one in stopped.json["methods"].values()] == [False, True]
    assert Path("runs/synthetic-paper/figure.png").exists()

    again = ofediq("--resume", "--out", "runs/synthetic-paper", "--json")
    assert (again.code, again.json["interrupted"]) == (0, False)
    assert again.err.startswith("Local, seed 0: finished before\n")
    metrics = [Path(folder, "metrics.parquet").read_bytes() for folder in ("whole", "runs/synthetic-paper")]
    assert metrics[0] == metrics[1]
    assert not Path("runs/synthetic-paper/state").exists()


def test_two_runs_in_one_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = (*SMALL, "--steps", "5", "--model", "linear", "--methods", "local", "--no-regret")
    out = tmp_path / "run"
    second: list[Done] = []
    moved = Reporter.advanced

    def start_another(self: Reporter, done: int) -> None:
        moved(self, done)
        monkeypatch.setattr(Reporter, "advanced", moved)
        second.extend(
            ofediq(*small, "--out", str(out), more) for more in ("--no-regret", "--force", "--resume")
        )

    monkeypatch.setattr(Reporter, "advanced", start_another)
    assert ofediq(*small, "--out", str(out)).code == 0
    sentence = f"ofediq: error: `out` must be free, got {str(out)!r}, in which another process is at work\n"
    assert [(done.code, done.out, done.err) for done in second] == 3 * [(2, "", sentence)]
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "summary.json",
        "metrics.parquet",
        "figure.png",
    }
    assert ofediq(*small, "--out", str(out), "--force").code == 0


def test_your_own_file(tmp_path: Path) -> None:
    rows = [f"{t},S{k},{t + k},{'hot' if t + k > 5 else 'ok'}" for t in range(8) for k in range(4)]
    file = tmp_path / "plant.csv"
    file.write_text("when,sensor,heat,state\n" + "\n".join(rows), encoding="utf-8")
    columns = ("--target", "state", "--client-column", "sensor", "--time-column", "when")
    small = ("--methods", "local", "--model", "softmax", "--no-regret", "--json")
    done = ofediq("--data", str(file), *columns, *small, "--out", str(tmp_path / "run"))
    assert done.code == 0
    assert (done.json["stream"]["clients"], done.json["stream"]["steps"]) == (4, 8)
    assert done.json["config"]["data"] == str(file)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--budget", "0"), "`budget` must lie in (0, 1], got 0.0"),
        (("--dataset", "cifar"), "`dataset` must be one of digits, "),
        (("--methods", "fedogd,adam"), "`methods` must be one of fedogd, "),
        (("--data", "none.csv", "--target", "y"), "`path` must be a file, got "),
        (("--data", "none.csv"), "`target` must name the column of `data` to predict, got nothing"),
        (("--partition", "column"), "dataset 'digits' does not say which client a sample belongs to"),
        (("--clients", "0"), "`clients` must be an integer from 1 to 10000000, got 0"),
        (("--alpha", "0.1"), "`alpha` needs partition dirichlet, got random"),
        (("--labels", "1", "--partition", "dirichlet"), "`labels` needs partition label, got dirichlet"),
        (("--hidden", "8,x"), "`hidden` must be whole numbers with commas between them, got '8,x'"),
        (("--option", "noise"), "`option` must look like name=value, got 'noise'"),
        (("--processes", "0"), "`processes` must be an integer from 1 to 1024, got 0"),
        (("--checkpoint-every", "0"), "`checkpoint_every` must be an integer >= 1, got 0"),
        (("--resume", "--force"), "`resume` and `force` exclude each other"),
        (("--resume",), "no unfinished run of this configuration in 'runs'"),
        (("--resume", "--out", "nowhere"), "`out` must hold a run to resume, got 'nowhere'"),
        (("--config", "nowhere.json"), "`config` must be a readable JSON file, got 'nowhere.json'"),
        (("--out", "file/run"), "`out` must be a writable folder, got 'file/run'"),
    ],
)
def test_an_error_is_one_sentence_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    done = ofediq(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"ofediq: error: {sentence}")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_missing_extra_is_named_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = ofediq()
    assert done.code == 2
    assert done.err == (
        "ofediq: error: matplotlib is not installed: it comes with `pip install 'ofediq[report]'`\n"
    )


def test_two_devices_give_the_same_bits(tmp_path: Path) -> None:
    arguments = (*SMALL, "--steps", "5", "--model", "linear", "--methods", "ofediq", "--no-regret", "--json")
    one = ofediq(*arguments, "--out", str(tmp_path / "one")).json
    # Devices are made before JAX is first used, so this needs a process of its own.
    command = [
        sys.executable,
        "-m",
        "ofediq",
        "run",
        *arguments,
        "--devices",
        "2",
        "--out",
        str(tmp_path / "two"),
    ]
    two = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert two["methods"]["ofediq"]["bits_wire"] == one["methods"]["ofediq"]["bits_wire"]
    assert two["methods"]["ofediq"]["mse"] == pytest.approx(one["methods"]["ofediq"]["mse"], rel=1e-5)
