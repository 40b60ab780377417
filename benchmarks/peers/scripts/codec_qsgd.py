"""QSGD by buckets in PyTorch, our own few lines after its description (Alistarh et al. 2017).

GRACE, whose implementation papers use, is not on the registry. As there, what is sent is one byte per coordinate (its
level with its sign) and one float32 norm for each bucket. The paper's own code for the levels is Elias's: its size is
counted exactly, level + 1 as Elias gamma and a sign for each that is not zero; nobody decodes it here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from benchmarks.peers.scripts.codec import Codec, run

BUCKET = 512
LEVELS = (3, 15, 127)


def encode(vector: Any, levels: int) -> tuple[Any, Any, int]:
    """Levels with signs, norms of the buckets, and the length."""
    values = torch.from_numpy(vector)
    cut = functional.pad(values, (0, -len(values) % BUCKET)).view(-1, BUCKET)
    norms = cut.norm(dim=1, keepdim=True)
    scaled = cut.abs() * (levels / norms.clamp_min(1e-30))
    lower = scaled.floor()
    level = lower + (torch.rand_like(scaled) < scaled - lower)
    return (level * cut.sign()).to(torch.int8), norms, len(values)


def decode(sent: tuple[Any, Any, int], levels: int) -> Any:
    """The values."""
    symbols, norms, length = sent
    return (symbols.to(torch.float32) * (norms / levels)).view(-1)[:length].numpy()


def byte_size(sent: tuple[Any, Any, int]) -> float:
    """A byte for each coordinate, four for each norm."""
    return float(sent[2] + 4 * sent[1].numel())


def elias_size(sent: tuple[Any, Any, int]) -> float:
    """Bytes with Elias gamma: 2 floor(log2(level + 1)) + 1 bits, one more for the sign of a level above 0."""
    level = sent[0].view(-1)[: sent[2]].abs().to(torch.float64)
    bits = 2 * torch.floor(torch.log2(level + 1)) + 1 + (level > 0)
    return float(bits.sum() / 8 + 4 * sent[1].numel())


def codecs() -> list[Codec]:
    """Each number of levels, as bytes and in the paper's code."""
    found = []
    for levels in LEVELS:
        name = f"QSGD, s = {levels}, buckets of {BUCKET}"

        def write(vector: Any, levels: int = levels) -> Any:
            return encode(vector, levels)

        def read(sent: Any, levels: int = levels) -> Any:
            return decode(sent, levels)

        found += [
            Codec(f"{name}, bytes", write, read, byte_size),
            Codec(f"{name}, Elias", write, None, elias_size),
        ]
    return found


if __name__ == "__main__":
    run(codecs())
