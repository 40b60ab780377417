"""eM-KOFL: several kernels learn, one that is drawn by their losses is shared and predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from ofediq.arrays import Array, Vector, float32, namespace
from ofediq.codec import Encoded
from ofediq.codec.schemes.scheme import read_floats, write_floats
from ofediq.errors import WireError
from ofediq.methods.broadcast import SERVER, Broadcast
from ofediq.methods.client import ClientRule, Down, Outcome, Sample, Window
from ofediq.methods.composition import Method
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import FromTotals, Totals
from ofediq.methods.terms import Terms
from ofediq.randomness import Purpose, stream_key, uniform
from ofediq.settings import Positive, limited


def block_size(dim: int, kernels: int) -> int:
    """Parameters of one kernel; the last one may have fewer."""
    return -(-dim // kernels)


def block_mask(xp: Any, dim: int, kernels: int, kernel: Array) -> Array:
    """[dim] or [n, dim]: the parameters of `kernel`, a number or [n]."""
    blocks = xp.arange(dim) // block_size(dim, kernels)
    return blocks == (kernel[:, None] if getattr(kernel, "ndim", 0) else kernel)


def alone(params: Array, kernels: int, kernel: int) -> Array:
    """`params` with the other kernels at zero: that kernel's own function, since kernels add up."""
    xp = namespace(params)
    return xp.where(block_mask(xp, params.shape[-1], kernels, kernel), params, np.float32(0))


def each_alone(sample: Sample, params: Array, kernels: int) -> Array:
    """[n, dim]: every kernel's gradient of its own loss, in the place of its parameters."""
    total = np.float32(0)
    for kernel in range(kernels):
        at = alone(params, kernels, kernel)
        total = total + alone(sample.gradient(at), kernels, kernel)
    return total


def draw_kernel(weights: Array, draw: Array) -> Array:
    """The kernel whose share of `weights` [..., kernels], which add up to one, holds `draw` [...]."""
    xp = namespace(weights)
    below = (xp.cumsum(weights, axis=-1) < draw[..., None]).sum(-1)
    return xp.minimum(below, weights.shape[-1] - 1).astype(np.int32)


def shares(logs: Array) -> Array:
    """exp(logs), made to add up to one along the last axis."""
    xp = namespace(logs)
    odds = xp.exp(logs - logs.max(-1)[..., None])
    return odds / odds.sum(-1)[..., None]


@piece
@dataclass(frozen=True)
class ManyKernels(ClientRule):
    """For all i: theta_i <- theta_i - eta g_i(theta_i). Predicts with the kernel that the server names."""

    step_size: Positive
    kernels: Annotated[int, limited(1, 256)]
    divides = False
    idle = False  # who does not send goes on learning
    personal = True

    def memory(self, params: Array) -> dict[str, Array]:
        """theta of all kernels."""
        return {"own": params}

    def sends(self, dim: int) -> dict[str, int]:
        """theta of one kernel, and the losses of all."""
        return {"update": block_size(dim, self.kernels), "losses": self.kernels}

    def start(self, down: Down, memory: Any) -> Array:
        """The own parameters, but for the kernel of the last broadcast, which is the common one."""
        xp = namespace(down.model)
        fresh = block_mask(xp, down.model.shape[-1], self.kernels, _number(down, "kernel"))
        return xp.where(fresh, down.model, memory["own"])

    def notes(self, down: Down, memory: Any) -> Array:
        """The losses so far, [n, kernels]."""
        return namespace(down.model).zeros((memory["own"].shape[0], self.kernels), np.float32)

    def experts(self, window: Window, down: Down, memory: Any) -> tuple[tuple[Array, Array], ...]:
        """All kernels; all weight is on one."""
        chosen = _number(down, "kernel")
        return tuple(
            (float32(chosen == kernel), alone(window.own, self.kernels, kernel))
            for kernel in range(self.kernels)
        )

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """A step of every kernel."""
        xp = namespace(window.own)
        gradients = each_alone(sample, window.own, self.kernels)
        return window._replace(
            own=window.own - np.float32(self.step_size) * gradients,
            gradients=window.gradients + gradients,
            notes=window.notes + xp.stack(sample.losses, axis=-1),
        )

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """How far theta of the next kernel is from the common one, and the losses."""
        xp = namespace(window.own)
        dim, size = window.own.shape[-1], block_size(window.own.shape[-1], self.kernels)
        padded = xp.pad(down.model - window.own, ((0, 0), (0, size * self.kernels - dim)))
        rows = padded.reshape(-1, self.kernels, size)
        return {"update": xp.take(rows, _number(down, "next"), axis=1), "losses": window.notes}

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """What it learnt."""
        return {"own": window.own}


def _number(down: Down, name: str) -> Array:
    value = down.scalars[name]
    if hasattr(value, "aval"):
        return value.astype(np.int32)
    return np.int32(value if 0 <= value < 2**31 else 0)  # a stranger's may be anything


