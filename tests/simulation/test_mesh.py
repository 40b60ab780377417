"""The same run on one device, on several, and on several processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Listener
from pathlib import Path

import jax
import numpy as np
import pytest

from ofediq.errors import InputError, LostProcessError
from ofediq.simulation import client_mesh, join_processes, meeting

PREAMBLE = """
import sys
import jax
import numpy as np
from ofediq import methods, models, streams
from ofediq.simulation import client_mesh, join_processes, simulate

METHODS = [methods.fedogd(0.1), methods.ofediq(0.4, 3, 14, step_size=0.1), methods.ofediq(0.6, 3, 14, period=4),
           methods.ofedavg(0.3, 0.1, preset="authors"), methods.make("topk_ef(keep=20, rate=0.5, step_size=0.1)"),
           methods.make("scaffold(period=3, rate=0.6, step_size=0.1)")]

def runs(mesh):
    stream = streams.partition(streams.load("digits"), clients=10, steps=13, seed=1)  # 10 does not divide by 4
    return [simulate(method, stream, models.softmax(64, 10), seed=2, mesh=mesh) for method in METHODS]

def show(results):
    for result in results:
        print(*result.params[::13], *result.loss, *result.senders, *result.bits_wire, flush=True)
"""

DEVICES = """
jax.config.update("jax_num_cpu_devices", 4)
for mesh in (None, client_mesh(2), client_mesh(4)):  # a mesh of one is among the contracts of every method
    show(runs(mesh))
"""

PROCESS = """
from pathlib import Path
from ofediq.simulation import InterruptedRunError, engine

engine._BLOCK_STEPS = 5
join_processes(sys.argv[1], 2, int(sys.argv[2]))
assert len(jax.devices()) == 2
mesh = client_mesh()
results = runs(mesh)
if jax.process_index() == 0:
    show(results)

def stop(done, steps):
    raise KeyboardInterrupt

first, path = jax.process_index() == 0, Path(sys.argv[3]) / sys.argv[2] / "state.npz"  # a disk of its own for each
for result in results[1:]:
    again = {"seed": 2, "mesh": mesh, "checkpoint": path}
    try:
        simulate(result.method, result.stream, result.model, progress=stop, **again)
    except InterruptedRunError as error:
        assert 0 < error.result.steps < result.steps
    assert path.exists() == first
    resumed = simulate(result.method, result.stream, result.model, resume=True, checkpoint_every=1, **again)
    assert resumed.params.tobytes() == result.params.tobytes(), result.name
    assert resumed.bits_wire.tobytes() == result.bits_wire.tobytes(), result.name
"""


def numbers(output: str) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    return [np.array(line.split(), float) for line in output.splitlines() if line[:1] != "["]  # Gloo greets


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PREAMBLE + code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_one_two_and_four_devices_and_two_processes_agree(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    devices = start(DEVICES)
    processes = [start(PROCESS, address, str(index), str(tmp_path)) for index in range(2)]
    try:
        outputs = [process.communicate(timeout=240) for process in (devices, *processes)]
    finally:
        for process in (devices, *processes):
            process.kill()
    for _, errors in outputs:
        assert "Traceback" not in errors, errors
    expected, *others = np.array_split(np.arange(18), 3)
    lines = numbers(outputs[0][0])
    assert len(lines) == 18
    for mesh in others:
        for one, other in zip(expected, mesh, strict=True):
            np.testing.assert_allclose(lines[other], lines[one], rtol=1e-4, atol=1e-6)
    joined = numbers(outputs[1][0])
    assert len(joined) == 6
    for one, line in zip(expected, joined, strict=True):
        np.testing.assert_allclose(line, lines[one], rtol=1e-4, atol=1e-6)


def test_more_devices_than_there_are() -> None:
    with pytest.raises(InputError, match="`devices` must be at most 1, the devices that JAX found, got 99"):
        client_mesh(99)


def test_bad_process_arguments() -> None:
    with pytest.raises(InputError, match="`index` must be an integer from 0 to 1, got 2"):
        join_processes("127.0.0.1:9000", 2, 2)
    with pytest.raises(InputError, match="`coordinator` must be host:port, got 'here'"):
        join_processes("here", 2, 0)


def test_strangers_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    secret, listener = bytes(range(16)), Listener(("127.0.0.1", 0), backlog=8)
    words = [
        b"GET / HTTP/1.1",
        bytes(16) + bytes(4),
        secret + bytes([2, 0, 0, 0]),
        secret + bytes([1, 0, 0, 0]),
    ]
    links = [meeting._reached(*listener.address) for _ in words]
    for link, word in zip(links, words, strict=True):
        link.send_bytes(word)
    second, third = meeting._accepted(listener, secret)  # in the order of their indices, not of their coming
    for link, name in ((second, b"second"), (third, b"third")):
        link.send_bytes(name)
    assert [links[3].recv_bytes(), links[2].recv_bytes()] == [b"second", b"third"]
    with pytest.raises(EOFError):
        links[0].recv_bytes()
    listener.close()
    for end in (second, third, *links):
        end.close()


def test_a_lost_process_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "process_index", lambda: 0)
    here, there = Pipe()
    there.close()
    with here, pytest.raises(LostProcessError, match="another process of the run is gone"):
        meeting._total([here], {"sum": np.ones(3, np.float32)})
