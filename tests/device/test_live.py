"""The C client in a live federation, among Python clients, behind mutual TLS."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ofediq import models
from ofediq.federation.local.fleet import client_names
from ofediq.federation.network.server import Server
from ofediq.federation.network.session import Session
from ofediq.federation.network.sources import Feeder, SourceSample
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.security.certificates import issue, make_authority
from ofediq.federation.setup import coordinate
from ofediq.methods import Method, ofedgrid, ofediq
from ofediq.simulation import reference
from ofediq.streams import load, partition
from tests.device.replay import CHECKED, compiled
from tests.device.test_client import DIGITS
from tests.device.test_features import samples, server_of
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


class Listed:
    """Samples in their order, one for each step, as a source."""

    def __init__(self, rows: Sequence[SourceSample | None]) -> None:
        self.rows, self.exhausted, self.position = rows, False, 0

    def at(self, step: int) -> SourceSample | None:
        return self.rows[step - 1] if step <= len(self.rows) else None

    def write(self, file: Path) -> None:
        """A line for each step, as the C client reads them."""
        lines = []
        for row in self.rows:
            cells = [] if row is None else [*(repr(float(each)) for each in np.ravel(row.x)), str(row.y)]
            lines.append(",".join(cells))
        file.write_text("\n".join(lines) + "\n")


def together(
    server: Coordinator, sources: Sequence[Listed], folder: Path, certs: Path, *, device: bool
) -> str | None:
    """Run a federation to its end; its last client is in C and its words are returned, or in Python."""
    names, others = client_names(CLIENTS), CLIENTS - 1 if device else CLIENTS
    folder.mkdir()

    def session(number: int, mosquitto: Mosquitto) -> Session:
        learner = Learner("mixed", names[number])
        broker = as_(names[number], mosquitto, certs)
        return Session(learner, broker, Feeder(learner, sources[number]), patience=10.0)

    async def in_c(mosquitto: Mosquitto) -> str:
        program = compiled(server.task, folder / "c", *CHECKED, "-lmosquitto", main="mqtt.c")
        sources[-1].write(folder / "samples.csv")
        own = [str(certs / names[-1] / file) for file in ("authority.pem", "certificate.pem", "key.pem")]
        said = [mosquitto.host, str(mosquitto.port), "mixed", names[-1], str(folder / "samples.csv"), *own]
        running = await asyncio.create_subprocess_exec(
            program, *said, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, err = await running.communicate()
        finally:
            if running.returncode is None:
                running.kill()
                await running.wait()
        assert running.returncode == 0, err.decode()
        assert err == b""
        return out.decode()

    async def run(mosquitto: Mosquitto) -> str | None:
        async with asyncio.timeout(120):
            printed, *_ = await asyncio.gather(
                in_c(mosquitto) if device else asyncio.sleep(0),
                Server(server, as_("server", mosquitto, certs), patience=10.0).run(),
                *(session(number, mosquitto).run() for number in range(others)),
            )
            return printed

    with Mosquitto(folder / "broker", secured(certs, "mixed", names), secure=True) as mosquitto:
        return asyncio.run(run(mosquitto))


def rules_of(rounds: int) -> Rules:
    """Everyone takes part in every round, and nobody is left out."""
    names = client_names(CLIENTS)
    return Rules(roster=names, open=False, min_clients=CLIENTS, rounds=rounds, clip=None, deadline=30.0)


@needs_library
@needs_mosquitto
@pytest.mark.parametrize(
    "method", [ofedgrid(20_000.0, STEPS), ofediq(0.7, 3, 14, period=2)], ids=["ofedgrid", "ofediq"]
)
def test_a_federation_of_python_and_c_clients_learns_what_python_alone_does(
    method: Method, tmp_path: Path, certs: Path
) -> None:
    stream = partition(load("digits"), clients=CLIENTS, steps=STEPS, seed=3)
    rules = rules_of(STEPS // method.period)
    server = coordinate("mixed", method, DIGITS, rules, seed=5)
    parts = [InMemory(stream, number) for number in range(CLIENTS)]
    sources = [Listed([part.at(step) for step in range(1, STEPS + 1)]) for part in parts]
    printed = together(server, sources, tmp_path / "mixed", certs, device=True)
    wanted = reference(method, stream, models.softmax(64, 10), seed=5)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-4, atol=1e-5)
    totals = server.monitor.totals()
    assert totals["updates"] == wanted.senders.sum()
    assert totals["samples"] == CLIENTS * STEPS
    assert printed is not None
    assert printed.startswith(f"samples {STEPS}, updates ")
    assert server.monitor.totals()["rejected"] == {}


@needs_library
@needs_mosquitto
@pytest.mark.parametrize("model", ["", "classes = 3"], ids=["numbers", "labels"])
def test_a_device_that_makes_its_own_features_is_as_good_a_member_as_a_python_client(
    model: str, tmp_path: Path, certs: Path
) -> None:
    described, steps = server_of(tmp_path, model, 'gaps = ["x0"]', "ofedgrid"), 40
    spec = described.task.model
    assert spec is not None

    def run(device: bool) -> Coordinator:
        server = coordinate("mixed", described.method, spec, rules_of(steps), seed=5)
        streams = [samples(spec, np.random.default_rng(number)) for number in range(CLIENTS)]
        sources = [Listed([SourceSample(*one) for one in itertools.islice(each, steps)]) for each in streams]
        together(server, sources, tmp_path / f"device-{device}", certs, device=device)
        return server

    mixed, python = run(True), run(False)
    assert mixed.monitor.totals()["rejected"] == {}
    for count in ("updates", "samples", "rounds"):
        assert mixed.monitor.totals()[count] == python.monitor.totals()[count]
    assert mixed.monitor.totals()["samples"] >= CLIENTS * (
        steps - 1
    )  # a first guess from nothing is not judged
    np.testing.assert_allclose(mixed.params, python.params, rtol=1e-3, atol=1e-4)
