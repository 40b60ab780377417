"""Size and time of one update on the wire, beside zlib and zstd, and beside the gradient that it carries.

The general-purpose compressors get the same message: a byte per symbol, then the float32 norms. The client's side
is quantising and encoding; it is compared with one forward and backward pass of the paper's CNN on one sample, on one
core, since the codec uses no more. On a busy machine the pass suffers more than the codec: repeat until it is stable.

`python -m benchmarks.codec 100000000` has one vector of so many coordinates instead: CPU time for each of them.
"""

from __future__ import annotations

import itertools
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import zstandard
from numpy.typing import NDArray

from benchmarks import fastest, one_core, table
from ofediq.codec import HEADER_BYTES, Coding, Message, decode, encode, quantize
from ofediq.kernels import library
from ofediq.kernels.library import native_status

DIM = 34826
SETTINGS = ((1, 777 / DIM), (3, 777 / DIM), (17, 1134 / DIM))
OTHERS = ("x packed", "x zlib-6", "x zstd-3")
HEADINGS = ("size", "bytes", *OTHERS, "x formula", "| encode ms", *OTHERS, "| decode ms", *OTHERS)
VARIETY = 8  # messages take turns, so that nothing can be remembered from the run before


@dataclass(frozen=True)
class Result:
    """One way to turn messages into bytes and back: bytes per message, seconds to encode and to decode."""

    size: float
    encode: float
    decode: float


def main() -> None:
    """Print the tables."""
    print(native_status())  # which makes the library where there is none; the codec itself would not
    library.forget()
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        print(table(_one_piece(int(sys.argv[1]))))
        return
    print(
        f"Gaussian vectors, entropy coding and float32 norms = 1; bytes of the payload (without {HEADER_BYTES})."
    )
    for dim in (DIM, 10**6):
        rows: list[list[object]] = [list(HEADINGS)]
        rows += [_compare(dim, levels, round(share * dim)) for levels, share in SETTINGS]
        print(f"\nD = {dim}: how many times larger, slower to encode, slower to decode the others are")
        print(table(rows))
    print(f"\nThe client's side of one update at D = {DIM}, and the gradient that it carries")
    print(table(_client_side()))


