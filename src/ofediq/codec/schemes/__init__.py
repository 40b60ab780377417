"""Ways to put an update on the wire; one file each. `Scheme` is what they have in common."""

from ofediq.codec.schemes.additive import Additive as Additive
from ofediq.codec.schemes.blockwise import SymbolCoding as SymbolCoding
from ofediq.codec.schemes.bucketed import Bucketed as Bucketed
from ofediq.codec.schemes.codebook import Codebook as Codebook
from ofediq.codec.schemes.eden import Eden as Eden
from ofediq.codec.schemes.grid import Grid as Grid
from ofediq.codec.schemes.lattice import Lattice as Lattice
from ofediq.codec.schemes.quantized import Quantized as Quantized
from ofediq.codec.schemes.raw import Raw as Raw
from ofediq.codec.schemes.rotated import Rotated as Rotated
from ofediq.codec.schemes.rounded import Rounded as Rounded
from ofediq.codec.schemes.scheme import Encoded as Encoded
from ofediq.codec.schemes.scheme import Scheme as Scheme
from ofediq.codec.schemes.signs import Signs as Signs
from ofediq.codec.schemes.sparse import Sparse as Sparse
from ofediq.lazy import public

__all__ = public(globals())
