"""`ofediq run`: compare methods on a stream, at equal bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ofediq.cli.answers import JobsOption, JsonOption, answer, require_simulator
from ofediq.cli.options import Given, options
from ofediq.errors import InputError, require_integer
from ofediq.experiment.config import MACHINES, Config
from ofediq.tracking import TrackerChoice

if TYPE_CHECKING:
    from ofediq.tracking import Tracker

_RUNS = Path("runs")
_COUNTED = {"formula": "uplink bits", "uplink": "bytes up", "total": "bytes, both ways"}
_FILE_OPTIONS = ("data", "target", "client_column", "time_column")


@options(Config)
@options(TrackerChoice, into="tracked")
def run(
    given: Given,
    tracked: Given,
    config: Annotated[
        Path | None, typer.Option(help="Repeat a run from its config.json; other options override it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files.", show_default="a new runs/DATASET-PRESET")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in the folder.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the unfinished run in the folder.")
    ] = False,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(help="Save the state every so many steps.", show_default="when interrupted"),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            help="Split the clients over so many processes on this machine.", rich_help_panel=MACHINES
        ),
    ] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(
            help="host:port of the first of several processes, on many machines.", rich_help_panel=MACHINES
        ),
    ] = None,
    process: Annotated[
        int | None, typer.Option(help="Which of them this one is, from 0.", rich_help_panel=MACHINES)
    ] = None,
    of: Annotated[int | None, typer.Option(help="How many there are.", rich_help_panel=MACHINES)] = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare online federated methods on a stream, all at the same number of bits.

    At every step each client predicts, then learns, then may send. The table
    shows accuracy or error, the bits sent and the naive answers to beat; the
    folder gets config.json, metrics.parquet, figure.png and summary.json.

    Examples:
      ofediq run
      ofediq run --dataset room --budget 0.05 --methods ofediq,local --seeds 3
      ofediq run --data plant.csv --target state --client-column sensor
      ofediq run --resume --out runs/digits-paper
      ofediq run --config runs/digits-paper/config.json --budget 0.1
      ofediq run --dataset mnist --clients 100000 --processes 2
    """
    if checkpoint_every is not None:
        require_integer("checkpoint_every", checkpoint_every, 1)
    if processes is not None:
        require_integer("processes", processes, 1, 1024)
    if resume and force:
        raise InputError("`resume` and `force` exclude each other: continue the run, or replace it")
    require_simulator()
    chosen = _configuration(given, config, out if resume else None)
    if resume and out is not None and (summary := _finished(chosen, out)) is not None:
        answer(summary, as_json, _show)
        return
    follower = _tracker(chosen, TrackerChoice(**tracked))
    with _together(chosen, processes, coordinator, process, of) as first:
        if not first:
            return
        summary = _execute(chosen, out, resume, force, checkpoint_every, jobs, follower)
    answer(summary, as_json, _show)
    if summary["interrupted"]:
        more = "" if processes is None else f" --processes {processes}"
        typer.echo(
            f"Interrupted; continue with: ofediq run --resume --out {summary['folder']}{more}", err=True
        )
        raise typer.Exit(130)


def _finished(config: Config, out: Path) -> dict[str, Any] | None:
    """The summary of a run that is to be resumed, if there is nothing left to do."""
    from ofediq.experiment import Folder

    folder = Folder(out)
    folder.check(config, resume=True, force=False)
    return folder.read_summary() if folder.finished else None


@contextmanager
def _together(
    config: Config, processes: int | None, coordinator: str | None, process: int | None, of: int | None
) -> Iterator[bool]:
    """This process among others, if there are any; yields whether it is the first, when the others are done."""
    from ofediq.experiment import together

    seat = together.seat_of(coordinator, process, of)
    if processes is not None and seat is not None:
        raise InputError("`processes` and `coordinator` exclude each other: one machine, or many")
    with ExitStack() as stack:
        if processes is not None and processes > 1:
            seat = stack.enter_context(together.spawned(config, processes))
        if seat is not None:
            stack.enter_context(together.joined(seat))
        if seat is not None and seat.process > 0:
            together.help_out(config)
        yield seat is None or seat.process == 0


def _configuration(given: dict[str, Any], file: Path | None, resumed: Path | None) -> Config:
    """What was given, on top of a file or of the run to be resumed."""
    from ofediq.experiment import Folder

    base: dict[str, Any] = {}
    if file is not None:
        base = Config.read(file).to_dict()
    elif resumed is not None and Folder(resumed).holds_run:
        base = Config.read(Folder(resumed).config).to_dict()
    # Another source of data brings its own ways to read and deal them.
    if given.keys() & {"dataset", "data"}:
        for name in ("dataset", *_FILE_OPTIONS, "options", "partition"):
            base.pop(name, None)
    chosen = Config.from_dict({**base, **given})
    for name, kind in (("alpha", "dirichlet"), ("labels", "label")):
        if name in given and chosen.partition != kind:
            raise InputError(f"`{name}` needs partition {kind}, got {chosen.partition}")
    return chosen