@piece
@dataclass(frozen=True)
class KernelDraw(FromTotals):
    """theta_J <- mean over the senders; then J is what clients predict with, and the next J is drawn by weight."""

    kernels: Annotated[int, limited(1, 256)]
    weight_step: Positive = 8.0
    name = "emkofl"
    scalars = ("kernel", "next")
    alone = "`rule` must be eM-KOFL's own, which draws kernels"

    def init(self, params: Array) -> dict[str, Array]:
        """Equal weights; the first kernel."""
        xp = namespace(params)
        zero = xp.zeros((), np.int32)
        return {"weights": xp.zeros(self.kernels, np.float32), "kernel": zero, "next": zero}

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """All kernels alike, where no kernel was drawn."""
        alike = namespace(params).tile(total, self.kernels)[: params.shape[-1]]
        return params - alike / np.float32(clients), state

    def moved(self, params: Array, totals: Totals, state: Any) -> tuple[Array, Any]:
        """One kernel's mean, all weights, one draw."""
        xp, dim, count = namespace(params), params.shape[-1], totals.divisor
        mean = xp.tile(totals.vectors["update"] / count, self.kernels)[:dim]
        moved = xp.where(block_mask(xp, dim, self.kernels, state["next"]), params - mean, params)
        weights = state["weights"] - np.float32(self.weight_step) * totals.vectors["losses"] / count
        weights = weights - weights.max()
        draw = uniform(stream_key(totals.seed, totals.step, SERVER, Purpose.KERNEL), np.zeros(1, np.uint32))
        chosen = draw_kernel(shares(weights), draw.reshape(-1)[0])
        return moved, {"weights": weights, "kernel": state["next"], "next": chosen}

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """Which kernel is fresh, and which is wanted."""
        return {}, {name: state[name].astype(np.float32) for name in self.scalars}


@piece
@dataclass(frozen=True)
class OneBlock(Broadcast):
    """The parameters of the one kernel that has changed, and its number; the copy stays the model."""

    kernels: int

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The copy with the first kernel that differs."""
        xp, size = namespace(params), block_size(params.shape[-1], self.kernels)
        kernel = (params != copy).argmax() // size
        fresh = block_mask(xp, params.shape[-1], self.kernels, kernel)
        return xp.where(fresh, params, copy), np.float32(32 * (size + 1))

    def encode(self, params: Vector, copy: Vector, seed: int, step: int, number: int) -> tuple[Encoded, bool]:
        """The kernel's number and its parameters."""
        size = block_size(params.size, self.kernels)
        kernel = int((params != copy).argmax()) // size
        values = np.zeros(size + 1, np.float32)
        values[0] = kernel
        part = params[kernel * size : (kernel + 1) * size]
        values[1 : 1 + part.size] = part
        return write_floats(values), True

    def decode(
        self, encoded: Encoded, adds: bool, copy: Vector | None, dim: int, seed: int, step: int
    ) -> Vector:
        """The copy with that kernel."""
        if copy is None:
            raise WireError("broadcast: a kernel, and no model to put it into")
        size = block_size(dim, self.kernels)
        values = read_floats(encoded, size + 1)
        if values[0] not in range(self.kernels):
            raise WireError(f"broadcast: no kernel has the number {values[0]:g}")
        moved, first = np.array(copy), int(values[0]) * size
        moved[first : first + size] = values[1 : 1 + min(size, dim - first)]
        return moved


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """Everyone sends one kernel of P; a smaller budget draws fewer senders."""
    kernels = given.get("kernels", 8)
    each = block_size(terms.dim, kernels) + kernels
    return {"rate": min(1.0, terms.budget * terms.dim / each)}


@named(
    "emkofl",
    source="S. Hong, J. Chae: Communication-Efficient Randomized Algorithm for Multi-Kernel Online Federated "
    "Learning, 2021; settings from a third party's code",
    memory="the parameters of all kernels",
    model="random_features",
    spend=_spend,
)
def emkofl(kernels: int = 8, rate: float = 1.0, step_size: float = 0.01, weight_step: float = 8.0) -> Method:
    """eM-KOFL: P kernels learn everywhere, one of them is shared at a time.

    For the model `random_features(kernels=P)`.
    Client: for all i theta_i <- theta_i - eta g_i(theta_i), each kernel by its own loss; sends theta of the kernel J
    that the server asked for, and P losses. Server: theta_J <- mean; p_i ~ exp(-eta_g sum of the mean losses); draws
    the next J ~ p; broadcasts theta_J. Clients overwrite their theta_J and predict with kernel J alone. Costs
    32 p K (D / P + P) bits per step up and 32 (D / P + 3) per broadcast.

    Good for smooth regressions where nobody knows the width of the kernel. With P = 1 it is FedOGD on random
    features. Online the index is drawn one step ahead, so that one message per step and client is enough; who has
    no sample at a step does not take theta_J over. The original's eta = 1 suits labels in [0, 1]; its lambda is
    the model's `l2` (theta shrinks by 1 - eta l2 a step). With losses added up over clients, as in a third party's
    public code from which the settings are (ten clients, P = 8, widths 1/2 to 64), eta_g = 8 puts all weight on one
    kernel within a step: here they are averaged. That code counts the penalty as part of a kernel's loss, and lets
    all clients share one draw of the directions for all widths; here each kernel has its own.

    Args:
        kernels: P, as many as the model has.
        rate: probability that a client sends at a step; the mean is over those who do.
        weight_step: eta_g.
    """
    made = method(
        client=ManyKernels(step_size, kernels),
        server=KernelDraw(kernels, weight_step),
        participation=bernoulli(rate),
        name="eM-KOFL",
    )
    return replace(made, broadcast=OneBlock(kernels))
