"""Your own method: one new piece, a line that composes it, and the contracts that every method must keep.

The piece is a ternary compressor: each coordinate becomes -m, 0 or m, where m is the largest size in the update, at
random so that the mean is right (W. Wen et al.: TernGrad, 2017). On the wire it is an (s, b) message with one level
and one block whose norm is m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import ofediq
from ofediq.arrays import namespace
from ofediq.codec import Message, payload_bits, signed_symbols, symbol_values
from ofediq.methods import Compressor, bernoulli, descend, local_ogd, method
from ofediq.methods.compress import rows_of
from ofediq.randomness import Address, Purpose, uniform
from ofediq.testing import Findings, check_method


@dataclass(frozen=True)
class Ternary(Compressor):
    """-m, 0 or m. Written once for NumPy (a device) and JAX (the simulator)."""

    coding = "entropy"

    def formula_bits(self, dim: int) -> float:
        """One norm, and 2 bits for the symbol of each coordinate."""
        return 32.0 + 2.0 * dim

    def apply(self, updates: Any, address: Address, signal: Any = None) -> tuple[Any, Any]:
        """What the server decodes from many updates [n, dim], and the bits of each."""
        symbols, largest = _ternary(updates, address)
        return symbol_values(symbols, largest, 1), payload_bits(symbols, largest, levels=1)

    def message(self, update: Any, address: Address, signal: float | None = None) -> Message:
        """The message of one client."""
        symbols, largest = _ternary(update[None], address._replace(client=np.array([address.client])))
        return Message(update.size, 1, 1, symbols[0], largest[0], step=address.step, client=address.client)


def _ternary(updates: Any, address: Address) -> tuple[Any, Any]:
    """Symbols -1, 0, 1 and the largest size of each row; every draw has its address (seed, step, client, i)."""
    index = namespace(updates).arange(updates.shape[1], dtype=np.uint32)
    draws = uniform(rows_of(address).key(Purpose.ROUND), index)
    largest = abs(updates).max(-1)[:, None]
    return signed_symbols(updates, largest, draws, 1), largest


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