def _tracker(config: Config, choice: TrackerChoice) -> Tracker:
    """A tracker by name; a missing package is noticed before the work starts."""
    from ofediq.tracking import tracker

    def warn(sentence: str) -> None:
        typer.echo(f"Note: {sentence}", err=True)

    return tracker(choice.kind, choice.folder, experiment=f"ofediq-{config.name}", warn=warn)


def _execute(
    config: Config,
    out: Path | None,
    resume: bool,
    force: bool,
    checkpoint_every: int | None,
    jobs: int | None,
    tracker: Tracker,
) -> dict[str, Any]:
    """Run the experiment and write its files; everything that can be wrong is found before the work starts."""
    from ofediq.cli.progress import Reporter
    from ofediq.experiment import Experiment, Folder, free_folder, track, unfinished_folder, write_output
    from ofediq.experiment import run as run_experiment

    name = f"{config.name}-{config.preset}"
    folder = None if out is None else Folder(out)
    if folder is None and resume:
        folder = unfinished_folder(_RUNS, name, config)
    if folder is not None:
        folder.check(config, resume=resume, force=force)
    experiment = Experiment.set_up(config)
    folder = folder or free_folder(_RUNS, name)
    with folder.at_work(config, resume=resume, force=force), Reporter() as reporter:
        outcome = run_experiment(
            experiment, folder, reporter, resume=resume, checkpoint_every=checkpoint_every, jobs=jobs
        )
        summary = write_output(experiment.config, folder, outcome, experiment.spec)
    # Last, so that nothing a tracker does can harm the run's own files. An interrupted run comes when it is resumed.
    if outcome.comparison is not None and not outcome.interrupted:
        track(experiment.config, outcome.comparison, tracker, folder.path.name)
    return summary


def _show(summary: dict[str, Any]) -> None:
    if not summary["methods"]:
        return
    from ofediq.cli import render
    from ofediq.report import method_rows, missing_bounds, regret_rows

    render.show(
        render.heading(_title(summary)),
        render.facts(_facts(summary)),
        render.table(*method_rows(summary)),
    )
    regrets = regret_rows(summary)
    if regrets.rows:
        render.show(render.table(*regrets), *missing_bounds(summary))
    folder, files = Path(summary["folder"]), summary["files"]
    if "regret_figure" in files:
        typer.echo(f"Regret: {folder / files['regret_figure']}")
    if "model" in files:
        typer.echo(f"Model: {folder / files['model']}")
    typer.echo(f"Picture: {folder / files['figure']}")


def _title(summary: dict[str, Any]) -> str:
    stream, model = summary["stream"], summary["model"]
    return (
        f"{stream['dataset']}: {model['name']} with {model['dim']:,} parameters, "
        f"{stream['clients']:,} clients, {stream['steps']:,} steps"
    )


def _facts(summary: dict[str, Any]) -> dict[str, str]:
    config, stream = summary["config"], summary["stream"]
    often = stream["predictions"] / stream["samples"]
    seen = (
        f"each seen {often:.3g} times on average"
        if often > 1
        else f"{stream['predictions']:,} of them predicted"
    )
    seen = "each seen once" if often == 1 else seen
    dealt = f", {config['partition']} partition" if config["partition"] else ""
    seeds = f", mean ± standard deviation of {config['seeds']} seeds" if config["seeds"] > 1 else ""
    server = f", server {config['server']}" if config.get("server") else ""
    step = "" if config["preset"] == "auto" and not server else f", step size {config['step_size']:g}"
    promise = f", epsilon {config['epsilon']:g} at delta {config['delta']:g}" if config.get("epsilon") else ""
    low, high = stream.get("target_range") or (0.0, 1.0)
    unit = f"{low:g} to {high:g} counts as 0 to 1: the root of an mse, times {high - low:g}, is in the target's own"
    return {
        "data": f"{stream['samples']:,} samples, {seen}{dealt}",
        **({"unit": unit} if (low, high) != (0.0, 1.0) else {}),
        "budget": f"{config['budget']:g} of FedOGD's {_COUNTED[config.get('budget_of', 'formula')]}{promise}",
        "preset": f"{config['preset']}{server}{step}{seeds}",
        "engine": _engines(summary),
    }


def _engines(summary: dict[str, Any]) -> str:
    """What computed each method, and why not something faster; methods alike named together."""
    names: dict[str, list[str]] = {}
    for method in summary["methods"].values():
        names.setdefault(method["engine"], []).append(method["name"])
    if len(names) == 1:
        return next(iter(names))
    return "\n".join(f"{', '.join(some)}: {engine}" for engine, some in names.items())
