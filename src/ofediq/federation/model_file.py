"""`model.safetensors`: a learnt model that leaves, with a card, and comes back.

The format is that of safetensors (eight bytes of length, a JSON header, the numbers), so other tools read it too. The
header's metadata hold what makes the numbers a model: its description with features and labels, and a card that says
where it comes from.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ofediq.arrays import Numbers, Vector
from ofediq.errors import DataError, InputError, refusing
from ofediq.federation.protocol.inputs import Inputs, samples_in
from ofediq.federation.protocol.task import ModelSpec
from ofediq.models import Model
from ofediq.storage import save_bytes

FILE = "model.safetensors"
_LENGTH = 8  # bytes that say how long the header is
_MOST_HEADER = 2**24


def save_model(path: str | Path, params: Numbers, spec: ModelSpec | None, card: Mapping[str, Any]) -> None:
    """Write a model, in one move.

    Arguments:
        path: the file.
        params: D numbers.
        spec: what they are the parameters of; None for a model that is not built in.
        card: data, features, method, bits, metrics: anything that is JSON.
    """
    described = None if spec is None else spec.to_dict()
    values = np.ascontiguousarray(params, "<f4")
    about = {"format": "ofediq", "model": json.dumps(described), "card": json.dumps(dict(card))}
    about["crc32"] = str(zlib.crc32(values.tobytes()))
    place = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [0, values.nbytes]}
    header = json.dumps({"__metadata__": about, "params": place}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    save_bytes(Path(path), len(header).to_bytes(_LENGTH, "little") + header + values.tobytes())


@dataclass(frozen=True, eq=False)
class LearntModel:
    """A model from a file.

    Attributes:
        params: D numbers.
        spec: its description with names of readings and labels, and features; None if it is not built in.
        card: where it comes from.
        model: what computes.
    """

    params: Vector
    spec: ModelSpec | None
    card: Mapping[str, Any]
    model: Model | None

    def predict(self, x: Any, y: Any = None, time: Any = None) -> Numbers:
        """Predictions for samples [n, ...]: labels as the task calls them, or numbers.

        A model on features reads the rows of one client in their order, each [readings], and predicts each one from
        the targets before it. Without them there is nothing to start from; `online` is the way to predict one by one.

        Arguments:
            x: samples as the model read them: readings in any unit for a model on features, else scaled like those of
                `card["data"]`. Also dicts, or a table with named columns, by the names in the task.
            y: for a model on features, the target of each row, used after its prediction; None or NaN where it is
                not known.
            time: seconds since 1970 of each row, for features with a calendar.
        """
        if self.spec is None or self.model is None:
            raise InputError("`model` must be a built-in one to predict, got one that is not")
        rows = samples_in(x)
        if self.spec.pipeline is not None:
            return self._in_order(list(rows), y, time)
        samples = Inputs(self.spec, labelled=self.model.task == "classification").many(rows)
        if not len(samples):
            return np.zeros(0)
        found = np.asarray(self.model.predict(self.params, samples))
        return np.asarray(self.spec.labels)[found] if self.spec.labels else found

    def _in_order(self, rows: Sequence[Any], y: Any, time: Any) -> Numbers:
        """The predictions of one client that sees these rows."""
        client = self.online()
        if y is None and not client.inputs.labelled:
            raise InputError(
                "`y` must be the targets of earlier rows for a model that starts from them, got None"
            )
        for name, values in (("y", y), ("time", time)):
            if values is not None and len(values) != len(rows):
                raise InputError(
                    f"`{name}` must have one entry per row of x ({len(rows)}), got {len(values)}"
                )
        found = []
        for place, row in enumerate(rows):
            found.append(client.predict_one(row, None if time is None else time[place]))
            target = None if y is None else y[place]
            if target is not None and target == target:  # NaN is not itself
                client.learn_one(target)
        return np.asarray(found)

    def online(self) -> LocalClient:
        """A client of its own that predicts with this model and remembers what it is told, but does not learn."""
        return LocalClient(self)


class LocalClient:
    """Predicts sample by sample, in River's vocabulary: `predict_one`, then `learn_one` when the target is known."""

    def __init__(self, learnt: LearntModel) -> None:
        if learnt.spec is None or learnt.model is None:
            raise InputError("`model` must be a built-in one to predict, got one that is not")
        self.learnt, self.model = learnt, learnt.model
        self.inputs = Inputs(learnt.spec, labelled=learnt.model.task == "classification")
        self._offset, self._span = _unit(learnt)

    def predict_one(self, x: Any, time: float | None = None) -> Any:
        """The prediction for one sample, taken at `time` in seconds since 1970; now if left out."""
        row = self.inputs.observe(self.inputs.readings(x), time)
        value = np.asarray(self.model.predict(self.learnt.params, row))[0].item()
        return self.inputs.name(value) if self.inputs.labelled else self._offset + self._span * value

    def learn_one(self, y: Any) -> None:
        """The target of the sample that was predicted last: its features remember it, unless it is a mark."""
        label = self.inputs.label(y)
        if self.inputs.stray(label):
            return
        self.inputs.learn(label if self.inputs.labelled else (label - self._offset) / self._span, None)


