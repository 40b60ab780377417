"""Ways to put an update on the wire; one file each. `Scheme` is what they have in common."""

from ofediq.codec.schemes.additive import Additive
from ofediq.codec.schemes.blockwise import SymbolCoding
from ofediq.codec.schemes.bucketed import Bucketed
from ofediq.codec.schemes.codebook import Codebook
from ofediq.codec.schemes.eden import Eden
from ofediq.codec.schemes.grid import Grid
from ofediq.codec.schemes.lattice import Lattice
from ofediq.codec.schemes.quantized import Quantized
from ofediq.codec.schemes.raw import Raw
from ofediq.codec.schemes.rotated import Rotated
from ofediq.codec.schemes.rounded import Rounded
from ofediq.codec.schemes.scheme import Encoded, Scheme
from ofediq.codec.schemes.signs import Signs
from ofediq.codec.schemes.sparse import Sparse

__all__ = [
    "Additive",
    "Bucketed",
    "Codebook",
    "Eden",
    "Encoded",
    "Grid",
    "Lattice",
    "Quantized",
    "Raw",
    "Rotated",
    "Rounded",
    "Scheme",
    "Signs",
    "Sparse",
    "SymbolCoding",
]
