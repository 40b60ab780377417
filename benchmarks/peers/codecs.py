"""The codec beside others: error, bits per coordinate and speed, on one core, on the same vectors."""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from benchmarks import one_core
from benchmarks.compressors import gradients
from benchmarks.peers.environments import InstallError, environment, reason
from benchmarks.peers.processes import bounded
from benchmarks.peers.scripts.codec import Codec, Figures, Vectors, table
from ofediq.codec import HEADER_BYTES, Coding, Message, Rotation, decode, encode, quantize, quantize_rotated
from ofediq.errors import OFedIQError
from ofediq.streams import load

DIM = 34_826
DIMS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
ROOT = Path(__file__).parents[2]
SCRIPTS = {"torch": "codec_qsgd", "hivemind": "codec_hivemind"}
LIMIT = 400.0  # seconds for one script

Table = dict[str, dict[str, Figures]]


def compare(quick: bool = False) -> dict[str, Any]:
    """The figures of every codec on every source, by name; what does not run is named with its reason."""
    sources = vectors(DIMS[:3] if quick else DIMS)
    seconds = 0.05 if quick else 0.3
    found: Table = {}
    problems: dict[str, str] = {}
    load_before = os.getloadavg()[0]
    with one_core(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npz"
        np.savez(path, allow_pickle=False, **sources)
        found |= table(ours(), sources, seconds)
        for name, script in SCRIPTS.items():
            try:
                found |= _elsewhere(name, script, path, seconds)
            except InstallError as error:
                problems[name] = str(error)
    return {"codecs": found, "problems": problems, "load": load_before}


def vectors(dims: tuple[int, ...]) -> dict[str, Vectors]:
    """Gaussian, heavy-tailed and real vectors of Model I's size, and Gaussian ones of other sizes."""
    rng = np.random.default_rng(0)
    signs = rng.choice(np.array([-1, 1], np.float32), (8, DIM))
    found = {
        "Gaussian": rng.standard_normal((8, DIM)).astype(np.float32),
        "lognormal": signs * rng.lognormal(0.0, 1.5, (8, DIM)).astype(np.float32),
    }
    try:
        found["MNIST gradients"] = gradients(load("mnist"))[:8]
    except OFedIQError as error:
        print(f"no gradients: {error}")
    for dim in dims:
        count = max(1, min(8, 2_000_000 // dim))
        found[f"D = {dim:,}"] = rng.standard_normal((count, dim)).astype(np.float32)
    return found


def ours() -> list[Codec]:
    """The (s, b) codec, the rotated quantiser, and the general-purpose compressors, which are installed here."""
    found = []
    for levels, size in ((3, 45), (17, 31), (15, 512), (127, 512)):
        codings: tuple[Coding, ...] = ("packed", "entropy")
        found += [_blocks(levels, size, coding) for coding in codings]
    rotations: tuple[tuple[int, Rotation], ...] = ((1, "nearest"), (2, "dither"), (4, "dither"))
    found += [_rotated(bits, rotation) for bits, rotation in rotations]
    zstd, unzstd = zstandard.ZstdCompressor(3).compress, zstandard.ZstdDecompressor().decompress
    for name, shrink, expand in (
        ("zlib-6", lambda data: zlib.compress(data, 6), zlib.decompress),
        ("zstd-3", zstd, unzstd),
    ):
        found += [_lossless(name, shrink, expand), _symbols(name, shrink, expand)]
    return found


def _blocks(levels: int, size: int, coding: Coding) -> Codec:
    def write(vector: Any) -> bytes:
        message = quantize(vector, levels=levels, blocks=max(1, vector.size // size), seed=0)
        return encode(message, coding)

    name = f"ofediq, s = {levels}, D/b = {size}, {coding}"
    return Codec(name, write, lambda frame: decode(frame).dequantize(), _payload)


def _rotated(bits: int, rotation: Rotation) -> Codec:
    def write(vector: Any) -> bytes:
        return encode(quantize_rotated(vector, bits=bits, rotation=rotation, seed=0), "entropy")

    name = f"ofediq, rotated, {rotation}, {bits} bit"
    return Codec(name, write, lambda frame: decode(frame).dequantize(), _payload)


def _payload(frame: bytes) -> int:
    return len(frame) - HEADER_BYTES


def _lossless(name: str, shrink: Any, expand: Any) -> Codec:
    return Codec(
        f"{name} of the float32 values",
        lambda vector: shrink(vector.tobytes()),
        lambda data: np.frombuffer(expand(data), np.float32),
    )


def _symbols(name: str, shrink: Any, expand: Any) -> Codec:
    """The same quantiser, its symbols as bytes and its norms through a general-purpose compressor."""

    def write(vector: Any) -> tuple[int, int, bytes]:
        message = quantize(vector, levels=3, blocks=max(1, vector.size // 45), seed=0)
        plain = message.symbols.astype(np.int8).tobytes() + message.norms.tobytes()
        return message.dim, message.blocks, shrink(plain)

    def read(sent: tuple[int, int, bytes]) -> Any:
        dim, blocks, data = sent
        plain = expand(data)
        symbols = np.frombuffer(plain, np.int8, dim).astype(np.int32)
        norms = np.frombuffer(plain, np.float32, offset=dim)
        return Message(dim, 3, blocks, symbols, norms).dequantize()

    return Codec(f"s = 3, D/b = 45, {name} of symbols and norms", write, read, lambda sent: len(sent[2]))


def _elsewhere(name: str, script: str, path: Path, seconds: float) -> Table:
    """Figures from a script in another environment."""
    python = str(environment(name).python)
    out = path.with_name(f"{script}.json")
    command = [
        python,
        "-m",
        f"benchmarks.peers.scripts.{script}",
        str(path),
        str(out),
        "--seconds",
        str(seconds),
    ]
    done = bounded(command, LIMIT, path.with_name("log"), {"PYTHONPATH": str(ROOT)})
    if not out.exists():
        raise InstallError("over the time limit" if done.code is None else reason(done.log))
    found: Table = json.loads(out.read_text())
    return found
