"""Your own method: one new piece, a line that composes it, and the contracts that every method must keep.

The piece is a ternary compressor: each coordinate becomes -m, 0 or m, where m is the largest size in the update, at
random so that the mean is right (W. Wen et al.: TernGrad, 2017). It says what symbols and norms an update becomes and
what numbers those stand for; `codec.kit.Blockwise` encodes, decodes and counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ofediq
from ofediq.codec.kit import Blockwise, signed_symbols, stream_draws, symbol_values
from ofediq.methods import Compressor, bernoulli, descend, local_ogd, method
from ofediq.randomness import Address, Purpose
from ofediq.testing import Findings, check_method


@dataclass(frozen=True)
class Ternary(Blockwise, Compressor):
    """-m, 0 or m. Written once for NumPy (a device) and JAX (the simulator)."""

    coding = "entropy"
    norm_bits = 32
    name = "ternary"
    unbiased = True

    def shape(self, dim: int) -> tuple[int, int]:
        """One level, one block."""
        return 1, 1

    def formula_bits(self, dim: int) -> float:
        """One norm, and 2 bits for the symbol of each coordinate."""
        return 32.0 + 2.0 * dim

    def quantise(self, updates: Any, address: Address) -> tuple[Any, Any]:
        """Symbols -1, 0, 1 and the largest size of each row; every draw has its address (seed, step, client, i)."""
        draws = stream_draws(address.key(Purpose.ROUND))(0, updates.shape[1])
        largest = abs(updates).max(-1)[:, None]
        return signed_symbols(updates, largest, draws, 1), largest

    def values(self, symbols: Any, norms: Any, address: Address) -> Any:
        """What they stand for."""
        return symbol_values(symbols, norms, 1)


def main(clients: int = 100, steps: int = 200) -> tuple[Findings, ofediq.Result]:
    """Check the method, then let it learn."""
    mine = method(local_ogd(0.2), descend(0.2), bernoulli(0.2), Ternary(), name="Ternary")
    report = check_method(mine)
    print(report)
    stream = ofediq.partition(ofediq.load("digits"), clients=clients, steps=steps)
    result = ofediq.simulate(mine, stream, ofediq.models.softmax(64, 10))
    share = 1 - result.summary()["ccr_wire"]
    print(f"accuracy {result.accuracy[-1]:.3f} with {share:.2%} of FedOGD's bits")
    return report, result


if __name__ == "__main__":
    main()
