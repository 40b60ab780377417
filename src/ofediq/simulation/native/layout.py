"""What Python and C agree on: the structures of a window, numbers that both sides have, and layers as numbers."""

from __future__ import annotations

import ctypes
import functools
import math
from ctypes import c_int64, c_void_p
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Flags, Numbers, Vector
from ofediq.codec.kit import MAX_LEVELS, MAX_NORM, TINY
from ofediq.codec.tables import book_bits, magnitude_classes, signed_widths
from ofediq.errors import InputError
from ofediq.kernels import library
from ofediq.kernels.structures import structures
from ofediq.methods.budgets.loudness import unpack
from ofediq.models import Network
from ofediq.models.activations import ACTIVATIONS, Leaky

MOST_THREADS = 64
MOST_LAYERS = 32
_KINDS = ("conv", "dense", "pool", "mean", "norm")
_STAGE_NUMBERS = 16
_CLASSES = len(magnitude_classes(MAX_LEVELS)[0])
_BOOK = book_bits(1).shape[1]
FORMS = ("plain", "quantized", "rotated", "grid", "largest")
MEMORIES = ("", "errors", "controls")
ROOM = 16  # floats that a kernel may touch past the end of a vector

_SIZES = (MOST_LAYERS, MOST_THREADS, _BOOK, len(ACTIVATIONS), _STAGE_NUMBERS)
_NUMBERS = tuple(map(float, (MAX_LEVELS, _CLASSES, MAX_NORM, TINY, *_SIZES)))
"""What C calls the same."""


_C = structures("sizes.h", "grid.h", "layout.h")
ModelLayout, CodingLayout, SendingLayout = _C["model"], _C["coding"], _C["sending"]
SteeringLayout, MemoryLayout, BroadcastLayout = _C["steering"], _C["memory"], _C["broadcast"]
WindowLayout = _C["window"]


class SenderRules(NamedTuple):
    """What the senders do, in numbers.

    Attributes:
        moves: whether they take local steps inside a window.
        step_size: of those.
        form: what they send: updates as they are ("plain"), "quantized", "rotated" with dither, on a "grid", or the
            "largest" coordinates.
        levels: s.
        blocks: b.
        fixed: bytes of a payload that is not modelled, if payloads are entropy-coded; then their bits are counted.
        own: the same for one on a grid of its own.
        keep: how many of the largest.
        memory: what they remember: "errors" of what they sent, "controls" of their steps, or nothing.
        period: the divisor of what controls learn.
    """

    moves: bool = False
    step_size: float = 0.0
    form: str = "plain"
    levels: int = 0
    blocks: int = 0
    fixed: int = 0
    own: int = 0
    keep: int = 0
    memory: str = ""
    period: int = 1


class Remembered(NamedTuple):
    """What clients remember while windows run.

    Attributes:
        rows: float32 [K, dim], which the windows change.
        counts: bool [W, K], who of those that learn sends, where the others remember what they learnt.
        common: float32 [dim], what all controls have in common.
    """

    rows: Vector
    counts: Flags | None = None
    common: Vector | None = None


SILENCE, DIFFERENCE, WHOLE_MODEL = range(3)
"""What goes down after a window."""


class Broadcasts(NamedTuple):
    """What goes down after each window, where clients have a copy of the model that differs from it.

    Attributes:
        levels: s of the quantised differences.
        blocks: b.
        fixed: bytes of a payload that is not modelled, if differences are entropy-coded; then their bits are counted.
        copy: float32 [dim], what clients have, which the windows change.
        kinds: uint8 [W], `SILENCE`, `DIFFERENCE` or `WHOLE_MODEL`.
        bits: float32 [W], filled in: those of the differences that are entropy-coded.
    """

    levels: int
    blocks: int
    fixed: int
    copy: Vector
    kinds: npt.NDArray[np.uint8]
    bits: Vector


class SteeredRound(NamedTuple):
    """A steered round: who may send how likely, and what came of it.

    Attributes:
        step: z, the step of the grid.
        loudest: the largest loudness.
        spread: of `NormProportional`.
        floor: of `NormProportional`.
        draws: float32 [K]; a client sends if its draw lies below its probability.
        sent: bool [K], filled in: who sent.
        decides: whether norms decide who sends; if not, all of this only says what the grid is.
    """

    step: float
    loudest: float
    spread: float
    floor: float
    draws: Vector
    sent: npt.NDArray[np.uint8]
    decides: bool = True

    @classmethod
    def round(cls, signal: Any, spread: float, floor: float, draws: Vector) -> SteeredRound:
        """An empty round of as many clients as there are draws; `signal` is what the server broadcast."""
        draws = np.ascontiguousarray(draws, np.float32)
        step, loudest = (float(part) for part in unpack(np.float32(signal)))
        return cls(step, loudest, spread, floor, draws, np.zeros(len(draws), np.uint8))

    @classmethod
    def on_grid(cls, signal: Any, spread: float, clients: int) -> SteeredRound:
        """A round in which everybody who sends does so on the server's grid, and norms decide nothing else."""
        return cls.round(signal, spread, 0.0, np.zeros(clients, np.float32))._replace(decides=False)


def load() -> ctypes.CDLL:
    """The library, if it has the same idea of a window: its source may be newer than this running code."""
    found = library.load()
    found.window_bytes.restype = c_int64
    numbers = np.zeros(64)  # with room: a changed source may have more of them
    found.shared_numbers(address_of(numbers))
    same = tuple(numbers[: len(_NUMBERS)]) == _NUMBERS and not numbers[len(_NUMBERS) :].any()
    if found.window_bytes() != ctypes.sizeof(WindowLayout) or not same:
        raise library.UnavailableError("their source has changed since this process started")
    return found


