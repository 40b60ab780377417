"""`ofediq client`: one client of a live federation."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ofediq.cli.serve import LogFormat, LogOption, stopping

if TYPE_CHECKING:
    from ofediq.federation.config import ClientConfig


def client(
    config: Annotated[Path, typer.Option(help="The client's TOML file.")],
    log_format: LogOption = LogFormat.text,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the client did as JSON.")] = False,
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

    set_up(log_format.value, "warning")
    chosen = ClientConfig.read(config)
    summary = _from_lines(chosen) if chosen.source.kind == "lines" else asyncio.run(_from_file(chosen))
    text = json.dumps(summary) if as_json else _sentence(summary)
    typer.echo(text, err=chosen.source.kind == "lines")


async def _from_file(config: ClientConfig) -> dict[str, Any]:
    from ofediq.federation.network.session import Session
    from ofediq.federation.network.sources import Feeder, Replay, Rows, Source
    from ofediq.federation.protocol.learner import Learner
    from ofediq.federation.protocol.memory import MemoryFile

    choice = config.source
    path = str(choice.path)
    file = MemoryFile(Path(str(config.memory.path)), every=config.memory.every)
    learner = Learner(config.federation, config.name, file=file)
    if choice.kind == "replay":
        source: Source = Replay(path)
    else:
        source = Rows(path, str(choice.target), choice.features, lambda: learner.features)
    feeder = Feeder(learner, source)

    def feed() -> list[Any]:
        said = feeder()
        if source.exhausted:
            session.stop()
        return said

    session = Session(learner, config.broker, feed, patience=60.0)
    with stopping(session.stop):
        await session.run()
    received, sent = session.traffic()
    return _summary(config.name, learner, received, sent)


def _from_lines(config: ClientConfig) -> dict[str, Any]:
    from ofediq.federation.network.client import Client
    from ofediq.federation.network.sources import read_lines

    memory, every = config.memory.path, config.memory.every
    with Client(
        config.broker, config.federation, config.name, timeout=60.0, memory=memory, memory_every=every
    ) as member:
        for x, y in read_lines(sys.stdin):
            typer.echo(json.dumps({"prediction": member.predict_one(x), "step": member.step}))
            if y is not None:
                member.learn_one(x, y)
        received, sent = member.traffic()
    return _summary(config.name, member.learner, received, sent)


def _summary(name: str, learner: Any, received: int, sent: int) -> dict[str, Any]:
    counts = {"samples": learner.samples, "sent": learner.sent, "step": learner.step}
    return {"client": name, **counts, "bytes_received": received, "bytes_sent": sent}


def _sentence(summary: dict[str, Any]) -> str:
    return (
        f"{summary['client']}: {summary['samples']:,} samples, {summary['sent']:,} updates sent, "
        f"last step {summary['step']:,}"
    )
