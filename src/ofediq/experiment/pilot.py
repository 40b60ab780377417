"""A pilot: which method suits a contract of bytes, tried for a while on the user's own data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ofediq.errors import InputError
from ofediq.experiment.config import Config
from ofediq.experiment.setup import Experiment
from ofediq.methods import Method, at_budget, own_server
from ofediq.methods.budgets.allowance import Counted, all_of_fedogd, expected_bytes
from ofediq.methods.budgets.connection import fedogd_bytes
from ofediq.methods.budgets.metered import Metered
from ofediq.simulation import simulate

CANDIDATES = (
    "ofedduplex",
    "ofedduplex(down=0.6)",
    "fedomd",
    "seeds_scalars",
    "ftrl_ef",
    "ofedgrid",
    "topk_ef",
)
"""What a pilot tries: compressed both ways, long windows, and, where whole models fit, sparse or rounded updates."""
LONGEST = 300
"""Steps of a pilot, at most."""
_OTHERWISE = ("ofedduplex(averages=False)", "ofedduplex(walks=False)")
"""Where steps would be averaged, or clients walk: one or the other is better on some streams."""
_OVER = 1.1  # of the allowed bytes: more would be another contract


def contract(
    method: Method, text: str, allowed: float, dim: int, clients: int, counted: Counted = "total"
) -> dict[str, Any]:
    """What `method` does with `allowed` bytes per client and step, in all or going up, JSON-ready.

    >>> made = at_budget("ofedduplex", 0.01, 34826, 1000)
    >>> found = contract(made, "ofedduplex", 0.01 * fedogd_bytes(34826), 34826, 1000)
    >>> found["period"], found["bytes_down"] > found["bytes_up"] > 0
    (1.0, True)
    """
    full = all_of_fedogd(counted, dim)
    up = expected_bytes(method, "uplink", dim, clients)
    found = {
        "method": text,
        "budget": allowed / full,
        "budget_of": counted,
        "bytes_per_step": allowed,
        "fedogd_bytes_per_step": full,
        "bytes_up": up,
        "bytes_down": expected_bytes(method, "total", dim, clients) - up,
        "dim": dim,
        "clients": clients,
        "period": method.mean_window,
    }
    if isinstance(method.broadcast, Metered):
        found["bits_per_move"] = method.broadcast.bits
    spread = method.participation.proportional
    return found if spread is None else found | {"spread": spread[0]}


def fitting(
    texts: Sequence[str],
    share: float,
    dim: int,
    clients: int,
    steps: int | None = None,
    preset: str = "paper",
) -> dict[str, Method]:
    """The methods that can live within `share` of all bytes of FedOGD, and send within `steps`, by their text."""
    found: dict[str, Method] = {}
    for text in texts:
        try:
            made = at_budget(text, share, dim, clients, steps=steps, budget_of="total", preset=preset)
        except InputError:
            continue
        sends = steps is None or made.period <= steps
        if made in found.values():
            continue
        if sends and expected_bytes(made, "total", dim, clients) <= _OVER * share * fedogd_bytes(dim):
            found[text] = made
    return found


def pilot(
    config: Config,
    bytes_per_step: float | None = None,
    *,
    dim: int | None = None,
    clients: int | None = None,
    texts: Sequence[str] = CANDIDATES,
) -> dict[str, Any]:
    """Run FedOGD and every candidate that fits on the first steps of the data, and choose.

    Args:
        config: where the data are and how they are read; its methods are of no concern.
        bytes_per_step: what one client may send and receive per step, everything included; None for `config.budget`
            of FedOGD's.
        dim: D of the model that will run; the data's own by default. A pilot spends the same share of FedOGD's bytes.
        clients: K of the fleet; those of the data by default.
        texts: the candidates.

    Returns:
        `contract` of the best one, what to expect of it beside FedOGD, and a row of the pilot for each.
    """
    first = Experiment.set_up(replace(config, methods=("fedogd",), budget=1.0, bytes_per_hour=None))
    stream, size = first.deal(config.seed), first.model.dim
    full, steps = fedogd_bytes(dim or size), min(LONGEST, stream.steps)
    said = "budget" if bytes_per_step is None else "bytes_per_hour"
    if bytes_per_step is None:
        bytes_per_step = full * (config.budget or 1.0)
    share = bytes_per_step / full
    if share >= 1:
        raise InputError(
            f"`{said}` allows {bytes_per_step:,.0f} bytes per step; FedOGD needs {full:,.0f}: use it"
        )
    adam = config.preset == "authors"
    tried, preset = (*texts, *(_OTHERWISE if adam else ())), "authors" if adam else "paper"
    possible = fitting(tried, share, size, stream.clients, steps, preset)
    if config.automatic:  # without a step size: not for methods whose server is a part of them
        possible = {text: one for text, one in possible.items() if not own_server(one)}
    if not possible:
        raise InputError(f"`{said}` must allow more than {bytes_per_step:.3g} bytes per step: nothing fits")
    made = Experiment.set_up(
        replace(
            config,
            methods=("fedogd", *possible),
            budget=share,
            budget_of="total",
            bytes_per_hour=None,
            steps=config.steps if steps == stream.steps else steps,
        )
    )
    short = made.deal(config.seed).head(steps)
    rows = [_row(text, one, made, short, config.seed) for text, one in made.methods.items()]
    best = _best(rows[1:], share * fedogd_bytes(size))
    fleet = dim or size, clients or stream.clients
    chosen = at_budget(best["method"], share, *fleet, budget_of="total", preset=preset)
    found = contract(chosen, best["method"], bytes_per_step, *fleet)
    return {
        **found,
        "expected": _expected(best, rows[0]),
        "pilot": {
            "steps": steps,
            "clients": stream.clients,
            "dim": size,
            "rows": rows,
            "notes": list(made.notes),
        },
    }


def _expected(best: Mapping[str, Any], ceiling: Mapping[str, Any]) -> dict[str, Any]:
    """What the pilot saw of the chosen method beside FedOGD with all bytes."""
    shown = {"metric": best["metric"], "value": best["value"], "fedogd": ceiling["value"]}
    if best["metric"] == "accuracy":
        return shown | {"points_below": 100 * (ceiling["value"] - best["value"])}
    return shown | {"times_fedogd": best["value"] / max(ceiling["value"], 1e-30)}


def _row(text: str, method: Method, made: Experiment, stream: Any, seed: int) -> dict[str, Any]:
    result = simulate(method, stream, made.model, seed, initial=made.initial)
    each = float(result.bytes_total.sum()) / (stream.clients * stream.steps)
    return {
        "method": text,
        "metric": result.metric,
        "value": float(result.curve[-1]),
        "bytes_per_step": each,
        "diverged": bool(result.diverged),
    }


def _best(rows: Sequence[Mapping[str, Any]], allowed: float) -> Mapping[str, Any]:
    """The best of those that kept the contract; if none did, of all."""
    sign = -1 if rows[0]["metric"] == "accuracy" else 1
    kept = [row for row in rows if not row["diverged"] and row["bytes_per_step"] <= _OVER * allowed]
    return min(kept or rows, key=lambda row: sign * row["value"])
