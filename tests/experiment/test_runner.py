import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from ofediq.errors import CheckpointError, InputError
from ofediq.experiment import Config, Experiment, Folder, RunOutcome, run
from ofediq.experiment.archive import load_result, save_result
from ofediq.simulation import Result, simulate
from ofediq.simulation.interrupt import deferred_interrupt
from tests.experiment.listeners import Listener

# Three blocks of steps for each method, so that there is something to interrupt; a small model, no regret.
CONFIG = Config(
    dataset="synthetic",
    options={"features": 4},
    model="linear",
    clients=10,
    steps=150,
    methods=("ofediq", "local"),
    budget=0.2,
    regret=False,
)
EXPERIMENT = Experiment.set_up(CONFIG)


def changed(**choices: Any) -> Config:
    return Config.from_dict({**CONFIG.to_dict(), **choices})


def results(outcome: RunOutcome) -> dict[tuple[str, int], Result]:
    assert outcome.comparison is not None
    return {(key, one.seed): one for key, runs in outcome.comparison.runs.items() for one in runs}


def in_folder(
    path: Path, listener: Listener | None = None, config: Config = CONFIG, **how: Any
) -> RunOutcome:
    folder = Folder(path)
    folder.open(config, resume=how.get("resume", False))
    experiment = EXPERIMENT if config is CONFIG else Experiment.set_up(config)
    return run(experiment, folder, listener or Listener(), **how)


