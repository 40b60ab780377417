"""From a configuration to a server that is ready to run."""

from __future__ import annotations

import secrets
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ofediq.arrays import Vector
from ofediq.errors import CheckpointError
from ofediq.federation.config import FederationConfig
from ofediq.federation.model_file import start_from
from ofediq.federation.network.server import STATE_FILE
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.state import ServerState, continuing
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import Method
from ofediq.methods.pieces import describe
from ofediq.methods.privacy import promise_of
from ofediq.models import Model


class _InFolder:
    """A state that is read from the folder."""


_IN_FOLDER = _InFolder()


def assemble(
    config: FederationConfig,
    *,
    saved: ServerState | _InFolder | None = _IN_FOLDER,
    monitor: Monitor | None = None,
) -> Coordinator:
    """The coordinator that a configuration describes.

    Args:
        config: what federation.toml says.
        saved: continue from this; that in its folder, if there is one, where it is left out.
        monitor: where the record goes; a new one if left out.
    """
    model = config.spec()
    built = model.build()
    method = config.method.build(built, len(config.rules.roster), model.pipeline)
    return coordinate(
        config.name,
        method,
        model,
        config.rules,
        seed=config.seed,
        folder=config.folder,
        initial=None if config.start_from is None else start_from(config.start_from, built, model),
        saved=saved,
        monitor=monitor,
        budget=config.method.budget_for(built.dim),
    )


def coordinate(
    name: str,
    method: Method,
    model: ModelSpec | Model,
    rules: Rules,
    *,
    seed: int = 0,
    folder: Path | None = None,
    initial: Vector | None = None,
    saved: ServerState | _InFolder | None = _IN_FOLDER,
    monitor: Monitor | None = None,
    **shown: Any,
) -> Coordinator:
    """A coordinator with its monitor, continued from `folder` where it holds a state.

    Args:
        name: the federation's.
        method: what runs.
        model: a built-in model's description, or a model that every client is given in Python.
        rules: how rounds run.
        seed: of all draws.
        folder: where the state is kept; None for none.
        initial: parameters to begin with, where no state is continued.
        saved: continue from this, not from what is in the folder.
        monitor: where the record goes; a new one if left out.
        shown: more parameters for the page.
    """
    if isinstance(saved, _InFolder):
        saved = None if folder is None else ServerState.read(folder / STATE_FILE)
    built = model.build() if isinstance(model, ModelSpec) else model
    parameters = {**_parameters(method, rules), **shown, "model": built.name, "dim": built.dim, "seed": seed}
    if monitor is None:
        monitor = Monitor(name, built.task, parameters, rules.rounds)
    monitor.parameters, monitor.task = parameters, built.task
    where = "the saved state" if folder is None else folder / STATE_FILE
    with nullcontext() if saved is None else continuing(where):
        found = Coordinator(
            name, method, model, monitor, rules, seed, epoch=time.time_ns(), saved=saved, initial=initial
        )
    if saved is None:
        found.tally.guard.secret = secrets.randbits(64)
    elif not np.isfinite(found.params).all():
        raise CheckpointError(f"cannot continue from {where}: its model is not finite")
    return found


def _parameters(method: Method, rules: Rules) -> dict[str, Any]:
    """What the page shows about a method."""
    parameters: dict[str, Any] = {
        "method": method.name,
        "period": method.period,
        "server": method.server.name,
    }
    for piece in (method.client, method.participation, method.compress, method.server):
        parameters |= _numbers(describe(piece))
    promise = promise_of(method)
    if promise is not None:
        parameters |= {"epsilon": promise.epsilon, "delta": promise.delta, "private": promise.unit}
    parameters["pace"] = "as fast as possible" if rules.pace == "asap" else f"every {rules.interval:g} s"
    parameters["deadline"] = rules.deadline
    if rules.roster:
        parameters["clients"] = len(rules.roster)
    return parameters


def _numbers(described: Any) -> dict[str, float]:
    """The numbers in a piece by name, those of the pieces inside it first."""
    found: dict[str, float] = {}
    for name, value in described.items():
        if isinstance(value, dict):
            found = _numbers(value) | found
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[name] = value
    return found
