"""One window through the compiled library: arrays in, sums out, everything checked before C sees it."""

from __future__ import annotations

import ctypes
import math
import os
from ctypes import c_int32, c_int64
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Flags, Floats, Numbers, Vector
from ofediq.errors import InputError, require_choice, require_integer
from ofediq.machine import cores
from ofediq.models import Network
from ofediq.simulation.native.layout import (
    FORMS,
    MOST_LAYERS,
    MOST_THREADS,
    Broadcasts,
    ModelLayout,
    Remembered,
    SenderRules,
    SteeredRound,
    WindowLayout,
    address_of,
    broadcast_layout,
    load,
    memory_layout,
    network_numbers,
    network_places,
    sending_layout,
    steering_layout,
)

THREADS = "OFEDIQ_THREADS"
"""How many threads to use; by default one for each core that this process may run on."""

_ALIGN = 64

Ints = npt.NDArray[np.int32]


class WindowSums(NamedTuple):
    """Sums over the clients of windows: losses and errors at each step, [W, L], updates of the last one, [dim].

    And the bits of each coded payload, [W, K], and the model behind the last window.
    """

    loss: Floats
    error: Floats
    total: Vector
    bits: Vector
    params: Vector


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
    samples: Vector
    targets: Numbers
    threads: int = field(default_factory=lambda: thread_count())

    def __post_init__(self) -> None:
        self._library = load()
        regression = self.model.task == "regression"
        self.samples = np.ascontiguousarray(self.samples, np.float32)
        self.targets = np.ascontiguousarray(self.targets, np.float32 if regression else np.int32)
        self.samples = self.samples if self.model.as_given else self.model.images(self.samples)
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
        self._spec = ModelLayout(address_of(self._stages), None, len(self._stages), regression, self.model.l2)
        self._places = network_places(self.model)
        if self._places is not None:
            self._spec.places = self._places.ctypes.data
        self._scratch, self._room = np.empty(0, np.float32), (0, 0)

    def run(
        self,
        params: Vector,
        order: Ints,
        sends: Flags,
        rates: Vector,
        rules: SenderRules,
        seed: int,
        step: int,
        **more: Any,
    ) -> WindowSums:
        """`walk` through one window: `order` is [L, K], `sends` [K]; so losses and errors are [L], bits [K]."""
        ends = np.array([step & 0xFFFFFFFF], np.uint32)
        sums = self.walk(params, order[None], sends[None], rates, rules, seed, ends, **more)
        return sums._replace(loss=sums.loss[0], error=sums.error[0], bits=sums.bits[0])

    def walk(
        self,
        params: Vector,
        order: Ints,
        sends: Flags,
        rates: Vector,
        rules: SenderRules,
        seed: int,
        ends: npt.NDArray[np.uint32],
        *,
        steered: SteeredRound | None = None,
        first: int = 0,
        descent: float = 0.0,
        remembered: Remembered | None = None,
        broadcasts: Broadcasts | None = None,
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
            remembered: for rules with a memory; `sends` are then all who learn, and `rates` are 1.
            broadcasts: where clients have a copy of the model that is not the model.
        """
        windows, steps, clients = order.shape
        params, order = np.array(params, np.float32), np.ascontiguousarray(order, np.int32)
        who, rates = np.ascontiguousarray(sends, np.uint8), np.ascontiguousarray(rates, np.float32)
        ends = np.ascontiguousarray(ends, np.uint32)
        self._check(params, order, who, rates, rules)
        slots, workplace = self._workplace(clients)
        (losses, errors), squares = np.empty((2, windows, slots, steps)), np.empty(windows)
        total, bits = np.empty(self.model.dim, np.float32), np.zeros((windows, clients), np.float32)
        window = WindowLayout(
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
            *(address_of(array) for array in (params, self.samples, self.targets, ends, order, who, rates)),
            workplace,
            *(address_of(array) for array in (losses, errors, squares, total)),
            sending_layout(rules, bits),
            steering_layout(steered, clients),
            memory_layout(rules, remembered, (windows, clients, self.model.dim)),
            broadcast_layout(broadcasts, windows, self.model.dim),
        )
        if len(ends) != windows or self._library.run_windows(ctypes.byref(window)):
            raise InputError(f"`rules` cannot be run by the compiled kernels: {rules}")
        present = (order >= 0).sum(2)
        loss = losses.sum(1) + self.model.l2 / 2 * squares[:, None] * present
        return WindowSums(loss, errors.sum(1), total, bits, params)

    def _check(
        self, params: Vector, order: Ints, who: npt.NDArray[np.uint8], rates: Vector, rules: SenderRules
    ) -> None:
        """Refuse whatever could lead C out of its arrays."""
        windows, _, clients = order.shape
        if params.shape != (self.model.dim,):
            raise InputError(f"`params` must be {self.model.dim} numbers, got shape {list(params.shape)}")
        if who.shape != (windows, clients) or rates.shape != (clients,):
            raise InputError(f"`sends` and `rates` must have {clients} entries, one per client")
        if order.size == 0 or order.max() >= len(self.samples):
            raise InputError(f"`order` must hold indices below {len(self.samples)} or negative ones")
        require_choice("form", rules.form, FORMS)
        if rules.form in ("quantized", "rotated"):
            require_integer("levels", rules.levels, 1, 2**15)
            require_integer("blocks", rules.blocks, 1, self.model.dim)
        if rules.form == "largest":
            require_integer("keep", rules.keep, 1, self.model.dim)
        require_integer("threads", self.threads, 1, MOST_THREADS)

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


def supports(model: object) -> str | None:
    """Why the kernels cannot run `model`; None if they can.

    >>> from ofediq import models
    >>> supports(models.softmax(64, 10))
    >>> supports(models.from_loss(lambda w, x, y: (w @ x - y) ** 2, np.zeros(3), task="regression"))
    "kernels know stacks of layers, and 'own' is none"
    """
    if not isinstance(model, Network):
        return f"kernels know stacks of layers, and {getattr(model, 'name', model)!r} is none"
    if len(model.stages) > MOST_LAYERS:
        return f"kernels know at most {MOST_LAYERS} layers, {model.name!r} has {len(model.stages)}"
    return None


def thread_count() -> int:
    """`$OFEDIQ_THREADS`, or the number of cores that this process may use."""
    chosen = os.environ.get(THREADS, "")
    if chosen:
        if not chosen.isdecimal():
            raise InputError(f"`{THREADS}` must be an integer >= 1, got {chosen!r}")
        return require_integer(THREADS, int(chosen), 1, MOST_THREADS)
    return min(cores(), MOST_THREADS)


def _floats(lib: ctypes.CDLL, spec: Any, clients: int, threads: int) -> int:
    lib.scratch_floats.restype = c_int64
    return int(lib.scratch_floats(ctypes.byref(spec), c_int32(clients), c_int32(threads)))
