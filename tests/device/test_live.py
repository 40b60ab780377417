"""The C client in a live federation, among Python clients, behind mutual TLS."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import numpy as np
import pytest

from ofediq import models
from ofediq.federation.local.fleet import client_names
from ofediq.federation.network.server import Server
from ofediq.federation.network.session import Session
from ofediq.federation.network.sources import Feeder
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.security.certificates import issue, make_authority
from ofediq.federation.setup import coordinate
from ofediq.methods import Method, ofedgrid, ofediq
from ofediq.simulation import reference
from ofediq.streams import Stream, load, partition
from tests.device.replay import CHECKED, compiled
from tests.device.test_client import DIGITS
from tests.federation.live import InMemory
from tests.federation.mosquitto import HOST, Mosquitto, needs_mosquitto, secured
from tests.federation.test_secure import as_

CLIENTS, STEPS = 4, 12

needs_library = pytest.mark.skipif(
    shutil.which("cc") is None or not Path("/usr/include/mosquitto.h").exists(),
    reason="no C compiler or no libmosquitto-dev here",
)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder)
    issue(folder, "broker", "broker", hosts=[HOST])
    issue(folder, "server", "server")
    for name in client_names(CLIENTS):
        issue(folder, name)
    return folder


def write_samples(stream: Stream, number: int, file: Path) -> None:
    """One client's part of a stream, a line for each step."""
    source, lines = InMemory(stream, number), []
    for step in range(1, stream.steps + 1):
        sample = source.at(step)
        x, y, *_ = (np.zeros(0), None) if sample is None else sample
        lines.append(
            ",".join([*(repr(float(each)) for each in np.ravel(x)), *([] if y is None else [str(y)])])
        )
    file.write_text("\n".join(lines) + "\n")


@needs_library
@needs_mosquitto
@pytest.mark.parametrize(
    "method", [ofedgrid(20_000.0, STEPS), ofediq(0.7, 3, 14, period=2)], ids=["ofedgrid", "ofediq"]
)
def test_a_federation_of_python_and_c_clients_learns_what_python_alone_does(
    method: Method, tmp_path: Path, certs: Path
) -> None:
    stream, names = partition(load("digits"), clients=CLIENTS, steps=STEPS, seed=3), client_names(CLIENTS)
    rules = Rules(
        roster=names,
        open=False,
        min_clients=CLIENTS,
        rounds=STEPS // method.period,
        clip=None,
        deadline=30.0,
    )
    server = coordinate("mixed", method, DIGITS, rules, seed=5)
    program = compiled(server.task, tmp_path / "c", *CHECKED, "-lmosquitto", main="mqtt.c")
    write_samples(stream, CLIENTS - 1, tmp_path / "samples.csv")

    async def run(mosquitto: Mosquitto) -> str:
        sessions = []
        for number, name in enumerate(names[:-1]):
            learner = Learner("mixed", name)
            sessions.append(
                Session(
                    learner,
                    as_(name, mosquitto, certs),
                    Feeder(learner, InMemory(stream, number)),
                    patience=10.0,
                )
            )
        own = [str(certs / names[-1] / file) for file in ("authority.pem", "certificate.pem", "key.pem")]
        said = [mosquitto.host, str(mosquitto.port), "mixed", names[-1], str(tmp_path / "samples.csv"), *own]
        device = await asyncio.create_subprocess_exec(
            program, *said, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(
                    Server(server, as_("server", mosquitto, certs), patience=10.0).run(),
                    *(one.run() for one in sessions),
                )
                out, err = await device.communicate()
        finally:
            if device.returncode is None:
                device.kill()
                await device.wait()
        assert device.returncode == 0, err.decode()
        return out.decode()

    with Mosquitto(tmp_path / "broker", secured(certs, "mixed", names), secure=True) as mosquitto:
        printed = asyncio.run(run(mosquitto))
    wanted = reference(method, stream, models.softmax(64, 10), seed=5)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-4, atol=1e-5)
    totals = server.monitor.totals()
    assert totals["updates"] == wanted.senders.sum()
    assert totals["samples"] == CLIENTS * STEPS
    assert printed.startswith(f"samples {STEPS}, updates ")
    assert server.monitor.totals()["rejected"] == {}
