"""Flat vectors in the named arrays of Flower's records, and what Flower's messages weigh."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message

from ofediq.arrays import Vector
from ofediq.errors import require

RECORD = "ofediq"
"""The name of our record, in messages and in a client's state."""


@dataclass(frozen=True)
class RecordLayout:
    """How a flat vector lies in the named arrays of a Flower record.

    >>> record = ArrayRecord({"w": Array(np.ones((2, 2), np.float32)), "b": Array(np.zeros(1))})
    >>> layout = RecordLayout.of("arrays", record)
    >>> layout.dim, layout.flat(record), layout.record(np.arange(5, dtype=np.float32))["b"].numpy()
    (5, array([1., 1., 1., 1., 0.], dtype=float32), array([4.]))
    """

    key: str  # of the record in a message
    names: list[str]
    shapes: list[list[int]]
    dtypes: list[str]

    @classmethod
    def of(cls, key: str, record: ArrayRecord) -> RecordLayout:
        """That of `record`, whose arrays must be of real numbers."""
        for name, array in record.items():
            kinds = "floats or integers"
            require(
                np.dtype(array.dtype).kind in "fiu", "arrays", f"must be {kinds}", f"{name}: {array.dtype}"
            )
        arrays = list(record.values())
        return cls(
            key,
            list(record),
            [list(one.shape) for one in arrays],
            [str(np.dtype(one.dtype)) for one in arrays],
        )

    @property
    def dim(self) -> int:
        """D, the number of all parameters."""
        return sum(map(math.prod, self.shapes))

    def flat(self, record: ArrayRecord) -> Vector:
        """The arrays in single precision, one after the other."""
        found = {name: list(array.shape) for name, array in record.items()}
        wanted = dict(zip(self.names, self.shapes, strict=True))
        require(found == wanted, "arrays", f"must have the names and shapes of the model's, {wanted}", found)
        parts = [record[name].numpy().astype(np.float32).ravel() for name in self.names]
        return np.concatenate([np.zeros(0, np.float32), *parts])

    def record(self, vector: Vector) -> ArrayRecord:
        """The arrays that `vector` stands for, with their own types."""
        cuts = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        arrays = {}
        for name, part, shape, dtype in zip(
            self.names, np.split(vector, cuts), self.shapes, self.dtypes, strict=True
        ):
            values = part if np.dtype(dtype).kind == "f" else np.rint(part)
            arrays[name] = Array(values.reshape(shape).astype(dtype))
        return ArrayRecord(arrays)


def wire_bytes(message: Message, known: dict[int, int] | None = None) -> int:
    """What Flower's connection sends for `message`: the bytes of its objects, each once.

    Requests, identifiers and HTTP or gRPC come on top. `known` keeps the sizes of objects that many messages share.
    """
    known = {} if known is None else known
    found: dict[str, int] = {}

    def walk(thing: Any) -> int:
        if isinstance(thing, ArrayRecord) and id(thing) in known:
            return known[id(thing)]
        content = thing.deflate()
        size = len(content) if content not in found else 0
        found[content] = size
        total = size + sum(walk(child) for child in (thing.children or {}).values())
        if isinstance(thing, ArrayRecord):
            known[id(thing)] = total
        return total

    return walk(message)
