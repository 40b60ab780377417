"""One window through the compiled library: arrays in, sums out, everything checked before C sees it."""

from __future__ import annotations

import ctypes
import functools
import math
import os
from ctypes import c_float, c_int32, c_int64, c_uint32, c_void_p
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ofediq.codec.kit import MAX_LEVELS, MAX_NORM, TINY
from ofediq.codec.tables import book_bits, magnitude_classes, signed_widths
from ofediq.errors import InputError, require_choice, require_integer
from ofediq.kernels import library
from ofediq.machine import cores
from ofediq.methods.loudness import unpack
from ofediq.models import Network

THREADS = "OFEDIQ_THREADS"
"""How many threads to use; by default one for each core that this process may run on."""

_MOST_THREADS = 64
_ALIGN = 64
_MOST_LAYERS = 32
_KINDS, _ACTIVATIONS = ("conv", "dense", "pool"), ("identity", "relu", "tanh")
_CLASSES = len(magnitude_classes(MAX_LEVELS)[0])
_BOOK = book_bits(1).shape[1]
_FORMS = ("plain", "quantized", "rotated", "grid")
_ROOM = 16  # floats that a kernel may touch past the end of a vector


_NUMBERS = tuple(map(float, (MAX_LEVELS, _CLASSES, MAX_NORM, TINY, _MOST_LAYERS, _MOST_THREADS, _BOOK)))
"""What C calls the same."""


class _Model(ctypes.Structure):
    _fields_ = [
        ("stages", c_void_p),
        ("places", c_void_p),
        ("count", c_int32),
        ("regression", c_int32),
        ("penalty", c_float),
    ]


class _Steering(ctypes.Structure):
    _fields_ = [
        ("on", c_int32),
        ("step", c_float),
        ("loudest", c_float),
        ("spread", c_float),
        ("floor", c_float),
        ("draws", c_void_p),
        ("sent", c_void_p),
    ]


class _Coding(ctypes.Structure):
    _fields_ = [
        ("classes", c_int32),
        ("fixed", c_int64),
        ("own", c_int64),
        ("widths", c_void_p),
        ("book", c_void_p),
        ("bits", c_void_p),
    ]


class _Sending(ctypes.Structure):
    _fields_ = [("form", c_int32), ("levels", c_int32), ("blocks", c_int64), ("coding", _Coding)]


class _Window(ctypes.Structure):
    _fields_ = [
        ("model", _Model),
        ("steps", c_int32),
        ("clients", c_int32),
        ("threads", c_int32),
        ("moves", c_int32),
        ("step_size", c_float),
        ("windows", c_int32),
        ("descent", c_float),
        ("seed", c_uint32),
        ("step", c_uint32),
        ("first", c_uint32),
        ("features", c_int64),
        ("params", c_void_p),
        ("samples", c_void_p),
        ("targets", c_void_p),
        ("ends", c_void_p),
        ("order", c_void_p),
        ("sends", c_void_p),
        ("rates", c_void_p),
        ("scratch", c_void_p),
        ("losses", c_void_p),
        ("errors", c_void_p),
        ("squares", c_void_p),
        ("total", c_void_p),
        ("sending", _Sending),
        ("steering", _Steering),
    ]


class Rules(NamedTuple):
    """What the senders do, in numbers.

    Attributes:
        moves: whether they take local steps inside a window.
        step_size: of those.
        form: what they send: updates as they are ("plain"), "quantized", "rotated" with dither, or on a "grid".
        levels: s.
        blocks: b.
        fixed: bytes of a payload that is not modelled, if payloads are entropy-coded; then their bits are counted.
        own: the same for one on a grid of its own.
    """

    moves: bool = False
    step_size: float = 0.0
    form: str = "plain"
    levels: int = 0
    blocks: int = 0
    fixed: int = 0
    own: int = 0


class Steered(NamedTuple):
    """A steered round: who may send how likely, and what came of it.

    Attributes:
        step: z, the step of the grid.
        loudest: the largest loudness.
        spread: of `NormProportional`.
        floor: of `NormProportional`.
        draws: float32 [K]; a client sends if its draw lies below its probability.
        sent: bool [K], filled in: who sent.
    """

    step: float
    loudest: float
    spread: float
    floor: float
    draws: npt.NDArray[np.float32]
    sent: npt.NDArray[np.uint8]

    @classmethod
    def round(cls, signal: Any, spread: float, floor: float, draws: npt.NDArray[np.float32]) -> Steered:
        """An empty round of as many clients as there are draws; `signal` is what the server broadcast."""
        draws = np.ascontiguousarray(draws, np.float32)
        step, loudest = (float(part) for part in unpack(np.float32(signal)))
        return cls(step, loudest, spread, floor, draws, np.zeros(len(draws), np.uint8))