def _one_piece(dim: int) -> list[list[object]]:
    """Nanoseconds for each coordinate of a single vector, without a second try."""
    vector = np.random.default_rng(0).standard_normal(dim, dtype=np.float32)
    marks = [time.process_time()]
    message = quantize(vector, levels=3, blocks=max(1, dim // 45), seed=0)
    marks.append(time.process_time())
    encode(message, "packed")
    marks.append(time.process_time())
    frame = encode(message, "entropy")
    marks.append(time.process_time())
    assert decode(frame, max_dim=dim) == message
    marks.append(time.process_time())
    spent = [f"{1e9 * (after - before) / dim:.2f}" for before, after in itertools.pairwise(marks)]
    return [[f"D = {dim}, ns", "quantise", "pack", "entropy-code", "decode"], ["", *spent]]


def _compare(dim: int, levels: int, blocks: int) -> list[object]:
    rng = np.random.default_rng(0)
    messages = [
        quantize(rng.standard_normal(dim), levels=levels, blocks=blocks, seed=seed) for seed in range(VARIETY)
    ]
    ours, packed = _measure_codec(messages, "entropy"), _measure_codec(messages, "packed")
    deflate = _measure(messages, lambda data: zlib.compress(data, 6), zlib.decompress)
    zstd = _measure(messages, zstandard.ZstdCompressor(3).compress, zstandard.ZstdDecompressor().decompress)
    others = (packed, deflate, zstd)
    formula = (32 * blocks + dim * (1 + np.log2(levels + 1))) / 8
    return [
        f"s={levels}, b={blocks}",
        round(ours.size),
        *(f"{other.size / ours.size:.2f}" for other in others),
        f"{formula / ours.size:.2f}",
        f"{1e3 * ours.encode:.2f}",
        *(f"{other.encode / ours.encode:.2f}" for other in others),
        f"{1e3 * ours.decode:.2f}",
        *(f"{other.decode / ours.decode:.2f}" for other in others),
    ]


def _measure_codec(messages: list[Message], coding: Coding) -> Result:
    frames = [encode(message, coding) for message in messages]
    turns, returns = itertools.cycle(messages), itertools.cycle(frames)
    return Result(
        sum(map(len, frames)) / len(frames) - HEADER_BYTES,
        fastest(lambda: encode(next(turns), coding)),
        fastest(lambda: decode(next(returns))),
    )


def _measure(
    messages: list[Message], compress: Callable[[bytes], bytes], expand: Callable[[bytes], bytes]
) -> Result:
    def write(message: Message) -> bytes:
        return compress(message.symbols.astype(np.int8).tobytes() + message.norms.tobytes())

    def read(data: bytes) -> tuple[object, object]:
        plain = expand(data)
        dim = messages[0].dim
        return np.frombuffer(plain, np.int8, dim).astype(np.int32), np.frombuffer(
            plain, np.float32, offset=dim
        )

    written = [write(message) for message in messages]
    turns, returns = itertools.cycle(messages), itertools.cycle(written)
    return Result(
        sum(map(len, written)) / len(written),
        fastest(lambda: write(next(turns))),
        fastest(lambda: read(next(returns))),
    )


def _client_side() -> list[list[object]]:
    """Quantise and encode, as a share of the gradient's time."""
    rng = np.random.default_rng(0)
    vectors = itertools.cycle([rng.standard_normal(DIM).astype(np.float32) for _ in range(VARIETY)])
    with one_core():
        gradient = _gradient_seconds()
    rows: list[list[object]] = [["", "quantise ms", "encode ms", "sum ms", "share of the gradient"]]
    codings: tuple[Coding, ...] = ("packed", "entropy")
    for levels, share in SETTINGS:
        rows += [_client_row(vectors, levels, round(share * DIM), coding, gradient) for coding in codings]
    rows.append(["gradient (jitted JAX, one sample, one core)", "", "", f"{1e3 * gradient:.2f}", "1.00"])
    return rows


def _client_row(
    vectors: Iterator[NDArray[np.float32]], levels: int, blocks: int, coding: Coding, gradient: float
) -> list[object]:
    steps = itertools.count()
    quantised = fastest(
        lambda: quantize(next(vectors), levels=levels, blocks=blocks, seed=0, step=next(steps), client=1)
    )
    messages = itertools.cycle(
        [quantize(next(vectors), levels=levels, blocks=blocks, seed=0, step=step) for step in range(VARIETY)]
    )
    encoded = fastest(lambda: encode(next(messages), coding))
    total = quantised + encoded
    return [
        f"s={levels}, b={blocks}, {coding}",
        *(f"{1e3 * seconds:.2f}" for seconds in (quantised, encoded, total)),
        f"{total / gradient:.2f}",
    ]


def _gradient_seconds() -> float:
    """One forward and backward pass of Model I on one sample, as one would write it in JAX."""
    rng = np.random.default_rng(0)
    shapes = ((3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (1600, 10), (10,))
    params = [jnp.asarray(0.05 * rng.standard_normal(shape), jnp.float32) for shape in shapes]
    assert sum(leaf.size for leaf in params) == DIM
    image = jnp.asarray(rng.random((1, 28, 28, 1)), jnp.float32)

    def loss(params: list[jax.Array], image: jax.Array, label: jax.Array) -> jax.Array:
        for kernel, bias in (params[0:2], params[2:4]):
            layout = ("NHWC", "HWIO", "NHWC")
            image = jax.lax.conv_general_dilated(image, kernel, (1, 1), "VALID", dimension_numbers=layout)
            image = jax.nn.relu(image + bias)
            image = jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        logits = image.reshape(-1) @ params[4] + params[5]
        return -jax.nn.log_softmax(logits)[label]

    gradient, label = jax.jit(jax.grad(loss)), jnp.asarray(3)
    return fastest(lambda: jax.block_until_ready(gradient(params, image, label)), seconds=5.0)


if __name__ == "__main__":
    main()