def _unit(learnt: LearntModel) -> tuple[float, float]:
    """What counted as 0 when the model learnt, and how much as 1: the target's own unit where that is made online."""
    spec, span = learnt.spec, dict(learnt.card.get("data") or {}).get("target_range")
    if span is None or spec is None or spec.pipeline is None or spec.pipeline.target.baseline != "none":
        return 0.0, 1.0
    return float(span[0]), float(span[1] - span[0])


def load_model(path: str | Path, *, argument: str = "model") -> LearntModel:
    """The model in a `model.safetensors`, or in the folder of a run or a server that has one.

    `argument` is what a sentence about the file calls it.

    >>> import tempfile
    >>> spec = ModelSpec("linear", (2,), "regression")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(Path(folder) / "m.safetensors", np.array([1, 2, 3], np.float32), spec, {"method": "OFedIQ"})
    ...     learnt = load_model(Path(folder) / "m.safetensors")
    >>> learnt.predict([[1.0, 1.0], [0.0, 2.0]]).tolist(), learnt.card["method"]
    ([6.0, 7.0], 'OFedIQ')
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    with refusing(argument, "a file that can be read", path, kind=DataError):
        data = path.read_bytes()
    wrong = (ValueError, KeyError, TypeError, AttributeError)
    with refusing(argument, "a model.safetensors of ofediq", path, *wrong, kind=DataError):
        size = int.from_bytes(data[:_LENGTH], "little")
        if len(data) < _LENGTH or size > min(_MOST_HEADER, len(data) - _LENGTH):
            raise ValueError("its header is longer than the file")
        header = json.loads(data[_LENGTH : _LENGTH + size])
        about, place = header["__metadata__"], header["params"]
        if about["format"] != "ofediq" or place["dtype"] != "F32":
            raise ValueError("it is not a model of ofediq")
        first, last = place["data_offsets"]
        numbers = data[_LENGTH + size :][first:last]
        if "crc32" in about and int(about["crc32"]) != zlib.crc32(numbers):  # earlier versions had none
            raise ValueError("its parameters are damaged")
        params = np.frombuffer(numbers, "<f4").astype(np.float32)
        described = json.loads(about["model"])
        spec = None if described is None else ModelSpec.from_dict(described)
        model = None if spec is None else spec.build()
        card = json.loads(about["card"])
    if (
        params.ndim != 1
        or (model is not None and params.shape != (model.dim,))
        or not np.isfinite(params).all()
    ):
        raise DataError(f"`{argument}` must hold the finite parameters of its description, got {str(path)!r}")
    return LearntModel(params, spec, card, model)


def start_from(path: str | Path, model: Model, spec: ModelSpec | None = None) -> Vector:
    """The parameters in `path` for a run or a federation of `model` to begin with."""
    found = load_model(path, argument="start_from")
    if found.params.shape != (model.dim,):
        raise DataError(
            f"`start_from` must have {model.dim} parameters like this model, got {found.params.size} in {str(path)!r}"
        )
    if (
        spec is not None
        and found.spec is not None
        and (found.spec.task, found.spec.labels) != (spec.task, spec.labels)
    ):
        raise DataError(f"`start_from` must be for the same task and labels, got {str(path)!r}")
    return found.params
