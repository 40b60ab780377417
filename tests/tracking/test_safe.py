from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from ofediq.tracking import SafeTracker, safe
from ofediq.tracking.base import Nothing, Parameter


class Recorder:
    """Writes down what it is told, and fails at a chosen call."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.threads: set[str] = set()
        self.fails_at = fails_at

    def hear(self, *call: object) -> None:
        self.threads.add(threading.current_thread().name)
        if len(self.heard) == self.fails_at:
            raise OSError("no space\nleft")
        self.heard.append(call)

    def start(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        self.hear("start", name, parameters)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.hear("log", step, values)

    def finish(self, figures: Mapping[str, float]) -> None:
        self.hear("finish", figures)


class Stuck(Nothing):
    """Answers to nothing until it is let go."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def start(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        self.released.wait(10)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    tracker = Stuck()
    yield tracker
    tracker.released.set()


def drive(tracker: SafeTracker, name: str = "run") -> None:
    tracker.start(name, {"seed": 1})
    values = {"loss": 1.0}
    tracker.log(1, values)
    values["loss"] = 2.0  # what was logged stays as it was
    tracker.finish({"accuracy": 0.9})


def test_everything_is_passed_on_in_order_by_another_thread() -> None:
    recorder, said = Recorder(), list[str]()
    tracker = SafeTracker(recorder, warn=said.append)
    drive(tracker)
    drive(tracker, "second")
    assert recorder.heard[:3] == [
        ("start", "run", {"seed": 1}),
        ("log", 1, {"loss": 1.0}),
        ("finish", {"accuracy": 0.9}),
    ]
    assert recorder.heard[3] == ("start", "second", {"seed": 1})
    assert len(recorder.heard) == 6
    assert recorder.threads == {"ofediq-tracker"}
    assert said == []


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_failure_is_told_once_and_ends_the_tracking(fails_at: int) -> None:
    recorder, said = Recorder(fails_at), list[str]()
    tracker = SafeTracker(recorder, "disk", said.append)
    drive(tracker)
    drive(tracker)
    assert said == ["disk tracker: no space left; the run goes on without it"]
    assert len(recorder.heard) == fails_at


def test_the_caller_is_told_in_its_own_thread() -> None:
    threads = list[str]()
    drive(SafeTracker(Recorder(1), warn=lambda _: threads.append(threading.current_thread().name)))
    assert threads == [threading.current_thread().name]


def test_a_tracker_that_hangs_is_left_behind(stuck: Stuck) -> None:
    said = list[str]()
    tracker = SafeTracker(stuck, "far", said.append, patience=0.05)
    drive(tracker)
    drive(tracker)
    assert said == ["far tracker: no answer within 0.05 seconds; the run goes on without it"]


def test_a_tracker_that_falls_behind_is_given_up(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe, "BACKLOG", 10)
    said = list[str]()
    tracker = SafeTracker(stuck, "slow", said.append)
    tracker.start("run", {})
    for step in range(100):
        tracker.log(step, {"loss": 0.0})
    tracker.finish({})
    assert said == ["slow tracker: more than 10 calls behind; the run goes on without it"]


def test_a_failure_is_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    drive(SafeTracker(Recorder(0), "disk"))
    assert [record.message for record in caplog.records] == [
        "disk tracker: no space left; the run goes on without it"
    ]


def test_calls_without_a_run_do_nothing() -> None:
    recorder, said = Recorder(), list[str]()
    tracker = SafeTracker(recorder, warn=said.append)
    tracker.log(1, {"loss": 1.0})
    tracker.finish({})
    assert (recorder.heard, said) == ([], [])