def network_numbers(model: Network) -> npt.NDArray[np.int32]:
    """The stages in C's numbers, [stages, 16]; the last three are the bits of floats."""
    rows = np.zeros((len(model.stages), _STAGE_NUMBERS), np.int32)
    for row, stage in zip(rows, model.stages, strict=True):
        height, width, inputs = stage.inputs if len(stage.inputs) == 3 else (1, 1, math.prod(stage.inputs))
        kind, activation = _KINDS.index(stage.kind), ACTIVATIONS.index(type(stage.activation))
        sizes = (stage.outputs[-1], *stage.size, *stage.margins, stage.stride, stage.pooled)
        row[:-3] = (kind, activation, stage.bias, height, width, inputs, *sizes)
        bends = (0.0, 0.0)
        if isinstance(stage.activation, Leaky):
            bends = (stage.activation.below, stage.activation.corner)
        row[-3:] = np.array((*bends, stage.epsilon), np.float32).view(np.int32)
    return rows


def network_places(model: Network) -> npt.NDArray[np.int32] | None:
    """Where each parameter of the flat vector lies in the kernels' order, if not layer by layer.

    Found by sending the numbers from 1 on through the kernels, which copy their bits; 0 is padding.
    """
    order = model.flat_order()
    if order is None:
        return None
    lib, stages = load(), network_numbers(model)
    spec = ModelLayout(address_of(stages), None, len(stages), False, 0.0)
    lib.inner_floats.restype = c_int64
    inner = np.zeros(lib.inner_floats(ctypes.byref(spec)) + ROOM, np.int32)
    numbers = np.arange(1, model.dim + 1, dtype=np.int32)
    lib.to_inner(ctypes.byref(spec), address_of(numbers), address_of(inner))
    places, used = np.empty(model.dim, np.int32), np.flatnonzero(inner)
    places[order[inner[used] - 1]] = used
    return places


def steering_layout(steered: SteeredRound | None, clients: int) -> Any:
    """A steered round for C; nothing for one that is not."""
    if steered is None:
        return SteeringLayout()
    if steered.draws.shape != (clients,) or steered.sent.shape != (clients,):
        raise InputError(f"`steered` must be a round of {clients} clients, got {len(steered.draws)}")
    arrays = (address_of(array) for array in (steered.draws, steered.sent))
    return SteeringLayout(
        steered.decides, steered.step, steered.loudest, steered.spread, steered.floor, *arrays
    )


def sending_layout(rules: SenderRules, bits: Vector) -> Any:
    """What senders do for C; coded payloads write their sizes to `bits`."""
    sending = SendingLayout(FORMS.index(rules.form), rules.levels, rules.blocks, CodingLayout(), rules.keep)
    if rules.form == "largest":
        sending.coding = CodingLayout(1, rules.fixed, rules.own, None, None, address_of(bits))
    elif rules.fixed:
        sending.coding = _coding(rules, bits)
    return sending


def broadcast_layout(broadcasts: Broadcasts | None, windows: int, dim: int) -> Any:
    """What goes down for C; nothing where clients have the model itself."""
    if broadcasts is None:
        return BroadcastLayout()
    sizes = (broadcasts.copy.shape, broadcasts.kinds.shape, broadcasts.bits.shape)
    if sizes != ((dim,), (windows,), (windows,)):
        raise InputError(f"`broadcasts` must be of {windows} windows and {dim} parameters, got {sizes}")
    coding = _coding(broadcasts, broadcasts.bits) if broadcasts.fixed else CodingLayout()
    arrays = (address_of(array) for array in (broadcasts.copy, broadcasts.kinds))
    return BroadcastLayout(True, broadcasts.levels, broadcasts.blocks, coding, *arrays)


def _coding(rules: SenderRules | Broadcasts, bits: Vector) -> Any:
    """Entropy-coded payloads of quantised vectors."""
    widths, book = _alphabet(rules.levels)
    arrays = (address_of(array) for array in (widths, book, bits))
    return CodingLayout(len(widths), rules.fixed, getattr(rules, "own", 0), *arrays)


def memory_layout(rules: SenderRules, remembered: Remembered | None, shape: tuple[int, int, int]) -> Any:
    """What clients remember for C; `shape` is windows, clients and parameters."""
    if not rules.memory:
        return MemoryLayout()
    windows, clients, dim = shape
    rows, counts, common = remembered or Remembered(np.empty((0, 0), np.float32))
    wanted = {"errors": counts is not None and counts.shape == (windows, clients)}
    wanted["controls"] = common is not None and common.shape == (dim,)
    fits = rows.shape == (clients, dim) and rows.dtype == np.float32 and rows.flags.c_contiguous
    if not (fits and rows.flags.writeable and wanted[rules.memory]):
        raise InputError(f"`remembered` must be {rules.memory} of {clients} clients, got rows {rows.shape}")
    places = [None if array is None else array.ctypes.data for array in (rows, common, counts)]
    return MemoryLayout(MEMORIES.index(rules.memory), rules.period, *places)


@functools.cache
def _alphabet(levels: int) -> tuple[Vector, Vector]:
    """For symbols up to `levels`: how many each class holds, and bits of one by each table of the book."""
    widths = signed_widths(magnitude_classes(levels)[1]).astype(np.float32)
    return widths, np.ascontiguousarray(book_bits(levels), np.float32)


def address_of(array: Numbers) -> c_void_p:
    """Where an array begins; it must outlive the call."""
    return c_void_p(array.ctypes.data)
