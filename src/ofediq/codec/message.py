"""`Message`: what one client says at one step, quantised or not, before and after the wire."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Vector
from ofediq.codec.arithmetic import MAX_LEVELS, MAX_NORM, SHORT_NORM_SHIFT
from ofediq.codec.blocks import MAX_DIM, block_layout
from ofediq.codec.rotated import CENTROID_LEVELS, MAX_ROTATED_NORM, ROTATIONS, Rotation
from ofediq.codec.rotation import rotation_blocks
from ofediq.codec.values import block_values, rotated_block_values
from ofediq.errors import InputError, require, require_choice, require_integer
from ofediq.randomness import Address

Symbols = NDArray[np.int32]

_MAX_PATTERN = np.float32(MAX_NORM).view(np.uint32)


def _no_symbols() -> Symbols:
    return np.zeros(0, np.int32)


def _no_floats() -> Vector:
    return np.zeros(0, np.float32)


@dataclass(frozen=True, eq=False)
class Message:
    """One update, as (symbols, norms) or as plain float32 values.

    Build one with `quantize`, `quantize_rotated` or `Message.raw`. The arrays are read-only, and the constructor
    checks all rules, so that a message which exists can be encoded and decoded.

    Attributes:
        dim: D, the length of the vector.
        levels: s, the number of levels; 0 in a raw message.
        blocks: b, the number of blocks; 0 in a raw message.
        symbols: int32 from -s to s, one per coordinate; empty in a raw message.
        norms: float32, one per block; empty in a raw message.
        values: float32, one per coordinate; empty in a quantised message.
        norm_bits: 32, or 16 if the norms were rounded to 16 bits.
        step: the time step it belongs to.
        client: who sends it.
        rotation: `none`; or how the symbols of a rotated message are read, `dither` or `nearest`.
        seed: of a rotated message: its rotation and its dither are drawn from (seed, step, client). Else 0.

    >>> message = Message.raw([0.5, -2.0], step=3, client=7)
    >>> message.is_raw, message.dequantize()
    (True, array([ 0.5, -2. ], dtype=float32))
    """

    dim: int
    levels: int
    blocks: int
    symbols: Symbols = field(default_factory=_no_symbols)
    norms: Vector = field(default_factory=_no_floats)
    values: Vector = field(default_factory=_no_floats)
    norm_bits: int = 32
    step: int = 0
    client: int = 0
    rotation: Rotation = "none"
    seed: int = 0

    @classmethod
    def raw(cls, vector: Any, step: int = 0, client: int = 0) -> Message:
        """A message that holds `vector` as it is, in float32."""
        values = as_vector(vector)
        return cls(values.size, 0, 0, values=values.copy(), step=step, client=client)

    def __post_init__(self) -> None:
        require_integer("dim", self.dim, 1, MAX_DIM)
        require_integer("step", self.step, 0, 2**64 - 1)
        require_integer("client", self.client, 0, 2**32 - 1)
        if self.is_raw:
            sizes = (0, 0, self.dim)
            require(self.blocks == 0, "blocks", "must be 0 in a raw message", self.blocks)
            require(self.norm_bits == 32, "norm_bits", "must be 32 in a raw message", self.norm_bits)
            require(self.rotation == "none", "rotation", "must be none in a raw message", self.rotation)
        else:
            sizes = (self.dim, self.blocks, 0)
            require_integer("levels", self.levels, 1, MAX_LEVELS)
            require_integer("blocks", self.blocks, 1, self.dim)
            require_norm_bits(self.norm_bits)
        self._check_rotation()
        self._freeze("symbols", sizes[0], "int32")
        self._freeze("norms", sizes[1], "float32")
        self._freeze("values", sizes[2], "float32")
        if self.is_raw:
            check_finite("values", self.values)
        else:
            check_norms(self.norms, self.norm_bits)
            if self.rotation != "none" and self.norms.max() > MAX_ROTATED_NORM:
                raise InputError(f"`norms` must be at most {MAX_ROTATED_NORM:.7g}, got {self.norms.max()}")
            check_symbols(self.symbols, self.norms, self.levels)

    @property
    def is_raw(self) -> bool:
        """Whether the message holds the vector itself instead of symbols and norms."""
        return self.levels == 0

    def dequantize(self) -> Vector:
        """The float32 vector that this message stands for: a new array, the same at sender and receiver."""
        if self.is_raw:
            return self.values.copy()
        symbols, norms = self.symbols[None], self.norms[None]
        if self.rotation == "none":
            rows = block_values(symbols, norms, self.levels)
        else:
            address = Address(self.seed, self.step, self.client)
            rows = rotated_block_values(symbols, norms, address, self.levels, self.rotation)
        values: Vector = rows[0]
        return values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash; this is how Python spells it

    def _freeze(self, name: str, size: int, dtype: str) -> None:
        array = getattr(self, name)
        fits = isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == (size,)
        if not fits:
            seen = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)
            raise InputError(f"`{name}` must be an array of {size} {dtype}, got {seen}")
        view = array.view()
        view.flags.writeable = False
        object.__setattr__(self, name, view)

    def _check_rotation(self) -> None:
        require_choice("rotation", self.rotation, ROTATIONS)
        if self.rotation == "none":
            require(self.seed == 0, "seed", "must be 0 in a message that is not rotated", self.seed)
            return
        require_integer("seed", self.seed, 0, 2**32 - 1)
        wanted = rotation_blocks(self.dim)
        rule = f"must be {wanted} in a rotated message of {self.dim} coordinates"
        require(self.blocks == wanted, "blocks", rule, self.blocks)
        if self.rotation == "nearest":
            require(
                self.levels in CENTROID_LEVELS, "levels", f"must be one of {CENTROID_LEVELS}", self.levels
            )


def as_vector(vector: Any, name: str = "vector") -> Vector:
    """`vector` as a one-dimensional, non-empty, finite float32 array, or `InputError`.

    >>> as_vector([1, 2])
    array([1., 2.], dtype=float32)
    >>> as_vector([1.0, float("nan")])
    Traceback (most recent call last):
    ofediq.errors.InputError: `vector` must be finite in float32, got nan at index 1
    """
    try:
        array = np.asarray(vector)
    except ValueError:
        raise InputError(f"`{name}` must be one-dimensional, got rows of different lengths") from None
    require(array.dtype.kind in "fiu", name, "must hold real numbers", str(array.dtype))
    require(array.ndim == 1 and array.size > 0, name, "must be one-dimensional and not empty", array.shape)
    require(array.size <= MAX_DIM, name, f"must have at most {MAX_DIM} coordinates", array.size)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused below
        values = array.astype(np.float32, copy=False)
    check_finite(name, values)
    return values


def require_norm_bits(norm_bits: int) -> None:
    """Raise `InputError` unless `norm_bits` is 16 or 32."""
    require(norm_bits in (16, 32), "norm_bits", "must be 16 or 32", norm_bits)


def check_finite(name: str, values: Vector) -> None:
    """Raise `InputError` unless all values are finite."""
    finite = np.isfinite(values)
    if not finite.all():
        index = int(finite.argmin())
        raise InputError(f"`{name}` must be finite in float32, got {values[index]} at index {index}")


def check_norms(norms: Vector, norm_bits: int) -> None:
    """Raise `InputError` unless all norms are from 0 to `MAX_NORM` and have so many bits."""
    # As integers, floats >= 0 keep their order; a sign bit, an infinity and a NaN all lie above the largest norm.
    patterns = norms.view(np.uint32)
    if patterns.max() > _MAX_PATTERN:
        index = int(patterns.argmax())
        raise InputError(f"`norms` must lie in [0, {MAX_NORM:.7g}], got {norms[index]} at index {index}")
    if norm_bits == 16 and (patterns & np.uint32(2**SHORT_NORM_SHIFT - 1)).any():
        raise InputError("`norms` must have 16 significant bits when `norm_bits` is 16")


def check_symbols(symbols: Symbols, norms: Vector, levels: int) -> None:
    """Raise `InputError` unless all symbols are from -s to s, and 0 in blocks of norm 0."""
    low, high = int(symbols.min()), int(symbols.max())
    rule = f"must lie in [-{levels}, {levels}]"
    require(-levels <= low, "symbols", rule, low)
    require(high <= levels, "symbols", rule, high)
    if norms.all():
        return
    for run in block_layout(symbols.size, norms.size):
        if run.rows(symbols)[run.column(norms)[:, 0] == 0].any():
            raise InputError("`symbols` must be 0 in a block of norm 0")
