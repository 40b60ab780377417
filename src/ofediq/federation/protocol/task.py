"""`Task`: what all clients of a federation must agree on, as the server announces it.

The pieces of a method that a client runs are written out one by one, with their numbers, so that a client does not
have to plan as the server did, and a client of another version either understands every piece or refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ofediq.errors import InputError, WireError, require
from ofediq.federation.protocol.messages import read_json, write_json
from ofediq.methods import (
    Compressor,
    LocalRule,
    Method,
    Participation,
    bernoulli,
    fixed_size,
    grid,
    hold,
    identity,
    local_ogd,
    mirror_map,
    norm_proportional,
    quantize,
    rotate,
)
from ofediq.methods.compress import Grid, Identity, Quantize
from ofediq.methods.local import Hold, Ogd
from ofediq.methods.participation import Bernoulli, FixedSize, NormProportional
from ofediq.methods.rotate import Rotate
from ofediq.models import Model, build

_Makers = dict[str, Callable[..., Any]]

_LOCAL: _Makers = {"hold": hold, "ogd": lambda step_size, mirror: local_ogd(step_size, mirror_map(mirror))}
_PARTICIPATION: _Makers = {
    "bernoulli": bernoulli,
    "fixed_size": fixed_size,
    "norm_proportional": norm_proportional,
}
_COMPRESS: _Makers = {"identity": identity, "quantize": quantize, "rotate": rotate, "grid": grid}


@dataclass(frozen=True)
class ModelSpec:
    """A built-in model by name: arguments of `ofediq.models.build`.

    >>> ModelSpec("softmax", (8, 8), "classification", classes=10).build().dim
    650
    """

    name: str
    shape: tuple[int, ...]
    task: str
    classes: int | None = None
    hidden: tuple[int, ...] = (64, 64)
    l2: float | None = None

    def build(self) -> Model:
        """The model."""
        return build(self.name, self.shape, self.task, self.classes, self.hidden, self.l2)  # type: ignore[arg-type]  # `build` checks the task


@dataclass(frozen=True)
class Task:
    """What a client needs to know before its first round.

    Attributes:
        model: a built-in model; None if every client is given its own copy in Python.
        dim: D.
        local, participation, compress, period: the client's pieces of the method.
        seed: of all draws.
        passes: whether a client says so when it does not send. The server needs it to close rounds early when it
            cannot know who is due; it costs a short message per client and round.
    """

    model: ModelSpec | None
    dim: int
    local: LocalRule
    participation: Participation
    compress: Compressor
    period: int
    seed: int
    passes: bool = False

    @classmethod
    def of(cls, method: Method, model: ModelSpec | Model, seed: int, passes: bool = False) -> Task:
        """The task of `method`; says why if a live federation cannot run it."""
        require(method.topology == "federated", "method", "must be federated to run live", method.topology)
        if not method.broadcast.exact:
            raise InputError("`method` must broadcast whole models in a live federation, got compressed ones")
        spec = model if isinstance(model, ModelSpec) else None
        dim = model.build().dim if isinstance(model, ModelSpec) else model.dim
        task = cls(
            spec,
            dim,
            method.local,
            method.participation,
            method.compress,
            method.period,
            seed,
            passes,
        )
        task.encode()  # a piece that cannot be written down fails here, not at the first client
        return task

    def encode(self) -> bytes:
        """The announcement, JSON."""
        spec = None if self.model is None else {**vars(self.model)}
        return write_json(
            model=spec,
            dim=self.dim,
            local=_local(self.local),
            participation=_participation(self.participation),
            compress=_compress(self.compress),
            period=self.period,
            seed=self.seed,
            passes=self.passes,
        )

    @classmethod
    def decode(cls, data: bytes) -> Task:
        """The task in an announcement, or `WireError`.

        >>> from ofediq.methods import ofediq
        >>> task = Task.of(ofediq(0.1, 3, 14), ModelSpec("softmax", (64,), "classification", 10), seed=0)
        >>> Task.decode(task.encode()) == task
        True
        """
        content = read_json("task", data)
        try:
            spec = content["model"]
            task = cls(
                None if spec is None else _model_spec(spec),
                int(content["dim"]),
                _make(_LOCAL, content["local"]),
                _make(_PARTICIPATION, content["participation"]),
                _make(_COMPRESS, content["compress"]),
                int(content["period"]),
                int(content["seed"]),
                bool(content["passes"]),
            )
            built = task.dim if task.model is None else task.model.build().dim
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(f"task: not understood ({error})") from None
        if task.period < 1 or task.dim < 1 or not 0 <= task.seed < 2**32:
            raise WireError("task: period, dim or seed out of range")
        if built != task.dim:
            raise WireError(f"task: the model has {built} parameters here, {task.dim} at the server")
        return task


def _model_spec(content: dict[str, Any]) -> ModelSpec:
    shape, hidden = tuple(content["shape"]), tuple(content["hidden"])
    return ModelSpec(**{**content, "shape": shape, "hidden": hidden})


def _make(makers: _Makers, content: dict[str, Any]) -> Any:
    arguments = dict(content)
    return makers[arguments.pop("piece")](**arguments)


def _local(piece: LocalRule) -> dict[str, Any]:
    if isinstance(piece, Hold):
        return {"piece": "hold"}
    if isinstance(piece, Ogd):
        return {"piece": "ogd", "step_size": piece.step_size, "mirror": piece.mirror.name}
    raise InputError(f"`local` must be one of ofediq's rules in a live federation, got {piece!r}")


def _participation(piece: Participation) -> dict[str, Any]:
    if isinstance(piece, Bernoulli):
        return {"piece": "bernoulli", "rate": piece.rate}
    if isinstance(piece, FixedSize):
        return {"piece": "fixed_size", "rate": piece.rate}
    if isinstance(piece, NormProportional):
        return {"piece": "norm_proportional", "spread": piece.spread, "floor": piece.floor}
    raise InputError(f"`participation` must be one of ofediq's in a live federation, got {piece!r}")


def _compress(piece: Compressor) -> dict[str, Any]:
    if isinstance(piece, Identity):
        return {"piece": "identity"}
    if isinstance(piece, Quantize):
        return {
            "piece": "quantize",
            "levels": piece.levels,
            "blocks": piece.blocks,
            "coding": piece.coding,
        }
    if isinstance(piece, Rotate):
        return {"piece": "rotate", "bits": piece.bits, "rotation": piece.rotation}
    if isinstance(piece, Grid):
        return {"piece": "grid"}
    raise InputError(f"`compress` must be one of ofediq's in a live federation, got {piece!r}")
