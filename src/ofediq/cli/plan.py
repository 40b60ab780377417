"""`ofediq plan`: a bit budget in, parameters out."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ofediq.cli.answers import JsonOption, answer
from ofediq.cli.options import Given, Variant, options
from ofediq.errors import DataError, InputError, extra, refusing, require, require_integer
from ofediq.experiment.config import Config

if TYPE_CHECKING:
    from ofediq.methods.budgets.allowance import Counted
    from ofediq.theory import Plan, RateModel


_SAMPLE_OPTIONS = {
    "target",
    "client_column",
    "time_column",
    "options",
    "model",
    "hidden",
    "preset",
    "step_size",
}


class PlanMethod(StrEnum):
    """How to choose the parameters."""

    exact = "exact"
    paper = "paper"
    measured = "measured"


class Assumption(StrEnum):
    """What updates look like, where no samples are given."""

    gaussian = "gaussian"
    laplace = "laplace"


@options(
    Config,
    "budget budget_of bytes_per_hour step_seconds clients data target client_column time_column options "
    "model hidden preset step_size",
    panels=False,
    budget=Variant(
        help="Allowed uplink bits as a fraction of FedOGD's (0.01 = a hundredth), in (0, 1].", shown="none"
    ),
    budget_of=Variant(
        help="What the budget is a share of: formula (payload bits: OFedIQ's parameters), uplink (all bytes up), "
        "total (all bytes, both ways)."
    ),
    clients=Variant(shown="1000, or the number of capacities, or those of the sample"),
    data=Variant(
        name="sample",
        help="With a contract of all bytes: your own file, on which methods are tried for a while.",
    ),
)
def plan(
    given: Given,
    dim: Annotated[
        int | None,
        typer.Option(help="Number of model parameters.", show_default="those of the sample's model"),
    ] = None,
    method: Annotated[
        PlanMethod,
        typer.Option(
            "--method",
            "--planner",
            help="exact: the true optimum; paper: Algorithm 3 as written; measured: best for bits on the wire.",
        ),
    ] = PlanMethod.exact,
    capacities: Annotated[
        Path | None,
        typer.Option(
            help="Text file with one relative uplink capacity per client: one rate for each of them."
        ),
    ] = None,
    updates: Annotated[
        Path | None,
        typer.Option(
            help="With measured: .npy file with sample updates, one per row, that bits and variance are fitted to."
        ),
    ] = None,
    assume: Annotated[
        Assumption | None,
        typer.Option(
            help="With measured and no samples: the distribution of coordinates.", show_default="gaussian"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Choose sampling rate, quantisation levels and blocks for a bit budget.

    The regret is at most sqrt(alpha |w*|^2 K^2 sigma_diff^2 T):
    the smaller alpha, the better. The table shows it beside OFedAvg's
    and FedOGD's, with the expected uplink bits of all clients per step.

    Examples:
      ofediq plan --budget 0.01 --dim 34826
      ofediq plan --budget 0.1 --dim 34826 --clients 200 --method paper
      ofediq plan --budget 0.05 --dim 5889 --capacities uplinks.csv --json
      ofediq plan --budget 0.01 --dim 34826 --method measured --updates u.npy
      ofediq plan --budget 0.01 --budget-of total --dim 34826
      ofediq plan --bytes-per-hour 20000 --step-seconds 60 --dim 34826
      ofediq plan --bytes-per-hour 20000 --sample plant.csv --target load
    """
    from ofediq.theory import plan as make_plan

    contract, seconds = given.pop("bytes_per_hour", None), given.pop("step_seconds", 60.0)
    counted = given.pop("budget_of", "formula")
    if dim is not None:
        require_integer("dim", dim, 1)
    if (contract is None) == ("budget" not in given):
        raise InputError("`budget` or `bytes_per_hour` must be given, one of them")
    if contract is not None and counted != "formula":
        raise InputError(f"`budget_of` needs `budget`, which it is a share of, got {counted!r}")
    if "data" in given:
        if contract is None and counted != "total":
            raise InputError("`sample` needs `bytes_per_hour`, a contract to plan for, or `budget_of` total")
        _pilot(contract, seconds, dim, given, as_json)
        return
    for name in _SAMPLE_OPTIONS & given.keys():
        raise InputError(f"`{name}` needs `sample`, a file")
    if dim is None:
        raise InputError("`dim` must be given, or `sample`, a file whose model has one")
    if contract is not None or counted != "formula":
        allowed = None if contract is None else contract * seconds / 3600
        found = _contract(allowed, given.get("budget", 1.0), counted, dim, given.get("clients", 1000))
        _show_contract(found, seconds, as_json)
        return
    shares = None if capacities is None else _read_numbers(capacities)
    rates = _rates(dim, updates, assume)
    result = make_plan(dim=dim, method=method.value, capacities=shares, rates=rates, **given)
    answer(result.to_dict(), as_json, lambda _: _show(result))


