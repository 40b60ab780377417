"""`ofediq serve`: the server of a live federation."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ofediq.cli.answers import JsonOption, answer
from ofediq.cli.options import Given, Variant, options
from ofediq.cli.render import facts, show
from ofediq.report.words import skill_text
from ofediq.tracking import TrackerChoice

if TYPE_CHECKING:
    from ofediq.federation.choices import PageChoice
    from ofediq.federation.network.broker import Broker
    from ofediq.federation.protocol.monitor import Monitor
    from ofediq.tracking import Tracker


class LogFormat(StrEnum):
    """How log lines look."""

    text = "text"
    json = "json"


LogOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Log lines for people or for a collector.")
]


@options(TrackerChoice, into="tracked", kind=Variant(shown="the file's"), folder=Variant(shown="the file's"))
def serve(
    tracked: Given,
    config: Annotated[Path, typer.Option(help="The federation's TOML file.")],
    start_from: Annotated[
        Path | None,
        typer.Option(help="Begin with this model.safetensors.", show_default="the file's"),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Lead though another server or the clients have come further.")
    ] = False,
    log_format: LogOption = LogFormat.text,
    as_json: JsonOption = False,
) -> None:
    """Run the server of a live federation.

    Publishes the model, collects updates, closes rounds, serves the page.
    Killed and started again, it continues after its last closed round.
    Another model, features or method in the file takes effect while it
    runs, on a share of the clients first with `canary` under rollout.
    Without a broker in the file it runs an embedded one on loopback.

    Examples:
      ofediq serve --config federation.toml
      ofediq serve --config federation.toml --tracker mlflow
      ofediq serve --config federation.toml --log-format json 2> log.jsonl
    """
    from ofediq.federation.config import FederationConfig
    from ofediq.federation.network.logs import set_up

    set_up(log_format.value)
    chosen = FederationConfig.read(config)
    if tracked:  # another tracker has another folder
        known = tracked if "kind" in tracked else {"kind": chosen.tracker.kind, **tracked}
        chosen = replace(chosen, tracker=TrackerChoice(**known))
    if start_from is not None:
        chosen = replace(chosen, start_from=str(start_from))
    with alone("folder", chosen.folder):
        summary = asyncio.run(_serve(chosen, config, new))
    answer(summary, as_json, lambda found: show(facts(summary_lines(found))))
    if summary["unsaved"]:
        raise typer.Exit(1)


async def _serve(config: Any, path: Path, new: bool) -> dict[str, Any]:
    from ofediq.federation.network.server import Server
    from ofediq.federation.network.tracked import RoundTracker
    from ofediq.federation.rollout import Rollout

    rollout = Rollout(path, config)
    coordinator = rollout.start()
    async with broker_of(config.broker) as broker, page_of(coordinator.monitor, config.page) as address:
        if address is not None:
            typer.echo(f"Page: {address}", err=True)
        follower = RoundTracker(coordinator.monitor, tracker_of(config.tracker, config.name))
        server = Server(coordinator, broker, config.folder, 60.0, follower.round, operator=rollout, new=new)
        with stopping(server.stop):
            await server.run()
        await asyncio.to_thread(follower.end)
    unsaved = coordinator.monitor.problems.get("checkpoint")  # the last state is not on the disk
    return {**summary_of(coordinator.monitor), "unsaved": unsaved}


@contextlib.asynccontextmanager
async def broker_of(broker: Broker | None) -> AsyncIterator[Broker]:
    """The given broker, or an embedded one."""
    from ofediq.federation.network.embedded import embedded

    if broker is not None:
        yield broker
        return
    async with embedded() as own:
        typer.echo(f"Broker: {own.address} (embedded)", err=True)
        yield own


@contextlib.asynccontextmanager
async def page_of(monitor: Monitor, choice: PageChoice) -> AsyncIterator[str | None]:
    """The live page while the context lasts, and its address."""
    if not choice.enabled:
        yield None
        return
    from ofediq.dashboard import page, serve_page

    async with serve_page(page(monitor, token=choice.token), choice.host, choice.port) as address:
        yield address if choice.token is None else f"{address} (it asks for the token)"


@contextlib.contextmanager
def alone(name: str, folder: Path) -> Iterator[None]:
    """Keep `folder`, which the user calls `name`, for this process; one that cannot be written is its to report."""
    from ofediq.locks import held
    from ofediq.storage import require_folder

    require_folder(name, folder)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(folder, name))
        yield


def tracker_of(choice: TrackerChoice, name: str) -> Tracker:
    """The tracker that a configuration asks for."""
    from ofediq.tracking import tracker

    return tracker(choice.kind, choice.folder, experiment=name)


@contextlib.contextmanager
def stopping(stop: Callable[[], None]) -> Any:
    """Call `stop` on Ctrl-C or SIGTERM while the context lasts."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def summary_of(monitor: Monitor) -> dict[str, Any]:
    """What a run came to."""
    snapshot = monitor.snapshot()
    return {
        key: snapshot[key]
        for key in ("federation", "state", "step", "task", "parameters", "totals", "problems")
    }


def summary_lines(summary: dict[str, Any]) -> dict[str, str]:
    """The summary for a terminal."""
    totals = summary["totals"]
    lines = {
        "federation": f"{summary['federation']}, {summary['state']} at step {summary['step']:,}",
        "rounds": f"{totals['rounds']:,}",
        "updates": f"{totals['updates']:,} counted, {totals['left_out']:,} left out by the guard, "
        f"{totals['missed']:,} missed",
        "uplink": f"{totals['bits_wire'] / 8e3:,.1f} kB",
    }
    if totals["ccr"] is not None:
        lines["against FedOGD"] = f"{100 * totals['ccr']:.2f}% fewer bits"
    if totals["error"] is not None:
        known = summary["task"] == "classification"
        name, value = (
            ("accuracy", f"{1 - totals['error']:.1%}") if known else ("mse", f"{totals['error']:.5g}")
        )
        lines[name] = f"{value} of {totals['samples']:,} predictions"
    if totals["skill"] is not None:
        lines["skill"] = f"{skill_text(totals['skill'])} against each client's last value"
    if totals["rejected"]:
        lines["rejected"] = ", ".join(f"{count} {reason}" for reason, count in totals["rejected"].items())
    return lines
