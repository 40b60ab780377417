"""`Task`: what all clients of a federation must agree on, as the server announces it.

The pieces of a method that a client runs are written out one by one, with their numbers, so that a client does not
have to plan as the server did, and a client of another version either understands every piece or refuses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ofediq.arrays import Array
from ofediq.differences import differing, short_text
from ofediq.errors import InputError, WireError, require, told
from ofediq.federation.protocol.limits import Limits
from ofediq.federation.protocol.messages import ModelMessage, Near, read_json, write_json
from ofediq.methods import Broadcast, ClientRule, Compressor, Method, Participation, ServerRule, add_up
from ofediq.methods.budgets.windows import Growing
from ofediq.methods.pieces import describe, restore
from ofediq.methods.privacy import least_of
from ofediq.models import Model, build, build_anchored
from ofediq.streams.features import Pipeline


@dataclass(frozen=True)
class Announced(ServerRule):
    """What a client knows about the server's rule: the names of what goes with a broadcast."""

    vectors: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    name: str = "announced"

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """A client does not move the common model."""
        raise InputError("`server` must run at the server, got a client")


@dataclass(frozen=True)
class ModelSpec:
    """A built-in model by name: arguments of `ofediq.models.build`, and what samples and labels are called.

    Attributes:
        name: of the model; layers in words.
        shape: of a sample, before features are made of it.
        task: classification or regression.
        classes: number of labels; that of `labels` if they are given.
        hidden: layer sizes of the mlp.
        l2: weight of the penalty; None for the model's own.
        features: names of a sample's numbers. A client reads a dict by them; without them it takes no dict, whose
            order may be any.
        labels: texts of the labels, in their order; without them labels are numbers from 0.
        pipeline: what clients make of their readings; then the model is `anchored` to a naive forecast.

    >>> ModelSpec("softmax", (8, 8), "classification", classes=10).build().dim
    650
    >>> from ofediq.streams.features import NumberTarget, Readings
    >>> ModelSpec("auto", (2,), "regression", pipeline=Pipeline(Readings(("a", "b")), NumberTarget())).build().dim
    11
    """

    name: str
    shape: tuple[int, ...]
    task: str
    classes: int | None = None
    hidden: tuple[int, ...] = (64, 64)
    l2: float | None = None
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    pipeline: Pipeline | None = None

    def __post_init__(self) -> None:
        size = math.prod(self.shape)
        rule = f"must be {size} different names, one for each number of a sample, or none"
        fits = not self.features or len(self.features) == len(set(self.features)) == size
        require(fits, "features", rule, self.features)
        if self.labels:
            if self.classes is None:
                object.__setattr__(self, "classes", len(self.labels))
            fits = len(set(self.labels)) == len(self.labels) == self.classes and self.task != "regression"
            require(
                fits, "labels", f"must be {self.classes} different texts of a classification", self.labels
            )
        if self.pipeline is not None:
            names = self.pipeline.readings.names
            fits = self.features in ((), names) and self.shape == (len(names),)
            require(fits, "pipeline", f"must read {self.features or size} in this order", names)
            target = self.pipeline.target
            fits = getattr(target, "classes", None) == self.classes
            require(fits, "pipeline", f"must be made for {self.classes} classes", target)

    def build(self) -> Model:
        """The model."""
        task: Any = self.task  # `build` checks it
        if self.pipeline is not None:
            columns = len(self.pipeline.columns)
            return build_anchored(self.name, columns, task, self.classes, hidden=self.hidden, l2=self.l2)
        return build(self.name, self.shape, task, self.classes, hidden=self.hidden, l2=self.l2)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        made = None if self.pipeline is None else self.pipeline.to_dict()
        return {**vars(self), "pipeline": made}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ModelSpec:
        """The inverse of `to_dict`."""
        lists = {name: tuple(plain[name]) for name in ("shape", "hidden", "features", "labels")}
        texts = {name: tuple(map(str, lists[name])) for name in ("features", "labels")}
        made = plain["pipeline"]
        pipeline = None if made is None else Pipeline.from_dict(made)
        return cls(**{**plain, **lists, **texts, "pipeline": pipeline})