def _pilot(
    contract: float | None, seconds: float, dim: int | None, given: dict[str, Any], as_json: bool
) -> None:
    """Try what fits on the user's data."""
    extra("jax", "sim")
    from ofediq.experiment.pilot import pilot

    fleet = given.pop("clients", None)
    own = given.get("client_column") is not None
    config = Config(**given, clients=None if own else fleet, regret=False)
    named = ("data", "target", "client_column", "time_column", "model", "preset", "step_size")
    source = "".join(f" --{name.replace('_', '-')} {given[name]}" for name in named if name in given)
    allowed = None if contract is None else contract * seconds / 3600
    found = pilot(config, allowed, dim=dim, clients=fleet)
    _show_contract(found, seconds, as_json, source)


def _contract(
    allowed: float | None, budget: float, counted: Counted, dim: int, clients: int
) -> dict[str, Any]:
    """OFedDuplex for so many bytes per step, or a share of FedOGD's; OFedGrid where only those up count."""
    from ofediq.experiment.pilot import contract
    from ofediq.methods import at_budget
    from ofediq.methods.budgets.allowance import all_of_fedogd

    said = "budget" if allowed is None else "bytes_per_hour"
    if allowed is not None:
        counted = "total"
    full = all_of_fedogd(counted, dim)
    allowed = budget * full if allowed is None else allowed
    if allowed >= full:
        raise InputError(f"`{said}` allows {allowed:,.0f} bytes per step; FedOGD needs {full:,.0f}: use it")
    name = "ofedduplex" if counted == "total" else "ofedgrid"
    method = at_budget(name, allowed / full, dim, clients, budget_of=counted)
    return contract(method, name, allowed, dim, clients, counted)


def _show_contract(found: dict[str, Any], seconds: float, as_json: bool, source: str = "") -> None:
    """The method for a contract of bytes, and what a pilot saw of it."""
    from ofediq.cli import render
    from ofediq.report import value_text

    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    down = _amount(found["bytes_down"])
    if "bits_per_move" in found:
        down += f", a move of {found['bits_per_move'] / 8:,.0f} bytes at a time"
    up = _amount(found["bytes_up"]) + (f", spread {found['spread']:.1f}" if "spread" in found else "")
    facts = {
        "bytes": f"{_amount(found['bytes_per_step'])} {'up ' * (found['budget_of'] == 'uplink')}per client and step, "
        f"{100 * found['budget']:.4g}% of FedOGD's",
        "up": up,
        "down": down,
        "period L": f"{found['period']:.3g} steps on average, {_span(found['period'] * seconds)}",
    }
    command = f'ofediq run{source} --methods "fedogd,{found["method"]}"'
    pilot: list[Any] = []
    if "expected" in found:
        expected, metric = found["expected"], found["expected"]["metric"]
        below = expected.get("points_below", 0.0)
        beside = (
            f"{abs(below):.2f} points {'below' if below > 0 else 'above'} FedOGD"
            if metric == "accuracy"
            else f"{expected['times_fedogd']:.3g} times FedOGD's"
        )
        facts["expected"] = f"{metric} {value_text(expected['value'], metric)}, {beside}"
        rows = [
            (row["method"], value_text(row["value"], metric), _amount(row["bytes_per_step"]))
            for row in found["pilot"]["rows"]
        ]
        pilot = [render.table(("pilot", metric, "bytes per step"), rows), *found["pilot"]["notes"]]
    facts["try it"] = f"{command} --budget {found['budget']:.3g} --budget-of {found['budget_of']}"
    title = f"{found['method']} for {_number(found['dim'], 'parameter')} and {_number(found['clients'], 'client')}"
    render.show(render.heading(title), render.facts(facts), *pilot)


