"""How a codec is measured, wherever it is installed: error, bits per coordinate, and speed both ways."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Figures = dict[str, float]


@dataclass(frozen=True)
class Codec:
    """A way to send a vector.

    Attributes:
        name: the row of the table.
        encode: from a float32 vector to what is sent.
        decode: from that to a float32 vector; None if the size is all that is known.
        size: bytes of what is sent.
    """

    name: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any] | None
    size: Callable[[Any], float] = len


def measure(codec: Codec, vectors: Vectors, seconds: float = 0.3) -> Figures:
    """Mean error over mean squared norm, bits per coordinate, MB/s of float32 encoded and decoded."""
    sent = [codec.encode(vector) for vector in vectors]
    bits = 8 * float(np.mean([codec.size(one) for one in sent])) / vectors.shape[1]
    if codec.decode is None:
        return {"bits": bits}
    decode = codec.decode
    back = np.stack([np.asarray(decode(one), np.float32).reshape(-1) for one in sent])
    error = np.square(back - vectors, dtype=np.float64).sum() / np.square(vectors, dtype=np.float64).sum()
    megabytes = vectors[0].nbytes / 1e6
    return {
        "error": float(error),
        "bits": bits,
        "encode": megabytes / _fastest(codec.encode, vectors, seconds),
        "decode": megabytes / _fastest(decode, sent, seconds),
    }


def table(
    codecs: Iterable[Codec], sources: dict[str, Vectors], seconds: float
) -> dict[str, dict[str, Figures]]:
    """The figures of each codec on each source."""
    return {
        codec.name: {name: measure(codec, vectors, seconds) for name, vectors in sources.items()}
        for codec in codecs
    }


def run(codecs: Iterable[Codec]) -> None:
    """A script's work: vectors from a file, figures to a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("vectors", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=0.3)
    given = parser.parse_args()
    with np.load(given.vectors) as file:
        sources = {name: file[name] for name in file.files}
    given.out.write_text(json.dumps(table(codecs, sources, given.seconds)))


def _fastest(work: Callable[[Any], Any], inputs: Any, seconds: float) -> float:
    """Seconds of the fastest run, over at least three; inputs take turns."""
    best, begun, runs = float("inf"), time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - begun < seconds:
        before = time.perf_counter()
        work(inputs[runs % len(inputs)])
        best = min(best, time.perf_counter() - before)
        runs += 1
    return best
