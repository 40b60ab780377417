"""Two servers of one federation: the later one leads if it knows what the other did, and the earlier one stops."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ofediq import methods
from ofediq.federation import Broker, ModelSpec, Rules, Server, coordinate, embedded
from ofediq.federation.network.leader import SupersededError
from ofediq.federation.network.link import connect
from ofediq.federation.protocol.messages import Publish, write_json
from tests.federation.network import FEDERATION
from tests.federation.test_core import CLIENTS, coordinator

SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)


def server(broker: Broker, folder: Path | None = None, *, steps: int = 0, new: bool = False) -> Server:
    """One that has come so far, and waits for a client that never comes."""
    one = coordinate("f", methods.fedogd(0.1), SPEC, Rules(min_clients=2), folder=folder)
    one.keeper.step = steps
    return Server(one, broker, folder, patience=10.0, new=new)


async def leads(one: Server) -> asyncio.Task[None]:
    """The server's life, once it leads."""
    life = asyncio.create_task(one.run())
    while not one.leader._leads and not life.done():
        await asyncio.sleep(0.01)
    return life


def test_the_earlier_server_stops_with_a_sentence() -> None:
    async def scene() -> str:
        async with embedded() as broker:
            first, second = server(broker), server(broker)
            life, other = await leads(first), await leads(second)
            with pytest.raises(SupersededError) as stopped:
                await asyncio.wait_for(life, 10)
            assert not other.done()
            second.stop()
            await other
            return str(stopped.value)

    assert "another server of 'f' has started since" in asyncio.run(scene())


def test_a_server_that_knows_less_refuses_and_the_other_goes_on() -> None:
    async def scene() -> str:
        async with embedded() as broker:
            first = server(broker, steps=500)
            life = await leads(first)
            with pytest.raises(SupersededError) as refused:
                await asyncio.wait_for(server(broker).run(), 10)
            await asyncio.sleep(0.3)
            assert not life.done()
            newest = server(broker, new=True)
            other = await leads(newest)
            with pytest.raises(SupersededError):
                await asyncio.wait_for(life, 10)
            newest.stop()
            await other
            return str(refused.value)

    sentence = asyncio.run(scene())
    assert "has come to step 500, this server's folder to 0" in sentence
    assert "`--new`" in sentence


def test_a_newcomer_hears_how_far_the_leader_is_now_not_how_far_it_was() -> None:
    """What the broker keeps may be many rounds old."""

    async def scene() -> None:
        async with embedded() as broker:
            first = server(broker)
            life = await leads(first)
            first.coordinator.keeper.step = 500
            with pytest.raises(SupersededError, match="has come to step 500"):
                await asyncio.wait_for(server(broker).run(), 10)
            await asyncio.sleep(0.3)
            assert not life.done()
            first.stop()
            await life

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("claims", "opens"), [([500] * CLIENTS, False), ([10**9, *[0] * (CLIENTS - 1)], True)]
)
def test_clients_that_have_seen_more_keep_a_server_from_opening_a_round(
    claims: list[int], opens: bool
) -> None:
    """Most of them: one that lies changes nothing."""
    for anew in (False, True):
        one = coordinator(methods.fedogd(1.0))
        one.begins_anew = anew
        one.connected(0.0)
        said = []
        for number, step in enumerate(claims):
            said += one.receive(f"{FEDERATION}/here/c{number}", write_json(online=True, step=step), 0.0)
        assert (f"{FEDERATION}/model" in [getattr(each, "topic", "") for each in said]) == (opens or anew)
        if not (opens or anew):
            assert one.ahead == 500


def test_a_server_that_reached_its_broker_once_waits_for_it_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """`patience` is for the start, also where no byte could be counted before the connection broke."""
    monkeypatch.setattr(Server, "_count", lambda *given: None)

    async def scene() -> None:
        async with embedded() as broker:
            one = server(broker)
            one.patience = 0.5
            life = await leads(one)
            await asyncio.sleep(0.6)
        await asyncio.sleep(1.0)
        assert not life.done()
        one.stop()
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scene(), 60))


@pytest.mark.parametrize("period", [None, 1000])
def test_a_task_that_somebody_has_changed_at_the_broker_is_said_again(period: int | None) -> None:
    """Whoever came later would get none, or another one, for ever."""

    async def scene() -> None:
        async with embedded() as broker:
            one = server(broker)
            life = await leads(one)
            await asyncio.sleep(0.2)
            right = one.coordinator.task.encode()
            other = b"" if period is None else json.dumps(json.loads(right) | {"period": period}).encode()
            async with connect(broker, "stranger", ("f/task",)) as link:
                await link.publish(Publish("f/task", other, retain=True))
                heard: list[bytes] = []
                while heard[-2:] != [other, right]:
                    item = await link.receive(20.0)
                    assert item is not None, heard
                    heard += [item[1]] if item[0] == "f/task" else []
            one.stop()
            await life

    asyncio.run(scene())