def assert_same(found: RunOutcome, wanted: RunOutcome) -> None:
    left, right = results(found), results(wanted)
    assert left.keys() == right.keys()
    for pair, one in left.items():
        for name in ("loss", "error", "senders", "bits_wire", "params"):
            assert np.array_equal(getattr(one, name), getattr(right[pair], name)), (pair, name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    return in_folder(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize(
    "place", [("OFedIQ, seed 0", 1), ("OFedIQ, seed 0", 100), ("OFedIQ, seed 0", 150), ("Local, seed 0", 1)]
)
def test_an_interrupted_run_continues_bit_by_bit(
    tmp_path: Path, whole: RunOutcome, place: tuple[str, int]
) -> None:
    listener = Listener(place)
    first = in_folder(tmp_path, listener)
    assert first.interrupted
    assert "stopping" in listener.heard
    partial = [one.steps for one in results(first).values()]
    assert 0 < sum(partial) < 300
    second = in_folder(tmp_path, resume=True)
    assert not second.interrupted
    assert_same(second, whole)


def test_what_is_finished_is_not_run_again(
    tmp_path: Path, whole: RunOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_folder(tmp_path)
    monkeypatch.setattr("ofediq.experiment.setup.simulate", None)
    listener = Listener()
    assert_same(in_folder(tmp_path, listener, resume=True), whole)
    assert listener.heard == [
        "OFedIQ, seed 0 of 150",
        "finished before",
        "Local, seed 0 of 150",
        "finished before",
    ]


def test_a_crash_loses_only_what_came_after_the_last_checkpoint(tmp_path: Path, whole: RunOutcome) -> None:
    class Crash(Listener):
        def advanced(self, done: int) -> None:
            if done > 100:
                raise RuntimeError("power failure")

    with pytest.raises(RuntimeError, match="power failure"):
        in_folder(tmp_path, Crash(), checkpoint_every=1)
    assert Folder(tmp_path).checkpoint("ofediq", 0).exists()
    assert_same(in_folder(tmp_path, resume=True), whole)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda frame: frame.assign(wind=frame.wind.where(frame.index != 7, 0)),
            "other values in column 'wind'",
        ),
        (
            lambda frame: frame.drop(columns="heat").assign(rain=0),
            "column 'heat' and with a new column 'rain'",
        ),
        (lambda frame: frame.iloc[:-1], "299 samples instead of 300"),
        (lambda frame: frame.assign(who=frame.who.iloc[::-1].to_numpy()), "other times or clients"),
    ],
)
def test_a_resumed_run_says_what_changed_in_the_file(tmp_path: Path, change: Any, said: str) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "plant.csv"
    frame = pandas.DataFrame({name: rng.normal(size=300) for name in ("heat", "wind", "y")})
    frame = frame.assign(who=np.arange(300) // 100)
    frame.to_csv(path, index=False)
    config = Config(data=str(path), target="y", client_column="who", methods=("ofediq",))
    assert in_folder(tmp_path / "out", Listener(("OFedIQ, seed 0", 1)), config).interrupted
    change(frame).to_csv(path, index=False)
    with pytest.raises(InputError, match=f"^`data` must be what the run began with, got plant.csv .*{said}"):
        in_folder(tmp_path / "out", config=config, resume=True)
    frame.to_csv(path, index=False)
    assert not in_folder(tmp_path / "out", config=config, resume=True).interrupted


def test_every_seed_has_its_own_stream_and_draws(tmp_path: Path, whole: RunOutcome) -> None:
    config = changed(methods=["ofediq"], seed=5, seeds=2)
    pairs = results(in_folder(tmp_path, config=config))
    assert list(pairs) == [("ofediq", 5), ("ofediq", 6)]
    alone = simulate(
        Experiment.set_up(config).methods["ofediq"], Experiment.set_up(config).deal(6), EXPERIMENT.model, 6
    )
    assert np.array_equal(pairs["ofediq", 6].loss, alone.loss)
    assert not np.array_equal(pairs["ofediq", 5].senders, pairs["ofediq", 6].senders)


def test_naive_references_have_a_curve_per_seed(whole: RunOutcome) -> None:
    assert whole.comparison is not None
    assert {name: len(curves) for name, curves in whole.comparison.naive.items()} == {
        "mean": 1,
        "constant": 1,
        "own mean": 1,
        "last": 1,
    }


def test_a_diverged_method_is_noted_and_has_no_regret(tmp_path: Path) -> None:
    config = changed(methods=["fedogd"], step_size=50.0, regret=True)
    outcome = in_folder(tmp_path, config=config)
    assert "FedOGD diverged with seed 0: try a smaller step size." in outcome.notes
    assert outcome.comparison is not None
    assert not outcome.comparison.regrets


def test_one_that_is_far_off_is_told_so(tmp_path: Path) -> None:
    hours = np.arange(400)
    file = tmp_path / "rising.csv"  # where the last value is a good forecast
    file.write_text("\n".join(["wind,level", *(f"{np.sin(hour)},{hour}" for hour in hours)]))
    own: Any = {
        "dataset": None,
        "options": {},
        "data": str(file),
        "target": "level",
        "preset": "paper",
        "seeds": 1,
    }
    run = {"methods": ["fedogd"], "step_size": 1e-4, "steps": 40, "clients": 10, "partition": "stretches"}
    (note,) = in_folder(tmp_path / "run", config=changed(**own, **run)).notes
    assert "times the error of the best naive forecast: try another step size, or the preset auto." in note


class Clock(Listener):
    """Writes down what is said, and after how many steps."""

    def __init__(self) -> None:
        super().__init__()
        self.done, self.said = 0, list[tuple[int, str]]()

    def advanced(self, done: int) -> None:
        self.done = done

    def note(self, sentence: str) -> None:
        self.said.append((self.done, sentence))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_method_that_diverges_says_so_while_it_runs(tmp_path: Path, jobs: int) -> None:
    clock = Clock()
    in_folder(
        tmp_path, clock, changed(methods=["fedogd", "local"], step_size=2.0, steps=640, seeds=1), jobs=jobs
    )
    cries = {said.lower().partition(" diverges: at step ")[0]: done for done, said in clock.said}
    assert {"fedogd with seed 0", "local with seed 0"} <= set(cries)
    assert jobs > 1 or cries["fedogd with seed 0"] <= 320  # others count the steps of both


def test_a_slow_start_is_no_divergence(tmp_path: Path) -> None:
    clock = Clock()
    in_folder(tmp_path, clock, changed(methods=["fedogd"], step_size=1e-4))
    assert not any("diverges" in said for _, said in clock.said)


@pytest.mark.parametrize(("regret", "measured"), [(None, True), (True, True), (False, False)])
def test_regret_is_measured_for_convex_models_unless_told_otherwise(
    tmp_path: Path, regret: bool | None, measured: bool
) -> None:
    config = changed(methods=["local"], steps=5, regret=regret)
    outcome = in_folder(tmp_path, config=config)
    assert outcome.comparison is not None
    assert bool(outcome.comparison.regrets) is measured


def test_a_finished_result_comes_back_from_disk(tmp_path: Path, whole: RunOutcome) -> None:
    result = results(whole)["ofediq", 0]
    save_result(tmp_path / "result.npz", result)
    parts = (result.method, result.model, result.stream)
    again = load_result(tmp_path / "result.npz", *parts, seed=0)
    assert np.array_equal(again.loss, result.loss)
    assert again.summary() == result.summary()
    with pytest.raises(CheckpointError, match=r"belongs to another run: its seed is 0, not 1$"):
        load_result(tmp_path / "result.npz", *parts, seed=1)


def test_a_broken_result_is_one_sentence(tmp_path: Path, whole: RunOutcome) -> None:
    result = results(whole)["ofediq", 0]
    (tmp_path / "result.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(CheckpointError, match=r"^cannot read finished result "):
        load_result(tmp_path / "result.npz", result.method, result.model, result.stream, seed=0)
    with pytest.raises(CheckpointError, match=r"^cannot write "):
        save_result(tmp_path / "result.npz" / "below.npz", result)


def test_an_interruption_waits_for_the_check() -> None:
    told: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with deferred_interrupt(lambda: told.append("heard")) as check:
        check()
        os.kill(os.getpid(), signal.SIGINT)
        assert told == ["heard"]
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is before
