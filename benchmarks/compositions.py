"""Methods beside plain OFedIQ with as many gradients: what compressors, memories and steering cost on kernels.

Methods whose clients all learn at every step, sending or not (top-k with memory, norm-proportional ones), stand
beside OFedIQ with everybody sending; those with local steps beside OFedIQ with the same period and rate. Each is
measured right behind what it stands beside. On a busy machine the ratio of CPU times is the one to read.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.native import CLIENTS, some_stream, times_per_step
from ofediq import methods, models
from ofediq.methods import Method
from ofediq.simulation import simulate

RATE, LEVELS, PERIOD, BLOCKS = 0.086, 3, 8, 1


def compositions(dim: int) -> dict[str, dict[str, Method]]:
    """Groups of methods; the first of a group is what the others are measured by."""
    blocks, bits = round(dim / 45), 0.01 * 32 * dim * CLIENTS
    some, everyone = (methods.ofediq(rate, LEVELS, blocks) for rate in (RATE, 1.0))
    local = methods.ofediq(PERIOD * RATE, LEVELS, blocks, period=PERIOD)
    return {
        "some send": {
            "OFedIQ": some,
            "entropy-coded": replace(some, compress=methods.quantize(LEVELS, blocks, "entropy")),
            "rotated": replace(some, compress=methods.rotate(2)),
            "compressed broadcasts": replace(some, broadcast=methods.delta(levels=7, blocks=blocks)),
        },
        "everyone learns": {
            "OFedIQ, all send": everyone,
            "OFedGrid": methods.make(f"ofedgrid(bits_per_step={bits}, steps=640)"),
            "OFedIQ-norm": methods.make(
                f"ofediq_norm(levels={LEVELS}, blocks={blocks}, bits_per_step={bits}, steps=640)"
            ),
            "top-k with memory": methods.make(f"topk_ef(keep={max(1, dim // 100)}, rate={RATE})"),
            "top-k, all send": methods.make(f"topk_ef(keep={max(1, dim // 100)})"),
        },
        "local steps": {
            "OFedIQ, L = 8": local,
            "SCAFFOLD": methods.make(f"scaffold(period={PERIOD}, rate={PERIOD * RATE})"),
        },
    }


def main() -> None:
    """Print row after row: milliseconds per step, and as a multiple of the group's first, measured beside it."""
    model = models.mlp_regressor(25) if "mlp" in sys.argv else models.cnn()
    stream = some_stream(model)
    print(f"{model.name}, D = {model.dim}, K = {CLIENTS}: time per step; CPU counts all threads")
    row = "{:24}{:>9}{:>10}{:>10}{:>10}  {}".format
    print(row("", "ms", "x OFedIQ", "CPU ms", "x OFedIQ", "engine"), flush=True)
    for group in compositions(model.dim).values():
        base = next(iter(group.values()))
        for name, method in group.items():
            times = [times_per_step(one, stream, model, BLOCKS) for one in (base, method)]
            ratios = [own / other for other, own in zip(*times, strict=True)]
            engine = simulate(method, stream.head(method.period), model).engine.split(":")[0]
            numbers = [
                f"{1e3 * times[1][0]:.2f}",
                f"{ratios[0]:.2f}",
                f"{1e3 * times[1][1]:.2f}",
                f"{ratios[1]:.2f}",
            ]
            print(row(name, *numbers, engine), flush=True)


if __name__ == "__main__":
    main()
