import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import ours, workloads
from benchmarks.peers.codecs import ours as our_codecs
from benchmarks.peers.processes import bounded
from benchmarks.peers.scripts.codec import Codec, measure
from benchmarks.peers.scripts.task import Recorder, load, save
from benchmarks.peers.workloads import Prepared, Workload
from ofediq import models, streams
from ofediq.simulation import simulate

DIGITS = Workload("digits", "digits", "softmax", budget=0.1, clients=12, steps=8)


@pytest.fixture
def prepared() -> Prepared:
    stream = streams.partition(streams.load("digits"), 12, 8)
    return workloads.assemble(DIGITS, models.softmax(64, 10), stream)


def test_the_senders_of_the_file_are_those_of_the_simulation(prepared: Prepared) -> None:
    result = simulate(prepared.method, prepared.stream, prepared.model, workloads.SEED)
    np.testing.assert_array_equal(prepared.task.senders.sum(1), result.senders)
    assert 0 < prepared.load.rate < 1


def test_a_window_sends_at_its_end() -> None:
    stream = streams.partition(streams.load("digits"), 12, 8)
    work = Workload("digits", "digits", "softmax", budget=0.02, period=4, clients=12, steps=8)
    prepared = workloads.assemble(work, models.softmax(64, 10), stream)
    result = simulate(prepared.method, stream, prepared.model, workloads.SEED)
    np.testing.assert_array_equal(prepared.task.senders.sum(1), result.senders[3::4])


def test_a_task_comes_back_from_its_file_and_gives_the_same_run(prepared: Prepared, tmp_path: Path) -> None:
    save(prepared.task, tmp_path / "work.npz")
    task = load(tmp_path / "work.npz")
    again = simulate(*ours.parts(task), workloads.SEED)
    once = simulate(prepared.method, prepared.stream, prepared.model, workloads.SEED)
    np.testing.assert_array_equal(again.params, once.params)


def test_layers_cut_a_flat_vector_in_the_order_of_the_model(prepared: Prepared) -> None:
    task = prepared.task
    ((weights, bias),) = task.layers(np.arange(650, dtype=np.float32))
    assert weights.shape == (64, 10)
    assert weights[1, 0] == 10
    assert bias[0] == 640


def test_a_recorder_stops_after_its_time_but_not_before_two_windows(prepared: Prepared) -> None:
    recorder = Recorder(prepared.task, seconds=0.0)
    ends = []
    for error in (1.0, 2.0):
        recorder.note([error])
        ends.append(recorder.over)
    assert ends == [False, True]
    assert recorder.errors == [1.0, 2.0]


def test_every_workload_of_the_tables_has_whole_windows() -> None:
    assert all(work.steps % work.period == 0 for work in workloads.catalogue() + workloads.growth())


def test_a_process_is_stopped_at_its_limit_with_its_children(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    done = bounded([sys.executable, "-c", code], 1.0, tmp_path / "log")
    assert done.code is None
    assert done.memory > 2**20


def test_a_process_that_fails_leaves_its_message(tmp_path: Path) -> None:
    done = bounded([sys.executable, "-c", "raise SystemExit('no luck')"], 30.0, tmp_path / "log")
    assert (done.code, done.log.strip()) == (1, "no luck")


def test_a_codec_that_sends_floats_has_no_error_and_32_bits() -> None:
    vectors = np.random.default_rng(0).standard_normal((2, 50)).astype(np.float32)
    plain = Codec("plain", lambda vector: vector.tobytes(), lambda data: np.frombuffer(data, np.float32))
    found = measure(plain, vectors, seconds=0.0)
    assert (found["error"], found["bits"]) == (0, 32)


@pytest.mark.parametrize("codec", our_codecs(), ids=lambda codec: codec.name)
def test_our_codecs_come_back_within_the_error_of_their_quantiser(codec: Codec) -> None:
    vectors = np.random.default_rng(1).standard_normal((2, 1000)).astype(np.float32)
    found = measure(codec, vectors, seconds=0.0)
    lossless = "float32" in codec.name
    # min(c / s^2, sqrt(c) / s) with c = ceil(D/b) = 46 and s = 3 is 2.3; a rotated bit has less than 1
    assert found["error"] == 0 if lossless else 0 < found["error"] < 2.3
    assert found["bits"] < (33 if lossless else 9)
