"""The broker that the other tests stand on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiomqtt
import pytest

from tests.federation.mosquitto import Mosquitto, needs_mosquitto

pytestmark = needs_mosquitto


async def publish(broker: Mosquitto, topic: str, payload: str) -> None:
    async with aiomqtt.Client(broker.host, broker.port) as client:
        await client.publish(topic, payload, qos=1, retain=True)


async def retained(broker: Mosquitto, topic: str) -> object:
    async with aiomqtt.Client(broker.host, broker.port) as client, asyncio.timeout(30):
        await client.subscribe(topic, qos=1)
        return (await anext(client.messages)).payload


def test_a_restarted_broker_keeps_its_port_and_what_was_retained(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        port = broker.port
        asyncio.run(publish(broker, "f/model", "one"))
        broker.restart()
        assert broker.port == port
        assert asyncio.run(retained(broker, "f/model")) == b"one"


def test_a_killed_broker_is_gone_and_can_start_again(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        broker.kill()
        with pytest.raises(aiomqtt.MqttError):
            asyncio.run(publish(broker, "f/model", "one"))
        broker.start()
        asyncio.run(publish(broker, "f/model", "two"))
        assert broker.address == f"mqtt://127.0.0.1:{broker.port}"