@dataclass(frozen=True)
class Task:
    """What a client needs to know before its first round.

    Attributes:
        model: a built-in model; None if every client is given its own copy in Python.
        dim: D.
        method: the client's pieces of the method.
        seed: of all draws.
        passes: whether a client says so when it does not send. The server needs it to close rounds early when it
            cannot know who is due; it costs a short message per client and round.
        report_every: rounds between two reports on a client's predictions; 0 for none.
        version: how often the federation has changed what runs, and kept its model.
        secure: whether updates are added up unread, see `protocol.secured`.
        least: members whose sum may be known then.
    """

    model: ModelSpec | None
    dim: int
    method: Method
    seed: int
    passes: bool = False
    report_every: int = 1
    version: int = 0
    secure: bool = False
    least: int = 0

    @classmethod
    def of(
        cls,
        method: Method,
        model: ModelSpec | Model,
        seed: int,
        passes: bool = False,
        report_every: int = 1,
        secure: bool = False,
    ) -> Task:
        """The task of `method`; says why if a live federation cannot run it."""
        require(method.topology == "federated", "method", "must be federated to run live", method.topology)
        spec = model if isinstance(model, ModelSpec) else None
        dim = model.build().dim if isinstance(model, ModelSpec) else model.dim
        server = Announced(tuple(method.server.vectors), tuple(method.server.scalars))
        known = replace(
            method, server=server, combine=add_up()
        )  # how messages become one is the server's business
        least = least_of(method) if secure else 0
        task = cls(spec, dim, known, seed, passes, report_every, secure=secure, least=least)
        try:  # a piece that cannot be written down fails here, not at the first client
            Task.decode(task.encode())
        except WireError as error:
            raise InputError(f"`method` must be made of registered pieces to run live: {error}") from None
        return task

    def read(self, payload: bytes, near: Near | None = None) -> ModelMessage:
        """A broadcast of this task's federation; a difference is understood as one from the round `near`."""
        rule, receipts = self.method.server, self.method.client.receipts
        return ModelMessage.decode(
            payload, self.dim, tuple(rule.vectors), tuple(rule.scalars), receipts, near
        )

    def encode(self) -> bytes:
        """The announcement, JSON."""
        method = self.method
        return write_json(
            model=None if self.model is None else self.model.to_dict(),
            dim=self.dim,
            method=method.name,
            client=describe(method.client),
            participation=describe(method.participation),
            compress=describe(method.compress),
            broadcast=describe(method.broadcast),
            beside={name: describe(piece) for name, piece in method.beside},
            vectors=list(method.server.vectors),
            scalars=list(method.server.scalars),
            period=method.period,
            seed=self.seed,
            passes=self.passes,
            report_every=self.report_every,
            version=self.version,
            **({} if method.windows is None else {"windows": describe(method.windows)}),
            # A client that does not know it refuses the method.
            **({"secure": True, "least": self.least} if self.secure else {}),
        )

    @classmethod
    def decode(cls, data: bytes, limits: Limits | None = None) -> Task:
        """The task in an announcement, or `WireError`; also if it is beyond the `limits` of a client.

        >>> from ofediq.methods import ofediq
        >>> task = Task.of(ofediq(0.1, 3, 14), ModelSpec("softmax", (64,), "classification", 10), seed=0)
        >>> Task.decode(task.encode()) == task
        True
        """
        content = read_json("task", data)
        try:
            if limits is not None:  # before anything is built
                longest = restore(content["windows"], Growing).longest if "windows" in content else 1
                period = max(int(content["period"]), int(longest))
                made = (content["model"] or {}).get("pipeline")
                lags = int(made["target"]["lags"]) if made else 0
                limits.check("task", dim=int(content["dim"]), period=period, lags=lags)
            spec = content["model"]
            method = Method(
                str(content["method"]),
                restore(content["client"], ClientRule),
                restore(content["participation"], Participation),
                restore(content["compress"], Compressor).on_device(),
                Announced(tuple(map(str, content["vectors"])), tuple(map(str, content["scalars"]))),
                int(content["period"]),
                broadcast=restore(content["broadcast"], Broadcast),
                beside=tuple(
                    (str(name), restore(piece, Compressor)) for name, piece in content["beside"].items()
                ),
                windows=restore(content["windows"], Growing) if "windows" in content else None,
            )
            task = cls(
                None if spec is None else ModelSpec.from_dict(spec),
                int(content["dim"]),
                method,
                int(content["seed"]),
                bool(content["passes"]),
                int(content["report_every"]),
                int(content["version"]),
                content.get("secure") is True,
                int(content.get("least", 0)),
            )
            built = task.dim if task.model is None else task.model.build().dim
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
            raise WireError(f"task: not understood ({told(error)})") from None
        if task.dim < 1 or not 0 <= task.seed < 2**32 or task.report_every < 0:
            raise WireError("task: dim, seed or report_every out of range")
        if built != task.dim:
            raise WireError(f"task: the model has {built} parameters here, {task.dim} at the server")
        return task


def differences(before: Any, after: Any) -> list[str]:
    """Where two descriptions differ, in words.

    >>> differences({"seed": 0, "client": {"rate": 1}}, {"seed": 0, "client": {"rate": 2}})
    ['client.rate 1 -> 2']
    """
    found = differing(before, after)
    return [f"{path} {short_text(old)} -> {short_text(new)}" for path, old, new in found]


def version_of(payload: bytes) -> int:
    """Of a task that may hold anything; -1 if it has none."""
    try:
        version = read_json("task", payload).get("version")
    except WireError:
        return -1
    return version if isinstance(version, int) else -1