def _amount(number: float) -> str:
    """One digit after the point, and at least three that count."""
    return f"{number:,.1f}" if number >= 10 or number == 0 else f"{number:.3g}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _span(seconds: float) -> str:
    """So long on the clock, in the largest unit that has one of it."""
    units = (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0))
    name, unit = next((one for one in units if seconds >= one[1]), ("second", 1.0))
    return f"{seconds / unit:.3g} {name}{'' if seconds == unit else 's'}"


def _rates(dim: int, updates: Path | None, assume: Assumption | None) -> RateModel | None:
    """The model that the options ask for; None if they ask for none."""
    from ofediq.theory import fitted_rates, gaussian_rates, laplace_rates

    if updates is None:
        return {None: None, "gaussian": gaussian_rates(), "laplace": laplace_rates()}[assume]
    if assume is not None:
        raise InputError(f"`assume` must not be given together with `updates`, got {assume.value!r}")
    model = fitted_rates(_read_array(updates))
    length = model.updates.shape[1]
    require(length == dim, "updates", f"must have {dim} coordinates each, as `dim` says", length)
    return model


def _show(result: Plan) -> None:
    from ofediq.cli import render
    from ofediq.theory import fedogd_guarantee

    rate = f"{result.mean_rate:.4g}"
    if isinstance(result.rate, tuple):
        rate = f"{min(result.rate):.4g} to {max(result.rate):.4g}, mean {rate}"
    everything = fedogd_guarantee(dim=result.dim, clients=result.clients)
    raw = result.budget * everything.bits_per_step
    render.show(
        render.heading(
            f"OFedIQ for {result.dim:,} parameters and {result.clients:,} clients ({result.method})"
        ),
        render.facts(
            {
                "rate p": rate,
                "levels s": f"{result.levels:,}",
                "blocks b": f"{result.blocks:,}",
                "period L": str(result.period),
                "budget": f"{result.budget:.4g} of FedOGD's uplink bits, {result.budget_used:.1%} of it used",
            }
        ),
        render.table(
            ("", "alpha", "bits per step", "CCR"),
            [
                ("OFedIQ, this plan", *_row(result.regret_constant, result.bits_per_step, result.ccr)),
                ("OFedAvg, same budget", *_row(result.ofedavg_constant, raw, 1 - result.budget)),
                ("FedOGD", *_row(*everything, 0.0)),
            ],
        ),
        *(f"Note: {note}" for note in result.notes),
    )


def _row(alpha: float, bits: float, ccr: float) -> tuple[str, str, str]:
    return f"{alpha:.5g}", f"{bits:,.0f}", f"{ccr:.2%}"


def _read_array(path: Path) -> Any:
    from ofediq.storage import read_arrays

    with refusing("updates", "a readable .npy file", path, ValueError, kind=DataError):
        return read_arrays(path)


def _read_numbers(path: Path) -> list[float]:
    """The numbers in a text file, separated by commas, blanks or line ends."""
    with refusing("capacities", "a readable text file", path, UnicodeDecodeError, kind=DataError):
        words = path.read_text(encoding="utf-8").replace(",", " ").split()
    with refusing("capacities", "a file of numbers only", path, ValueError, kind=DataError):
        return [float(word) for word in words]
