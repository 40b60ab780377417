"""A whole federation behind mutual TLS and an access list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.errors import InputError
from ofediq.federation import Broker, BrokerError, Learner, ModelSpec, Rules, Server, Session, coordinate
from ofediq.federation.network.sources import Feeder
from ofediq.federation.security.certificates import issue, make_authority
from ofediq.simulation.oracle import reference
from ofediq.streams import load, partition
from tests.federation.live import InMemory, inject
from tests.federation.messages import forged
from tests.federation.mosquitto import HOST, Mosquitto, secured

NAMES = ("c0", "c1", "c2")
SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder, now=datetime.now(UTC) - timedelta(days=500))
    issue(folder, "broker", "broker", hosts=[HOST])
    issue(folder, "server", "server")
    for name in NAMES:
        issue(folder, name)
    issue(folder, "expired", now=datetime.now(UTC) - timedelta(days=400), days=30)
    return folder


@pytest.fixture(scope="module")
def mosquitto(certs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("broker"), secured(certs, "vault", NAMES), secure=True) as running:
        yield running


def as_(name: str, mosquitto: Mosquitto, certs: Path) -> Broker:
    """The broker, with the certificate of `name`."""
    ca, certificate, key = (
        str(certs / name / file) for file in ("authority.pem", "certificate.pem", "key.pem")
    )
    return Broker(mosquitto.address, ca=ca, certificate=certificate, key=key)


def test_it_learns_as_in_the_open_and_forgeries_never_arrive(mosquitto: Mosquitto, certs: Path) -> None:
    stream = partition(load("digits"), clients=3, steps=10, seed=1)
    method = methods.fedogd(0.1)
    rules = Rules(roster=NAMES, open=False, min_clients=3, rounds=10, clip=None)
    server = coordinate("vault", method, SPEC, rules)
    sessions = []
    for number, name in enumerate(NAMES):
        learner = Learner("vault", name)
        feeder = Feeder(learner, InMemory(stream, number))
        sessions.append(Session(learner, as_(name, mosquitto, certs), feeder, patience=10.0))

    async def run() -> None:
        async with asyncio.timeout(60):
            everyone = [Server(server, as_("server", mosquitto, certs), patience=10.0).run()]
            await asyncio.gather(*everyone, *(session.run() for session in sessions))

    # c2 forges an update of c1 and the last word of c0 before the others are there: the broker drops both.
    inject(as_("c2", mosquitto, certs), forged("vault"))
    asyncio.run(run())
    wanted = reference(method, stream, models.softmax(64, 10))
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-4, atol=1e-5)
    assert server.monitor.rejected == {}


def test_an_expired_certificate_is_refused(mosquitto: Mosquitto, certs: Path) -> None:
    learner = Learner("vault", "expired")
    session = Session(learner, as_("expired", mosquitto, certs), list, patience=60.0)
    with pytest.raises(BrokerError, match=r"refuses .*(expired|certificate|alert)"):
        asyncio.run(session.run())
    assert not learner.ready


def test_no_certificate_is_refused(mosquitto: Mosquitto, certs: Path) -> None:
    bare = Broker(mosquitto.address, ca=str(certs / "c0" / "authority.pem"))
    session = Session(Learner("vault", "c0"), bare, list, patience=60.0)
    with pytest.raises(BrokerError, match=r"refuses .*(certificate|alert)"):
        asyncio.run(session.run())


def test_a_broker_of_another_authority_is_refused(mosquitto: Mosquitto, certs: Path, tmp_path: Path) -> None:
    make_authority(tmp_path)
    issue(tmp_path, "c0")
    session = Session(Learner("vault", "c0"), as_("c0", mosquitto, tmp_path), list)
    with pytest.raises(BrokerError, match=r"refuses 'vault\.c0'"):
        asyncio.run(session.run())


def test_without_tls_only_loopback_and_only_when_asked() -> None:
    with pytest.raises(InputError, match="must be mqtts"):
        Broker("mqtt://192.168.0.7:1883", insecure=True)
    with pytest.raises(InputError, match="unless `insecure` is set"):
        Broker("mqtt://127.0.0.1:1883")
