"""UVeQFed: lattice quantisation with a dither that both sides draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ofediq.codec.schemes import Lattice
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.fedavg import Proximal, SenderMean


def _message_bits(bits: int, dim: int) -> float:
    """At most, for Gaussian updates: symbols and their code's loss, norm and models; or the values themselves."""
    return min(32.0 * dim, 1.005 * bits * dim + 200)


@piece
@dataclass(frozen=True)
class QuantizeLattice(Lattice, Compressor):
    """UVeQFed's quantiser, see `codec.Lattice`."""

    coding = "entropy"

    def variance(self, dim: int) -> float:
        """D c^2 / 12, or 5/72 in the place of 1/12: exact."""
        moment = 1 / 12 if self.lattice == "scalar" else 5 / 72
        return dim * moment / self.points_in_norm(dim) ** 2


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """From 2 to 4 bits per coordinate if everyone sends, as far as they fit; below that, fewer senders."""
    room = terms.bits_each * int(given.get("period", 1))
    rate = float(given.get("rate", 1.0))
    fitting = [bits for bits in (3, 4) if rate * _message_bits(bits, terms.dim) <= room]
    bits = int(given.get("bits", max(fitting, default=2)))
    return {"bits": bits, "rate": min(rate, room / _message_bits(bits, terms.dim))}


@named(
    "uveqfed",
    source="N. Shlezinger et al.: UVeQFed: Universal Vector Quantization for Federated Learning, 2020",
    spend=_spend,
)
def uveqfed(
    bits: int = 2,
    lattice: Literal["hexagonal", "scalar"] = "hexagonal",
    period: int = 1,
    rate: float = 1.0,
    step_size: float = 0.01,
) -> Method:
    """UVeQFed: local steps whose sum is rounded to a lattice, after a dither that is taken away again.

    With u = (w - y) / eta after L local steps, c the distance of lattice points and z uniform on a cell, drawn by
    both sides from (seed, step, client):  q = the lattice point nearest to u / (c ||u||) + z;  decoded
    c ||u|| (q - z);  w <- w - eta mean over the senders. The error is uniform on a cell whatever u is: unbiased for
    every update. Costs about R D + 32 bits per message (for Gaussian updates; less for sparse ones), R D p K / L in
    all per step; of a budget above 4 bits per coordinate the rest is left. No memory. Good from about 2 bits per
    coordinate; at 1 bit the error is as large as the update.

    The hexagonal lattice, on pairs, has about 4 % less error than the scalar one at equal bits. The scalar one after
    a random rotation is `rotate`. The original fixes a finite part of the lattice with zeta = (2 + R / 5) times a
    norm, and an overload outside; entropy-coded indices need neither, so c is set by R alone and nothing overloads.
    The authors' public code halves the dither in its scalar mode (which is then biased), folds overloaded points
    back, and leaves the code's table out of its count of bits; here the models are counted. Online: windows of L
    steps, one sample each.

    Args:
        bits: R, 1 to 4.
        lattice: `hexagonal` or `scalar`.
        period: L.
        rate: p, with which a client sends at the end of a window.
    """
    return method(
        Proximal(step_size),
        SenderMean(step_size),
        bernoulli(rate),
        QuantizeLattice(bits, lattice),
        period=period,
        name="UVeQFed",
    )
