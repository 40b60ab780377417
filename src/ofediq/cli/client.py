"""`ofediq client`: one client of a live federation."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ofediq.cli.answers import JsonOption
from ofediq.cli.serve import LogFormat, LogOption, stopping
from ofediq.errors import DataError, InputError

if TYPE_CHECKING:
    from ofediq.federation.config import ClientConfig
    from ofediq.federation.network.client import Client
    from ofediq.federation.network.session import Session
    from ofediq.federation.network.sources import Skipped, SourceSample

_LOOK_SECONDS = 1.0


def client(
    config: Annotated[Path, typer.Option(help="The client's TOML file.")],
    log_format: LogOption = LogFormat.text,
    as_json: JsonOption = False,
) -> None:
    """Run one client of a live federation.

    Its samples come from a CSV file, a recorded stream, or standard input
    as JSON lines; those are answered with a prediction each.

    Examples:
      ofediq client --config client.toml
      sensor-reader | ofediq client --config client.toml > predictions.jsonl
    """
    from ofediq.federation.config import ClientConfig
    from ofediq.federation.network.logs import set_up

    set_up(log_format.value)
    chosen = ClientConfig.read(config)
    summary, failed = (
        _from_lines(chosen) if chosen.source.kind == "lines" else asyncio.run(_from_file(chosen))
    )
    text = json.dumps(summary) if as_json else _sentence(summary)
    typer.echo(text, err=chosen.source.kind == "lines")
    if failed is not None and not summary["samples"]:
        raise DataError(f"no sample could be read, of {summary['skipped']:,}: {failed}")


async def _from_file(config: ClientConfig) -> tuple[dict[str, Any], str | None]:
    from ofediq.federation.network.outlets import Outlet
    from ofediq.federation.network.replay import Replay
    from ofediq.federation.network.session import Session
    from ofediq.federation.network.sources import Feeder, Rows, Source
    from ofediq.federation.protocol.learner import Learner
    from ofediq.federation.protocol.memory import MemoryFile

    choice = config.source
    path = str(choice.path)
    file = MemoryFile(Path(str(config.memory.path)), every=config.memory.every)
    learner = Learner(config.federation, config.name, file=file)
    if choice.kind == "replay":
        source: Source = Replay(path)
    else:
        source = Rows(
            path,
            str(choice.target),
            choice.features,
            lambda: learner.features,
            time=choice.time,
            start=lambda: learner.position,
            follow=choice.follow,
        )
    told = config.predictions
    outlet = Outlet(
        config.federation, config.name, path=told.path, publish=told.publish, discovery=told.discovery
    )
    feeder = Feeder(learner, source, outlet)

    def feed() -> list[Any]:
        said = feeder()
        if source.exhausted:
            session.stop()
        return said

    session = Session(learner, config.broker, feed, patience=60.0)
    with stopping(session.stop):
        await (_both(session, feed) if choice.follow else session.run())
    return _summary(learner, session.traffic(), feeder.skipped), feeder.skipped.first


async def _both(session: Session, feed: Callable[[], list[Any]]) -> None:
    """The session, and a look at the file every second: lines come without a message from the server."""

    async def look() -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            session.send(feed())

    looking = asyncio.create_task(look())
    looking.add_done_callback(lambda _: session.stop())  # it ends by an error alone
    try:
        await session.run()
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


def _from_lines(config: ClientConfig) -> tuple[dict[str, Any], str | None]:
    from ofediq.federation.network.client import Client
    from ofediq.federation.network.sources import Skipped, read_lines

    memory, every = config.memory.path, config.memory.every
    told = config.predictions
    with Client(
        config.broker,
        config.federation,
        config.name,
        timeout=60.0,
        memory=memory,
        memory_every=every,
        predictions=told.path,
        publish=told.publish,
        discovery=told.discovery,
    ) as member:
        skipped = Skipped(config.name)
        for sample in read_lines(sys.stdin):
            try:
                answer = _answer(member, sample)
            except InputError as error:
                skipped.add(str(error))
                answer = {"error": str(error), **_named(sample)}
            if answer is not None:
                typer.echo(json.dumps(answer))
    return _summary(member.learner, member.traffic(), skipped), skipped.first


def _answer(member: Client, sample: SourceSample | InputError) -> dict[str, Any] | None:
    """What is said to a line: a prediction; nothing to a label that comes late."""
    from ofediq.federation.network.outlets import described

    if isinstance(sample, InputError):
        raise sample
    answer = None
    if sample.x is not None:
        found = member.forecast_one(sample.x, sample=sample.id, time=sample.time)
        answer = described(found, sample.id)
    if sample.y is not None:
        member.learn_one(sample.x, sample.y, sample=sample.id, time=sample.time)
    return answer


def _named(sample: SourceSample | InputError) -> dict[str, Any]:
    return {} if isinstance(sample, InputError) or sample.id is None else {"id": sample.id}


def _summary(learner: Any, traffic: tuple[int, int], skipped: Skipped) -> dict[str, Any]:
    counts = {"samples": learner.answers.samples, "sent": learner.sent, "step": learner.step}
    counts |= {"skipped": skipped.count, "bytes_received": traffic[0], "bytes_sent": traffic[1]}
    return {"client": learner.name, **counts}


def _sentence(summary: dict[str, Any]) -> str:
    return (
        f"{summary['client']}: {summary['samples']:,} samples, {summary['sent']:,} updates sent, "
        f"last step {summary['step']:,}"
        + (f", {summary['skipped']:,} samples skipped" if summary["skipped"] else "")
    )