class WindowSums(NamedTuple):
    """Sums over the clients of windows: losses and errors at each step, [W, L], updates of the last one, [dim].

    And the bits of each coded payload, [W, K], and the model behind the last window.
    """

    loss: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]
    total: npt.NDArray[np.float32]
    bits: npt.NDArray[np.float32]
    params: npt.NDArray[np.float32]


@dataclass
class Kernels:
    """The compiled window of one model, with the memory that it works in.

    Attributes:
        model: a network that `supports` accepts.
        samples: float32 [n, ...].
        targets: int32 or float32 [n].
        threads: how many; the result does not depend on it.
    """

    model: Network
    samples: npt.NDArray[np.float32]
    targets: npt.NDArray[Any]
    threads: int = field(default_factory=lambda: thread_count())

    def __post_init__(self) -> None:
        self._library = load()
        regression = self.model.task == "regression"
        self.samples = np.ascontiguousarray(self.samples, np.float32)
        self.targets = np.ascontiguousarray(self.targets, np.float32 if regression else np.int32)
        self.samples = self.model.images(self.samples) if self.model.channels_first else self.samples
        self.samples = np.ascontiguousarray(self.samples)
        count, features = len(self.samples), math.prod(self.model.shape)
        if count == 0 or self.samples.size != count * features or self.targets.shape != (count,):
            raise InputError(
                f"`samples` must be {features} numbers each with one target, "
                f"got {list(self.samples.shape)} and {list(self.targets.shape)}"
            )
        reason = supports(self.model)
        if reason is not None:
            raise InputError(f"`model` must be one that the compiled kernels know: {reason}")
        self._stages = network_numbers(self.model)
        self._spec = _Model(_at(self._stages), None, len(self._stages), regression, self.model.l2)
        self._places = network_places(self.model)
        if self._places is not None:
            self._spec.places = self._places.ctypes.data
        self._scratch, self._room = np.empty(0, np.float32), (0, 0)

    def run(
        self,
        params: npt.NDArray[np.float32],
        order: npt.NDArray[np.int32],
        sends: npt.NDArray[np.bool_],
        rates: npt.NDArray[np.float32],
        rules: Rules,
        seed: int,
        step: int,
        steered: Steered | None = None,
        first: int = 0,
    ) -> WindowSums:
        """`walk` through one window: `order` is [L, K], `sends` [K]; so losses and errors are [L], bits [K]."""
        ends = np.array([step & 0xFFFFFFFF], np.uint32)
        sums = self.walk(
            params, order[None], sends[None], rates, rules, seed, ends, steered=steered, first=first
        )
        return sums._replace(loss=sums.loss[0], error=sums.error[0], bits=sums.bits[0])

    def walk(
        self,
        params: npt.NDArray[np.float32],
        order: npt.NDArray[np.int32],
        sends: npt.NDArray[np.bool_],
        rates: npt.NDArray[np.float32],
        rules: Rules,
        seed: int,
        ends: npt.NDArray[np.uint32],
        *,
        steered: Steered | None = None,
        first: int = 0,
        descent: float = 0.0,
    ) -> WindowSums:
        """Losses, errors and the sums of what the senders send, over windows that follow each other.

        Args:
            params: the common model.
            order: [W, L, K] the sample of each client at each step; negative is none.
            sends: [W, K] who sends at the window's end.
            rates: [K] p_k, by which updates are divided.
            rules: what the senders do.
            seed: of the quantiser's draws.
            ends: [W] each window's last step, counted from 1.
            steered: for one window of a steered method; `sends` are then all who may send, and `rates` are 1.
            first: number of the first client, where others are elsewhere.
            descent: after each window to which somebody sent, the model moves by minus this times the sum.
        """
        windows, steps, clients = order.shape
        params, order = np.array(params, np.float32), np.ascontiguousarray(order, np.int32)
        who, rates = np.ascontiguousarray(sends, np.uint8), np.ascontiguousarray(rates, np.float32)
        ends = np.ascontiguousarray(ends, np.uint32)
        self._check(params, order, who, rates, rules)
        slots, workplace = self._workplace(clients)
        (losses, errors), squares = np.empty((2, windows, slots, steps)), np.empty(windows)
        total, bits = np.empty(self.model.dim, np.float32), np.zeros((windows, clients), np.float32)
        window = _Window(
            self._spec,
            steps,
            clients,
            self.threads,
            rules.moves,
            rules.step_size,
            windows,
            descent,
            seed,
            0,
            first,
            self.samples[0].size,
            *(_at(array) for array in (params, self.samples, self.targets, ends, order, who, rates)),
            workplace,
            *(_at(array) for array in (losses, errors, squares, total)),
            _sending(rules, bits),
            _steering(steered, clients),
        )
        if len(ends) != windows or self._library.run_windows(ctypes.byref(window)):
            raise InputError(f"`rules` cannot be run by the compiled kernels: {rules}")
        present = (order >= 0).sum(2)
        loss = losses.sum(1) + self.model.l2 / 2 * squares[:, None] * present
        return WindowSums(loss, errors.sum(1), total, bits, params)

    def _check(
        self,
        params: npt.NDArray[np.float32],
        order: npt.NDArray[np.int32],
        who: npt.NDArray[np.uint8],
        rates: npt.NDArray[np.float32],
        rules: Rules,
    ) -> None:
        """Refuse whatever could lead C out of its arrays."""
        windows, _, clients = order.shape
        if params.shape != (self.model.dim,):
            raise InputError(f"`params` must be {self.model.dim} numbers, got shape {list(params.shape)}")
        if who.shape != (windows, clients) or rates.shape != (clients,):
            raise InputError(f"`sends` and `rates` must have {clients} entries, one per client")
        if order.size == 0 or order.max() >= len(self.samples):
            raise InputError(f"`order` must hold indices below {len(self.samples)} or negative ones")
        require_choice("form", rules.form, _FORMS)
        if rules.form in ("quantized", "rotated"):
            require_integer("levels", rules.levels, 1, 2**15)
            require_integer("blocks", rules.blocks, 1, self.model.dim)
        require_integer("threads", self.threads, 1, _MOST_THREADS)

    def _workplace(self, clients: int) -> tuple[int, int]:
        """Groups of clients, and the address of enough aligned memory.

        Kept between windows: fresh pages would cost more than sums.
        """
        if self._room[0] != clients:
            needed = _floats(self._library, self._spec, clients, self.threads)
            if self._scratch.size < needed + _ALIGN // 4:
                self._scratch = np.empty(needed + _ALIGN // 4, np.float32)
            self._room = (clients, self._library.slots_of(ctypes.byref(self._spec), c_int32(clients)))
        return self._room[1], -(-self._scratch.ctypes.data // _ALIGN) * _ALIGN


def load() -> ctypes.CDLL:
    """The library, if it has the same idea of a window: its source may be newer than this running code."""
    found = library.load()
    found.window_bytes.restype = c_int64
    numbers = np.zeros(len(_NUMBERS))
    found.shared_numbers(_at(numbers))
    if found.window_bytes() != ctypes.sizeof(_Window) or tuple(numbers) != _NUMBERS:
        raise library.UnavailableError("their source has changed since this process started")
    return found


def supports(model: object) -> str | None:
    """Why the kernels cannot run `model`; None if they can.

    >>> from ofediq import models
    >>> supports(models.softmax(64, 10))
    >>> supports(models.from_loss(lambda w, x, y: (w @ x - y) ** 2, np.zeros(3), task="regression"))
    "kernels know stacks of layers, and 'own' is none"
    """
    if not isinstance(model, Network):
        return f"kernels know stacks of layers, and {getattr(model, 'name', model)!r} is none"
    if len(model.stages) > _MOST_LAYERS:
        return f"kernels know at most {_MOST_LAYERS} layers, {model.name!r} has {len(model.stages)}"
    return None


def quantized(
    update: npt.NDArray[np.float32],
    levels: int,
    blocks: int,
    seed: int,
    step: int,
    client: int,
    form: str = "quantized",
) -> npt.NDArray[np.float32]:
    """What the server decodes from `update`, by the kernels' quantisers; equal to `codec.Quantized` or `Rotated`."""
    dim = require_integer("dim", update.size, 1)
    require_integer("blocks", blocks, 1, dim)
    require_integer("levels", levels, 1, 2**15)
    padded, total, *scratch = np.zeros((6, -(-(dim + 2 * _ROOM) // _ROOM) * _ROOM), np.float32)
    padded[:dim] = update
    places = (c_void_p * len(scratch))(*(array.ctypes.data for array in scratch))
    load().quantize_add(
        c_int32(_FORMS.index(form)),
        _at(padded),
        c_int64(dim),
        c_int32(levels),
        c_int64(blocks),
        c_uint32(seed),
        c_uint32(step),
        c_uint32(client),
        places,
        _at(total),
    )
    return total[:dim]


def thread_count() -> int:
    """`$OFEDIQ_THREADS`, or the number of cores that this process may use."""
    chosen = os.environ.get(THREADS, "")
    if chosen:
        if not chosen.isdecimal():
            raise InputError(f"`{THREADS}` must be an integer >= 1, got {chosen!r}")
        return require_integer(THREADS, int(chosen), 1, _MOST_THREADS)
    return min(cores(), _MOST_THREADS)


def network_numbers(model: Network) -> npt.NDArray[np.int32]:
    """The stages in C's numbers, [stages, 10]."""
    rows = []
    for stage in model.stages:
        height, width, inputs = stage.inputs if len(stage.inputs) == 3 else (1, 1, math.prod(stage.inputs))
        kind, activation = _KINDS.index(stage.kind), _ACTIVATIONS.index(stage.activation)
        sizes = (stage.outputs[-1], stage.size, stage.margin, stage.pooled)
        rows.append((kind, activation, stage.bias, height, width, inputs, *sizes))
    return np.array(rows, np.int32)


def network_places(model: Network) -> npt.NDArray[np.int32] | None:
    """Where each parameter of the flat vector lies in the kernels' order, if not layer by layer.

    Found by sending the numbers from 1 on through the kernels, which copy their bits; 0 is padding.
    """
    order = model.flat_order()
    if order is None:
        return None
    lib, stages = load(), network_numbers(model)
    spec = _Model(_at(stages), None, len(stages), False, 0.0)
    lib.inner_floats.restype = c_int64
    inner = np.zeros(lib.inner_floats(ctypes.byref(spec)) + _ROOM, np.int32)
    numbers = np.arange(1, model.dim + 1, dtype=np.int32)
    lib.to_inner(ctypes.byref(spec), _at(numbers), _at(inner))
    places, used = np.empty(model.dim, np.int32), np.flatnonzero(inner)
    places[order[inner[used] - 1]] = used
    return places


def _steering(steered: Steered | None, clients: int) -> _Steering:
    if steered is None:
        return _Steering()
    if steered.draws.shape != (clients,) or steered.sent.shape != (clients,):
        raise InputError(f"`steered` must be a round of {clients} clients, got {len(steered.draws)}")
    arrays = (_at(array) for array in (steered.draws, steered.sent))
    return _Steering(1, steered.step, steered.loudest, steered.spread, steered.floor, *arrays)


def _sending(rules: Rules, bits: npt.NDArray[np.float32]) -> _Sending:
    sending = _Sending(_FORMS.index(rules.form), rules.levels, rules.blocks)
    if rules.fixed:
        widths, book = _alphabet(rules.levels)
        arrays = (_at(array) for array in (widths, book, bits))
        sending.coding = _Coding(len(widths), rules.fixed, rules.own, *arrays)
    return sending


@functools.cache
def _alphabet(levels: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """For symbols up to `levels`: how many each class holds, and bits of one by each table of the book."""
    widths = signed_widths(magnitude_classes(levels)[1]).astype(np.float32)
    return widths, np.ascontiguousarray(book_bits(levels), np.float32)


def _floats(lib: ctypes.CDLL, spec: _Model, clients: int, threads: int) -> int:
    lib.scratch_floats.restype = c_int64
    return int(lib.scratch_floats(ctypes.byref(spec), c_int32(clients), c_int32(threads)))


def _at(array: npt.NDArray[Any]) -> c_void_p:
    return c_void_p(array.ctypes.data)
