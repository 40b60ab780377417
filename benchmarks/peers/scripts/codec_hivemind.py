"""hivemind's compressions for averaging over the internet: 8 bits, uniform or by quantiles, and half floats."""

from __future__ import annotations

from typing import Any

import torch
from hivemind.compression import (
    Float16Compression,
    Quantile8BitQuantization,
    Uniform8BitQuantization,
)

from benchmarks.peers.scripts.codec import Codec, run


def codec(name: str, piece: Any) -> Codec:
    """A compression as a codec; the size is that of the buffer it sends."""
    return Codec(
        name,
        lambda vector: piece.compress(torch.from_numpy(vector), None),
        lambda sent: piece.extract(sent).numpy(),
        lambda sent: len(sent.buffer),
    )


if __name__ == "__main__":
    run(
        [
            codec("hivemind, uniform 8 bit", Uniform8BitQuantization()),
            codec("hivemind, quantile 8 bit", Quantile8BitQuantization()),
            codec("hivemind, float16", Float16Compression()),
        ]
    )
