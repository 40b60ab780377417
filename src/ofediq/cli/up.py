"""`ofediq up`: a whole federation on this machine, real processes and a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Meta

from ofediq.cli.answers import JsonOption, answer
from ofediq.cli.options import Given, Variant, options
from ofediq.cli.progress import Reporter
from ofediq.cli.render import facts, show
from ofediq.cli.serve import (
    LogFormat,
    LogOption,
    alone,
    broker_of,
    page_of,
    stopping,
    summary_lines,
    summary_of,
)
from ofediq.errors import extra, require
from ofediq.experiment.config import Config
from ofediq.federation.choices import USUAL_METHOD, PageChoice
from ofediq.federation.names import is_name
from ofediq.federation.network.broker import Broker
from ofediq.federation.protocol.rules import Rules
from ofediq.settings import limited

_MOST_CLIENTS = 500  # processes on one machine
_OWN = {
    "scaling": "none"
}  # errors on the page have the target's own unit, as those of clients with sensors do
_TOUR = {"dataset": "digits", "clients": 20, "steps": 200, "budget": 0.1, "step_size": 0.1}


@options(
    Config,
    "dataset data target client_column time_column options clients steps methods budget "
    "baseline step_size model seed",
    dataset=Variant(help="What they learn; `ofediq data` lists them.", shown="digits"),
    data=Variant(help="Your own file instead, with nothing to tune; needs --target."),
    clients=Variant(
        help="Client processes to start.",
        shown="20; those of the file, or 10 stretches of it",
        kind=Annotated[int, limited(1, _MOST_CLIENTS)],
    ),
    steps=Variant(help="Rounds to run.", name="rounds", shown="200; one pass of a file"),
    methods=Variant(help="What runs; `ofediq methods` lists them.", name="method", shown=USUAL_METHOD),
    budget=Variant(shown="0.1; for a file as in `ofediq run`"),
    step_size=Variant(shown="0.1; none for a file"),
    seed=Variant(help="Seed of the stream and of all draws."),
)
@options(
    Rules,
    into="pacing",
    interval=Variant(
        0.0,
        "Seconds from round to round; 0: as fast as possible.",
        kind=Annotated[float, Meta(ge=0, le=10**7)],
    ),
)
@options(
    Broker,
    into="link",
    address=Variant(
        help="mqtt://localhost:1883 or another broker on this machine.", name="broker", shown="embedded"
    ),
)
@options(PageChoice, into="page", port=Variant())
def up(
    given: Given,
    pacing: Given,
    link: Given,
    page: Given,
    no_page: Annotated[bool, typer.Option("--no-page", help="Serve no page.")] = False,
    browse: Annotated[
        bool | None,
        typer.Option("--browse/--no-browse", help="Open the page.", show_default="if there is a screen"),
    ] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Keep the page open after the last round.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Keep streams, state and logs in this folder.", show_default="a temporary one"),
    ] = None,
    log_format: LogOption = LogFormat.text,
    as_json: JsonOption = False,
) -> None:
    """Try a live federation: broker, server and clients on this machine.

    Every client is a process of its own that replays its part of the
    dataset over MQTT. Watch it on the page whose address is printed.
    With --data they read your own file row by row: clients by a column of
    it, or stretches of it; each makes its features itself.

    Examples:
      ofediq up
      ofediq up --data plant.csv --target state --client-column sensor
      ofediq up --clients 5 --rounds 50 --method fedogd --json
      ofediq up --interval 0.5 --rounds 600 --stay
    """
    extra("jax", "sim")
    extra("amqtt", "server")
    from ofediq.federation.network.logs import set_up

    set_up(log_format.value, "warning")
    usual = _TOUR if "data" not in given else _OWN
    choices = Config(**{**usual, "methods": (USUAL_METHOD,), **given})
    require(len(choices.methods) == 1, "method", "must be one method", ",".join(choices.methods))
    broker = Broker(**link, insecure=True) if link else None
    shown = PageChoice(**page, enabled=not no_page)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) if out is None else out
        stack.enter_context(alone("out", folder))
        summary = asyncio.run(_up(choices, broker, shown, folder, pacing["interval"], stay, _browses(browse)))
    answer(summary, as_json, _show)
    if summary["state"] != "finished":
        hint = "" if out is None else f"; the same command with --out {out} continues"
        typer.echo(f"Stopped before its last round{hint}.", err=True)
        raise typer.Exit(130)


def _show(summary: dict[str, Any]) -> None:
    sent, received = summary["bytes_sent"] / 1e3, summary["bytes_received"] / 1e3
    lines = summary_lines(summary)
    if sent:  # clients that were stopped have not said
        lines["clients' sockets"] = f"{sent:,.1f} kB sent, {received:,.1f} kB received"
    show(facts(lines))


def _browses(wanted: bool | None) -> bool:
    """Whether to open a browser: as wanted, else only where somebody sits in front of it."""
    if wanted is not None:
        return wanted
    screen = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return screen and sys.stderr.isatty()


async def _up(
    choices: Any, broker: Any, page: Any, folder: Path, interval: float, stay: bool, browse: bool
) -> dict[str, Any]:
    from ofediq.experiment import Experiment
    from ofediq.federation.local.fleet import Fleet, names_of, record
    from ofediq.federation.network.server import Server
    from ofediq.federation.setup import coordinate

    experiment = Experiment.set_up(choices)
    stream, method, spec = experiment.readings, next(iter(experiment.methods.values())), experiment.spec
    assert stream is not None  # `set_up` made it
    assert spec is not None
    limit = f"must be at most {_MOST_CLIENTS} processes: --clients, or another --client-column"
    require(stream.clients <= _MOST_CLIENTS, "clients", limit, stream.clients)
    rules = Rules(
        pace="interval" if interval else "asap",
        interval=interval or 1.0,
        deadline=max(interval, 10.0),
        start_clients=stream.clients,
        rounds=max(1, len(method.ends(stream.steps))),
        roster=names_of(stream),
        open=False,
    )
    name = choices.name if choices.data is not None and is_name(choices.name) else "tour"
    coordinator = coordinate(
        name, method, spec, rules, seed=choices.seed, folder=folder, budget=experiment.config.budget
    )
    with Reporter() as reporter:
        for note in experiment.notes:
            reporter.note(note)
        async with broker_of(broker) as where, page_of(coordinator.monitor, page) as address:
            if address is not None:
                reporter.say(f"Page: {address}")
                if browse:
                    webbrowser.open(address)
            reporter.say(f"Starting {stream.clients} clients ...")
            configs = record(stream, folder / "clients", name, where)

            def advanced() -> None:
                reporter.advanced(int(method.number_to(coordinator.step)))

            server = Server(coordinator, where, folder, 60.0, advanced)
            reporter.started("rounds", rules.rounds or 0)
            with stopping(server.stop), Fleet(configs, folder / "clients") as fleet:
                await server.run()
                # Where all is said they end by themselves, on a busy machine after a while.
                sockets = await asyncio.to_thread(fleet.sockets, 60.0 if coordinator.finished else 5.0)
            reporter.finished("done" if coordinator.finished else "stopped")
            if stay and address is not None and coordinator.finished:
                reporter.say("The page stays open: Ctrl-C ends it.")
                stop = asyncio.Event()
                with stopping(stop.set):
                    await stop.wait()
    return {**summary_of(coordinator.monitor), **sockets, "bytes_total": sum(sockets.values())}
