"""POF-MKL: common kernels, and weights over them of each client's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec import Encoded
from ofediq.codec.schemes.scheme import read_floats, vector, write_floats
from ofediq.errors import InputError, WireError
from ofediq.methods.client import ClientRule, Down, Outcome, Sample, Window
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import descend
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.emkofl import alone, block_mask, block_size, draw_kernel, each_alone, shares
from ofediq.randomness import Address, Purpose, uniform
from ofediq.settings import Fraction, Positive, limited


@piece
@dataclass(frozen=True)
class OwnWeights(ClientRule):
    """f = sum of w_i f_i; w_i *= exp(-r loss_i); sends the gradient of one kernel I ~ q, divided by q_I."""

    kernels: Annotated[int, limited(1, 256)]
    weight_step: Positive
    explore: Fraction
    moves = False
    idle = False  # who does not send goes on weighing
    personal = True

    def memory(self, params: Array) -> dict[str, Array]:
        """log w = 0."""
        return {"weights": namespace(params).zeros(self.kernels, np.float32)}

    def notes(self, down: Down, memory: Any) -> Array:
        """log w inside a window."""
        return memory["weights"]

    def experts(self, window: Window, down: Down, memory: Any) -> tuple[tuple[Array, Array], ...]:
        """All kernels of the common model, by the client's weights."""
        weights = shares(window.notes)
        return tuple(
            (weights[:, kernel], alone(down.model, self.kernels, kernel)) for kernel in range(self.kernels)
        )

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """Gradients of all kernels, each of its own loss; weights follow the losses."""
        xp = namespace(window.gradients)
        losses = xp.stack(sample.losses, axis=-1)
        finite = xp.where(xp.isfinite(losses), xp.minimum(losses, np.float32(1e18)), np.float32(1e18))
        moved = window.notes - np.float32(self.weight_step) * finite
        return window._replace(
            gradients=window.gradients + each_alone(sample, window.own, self.kernels),
            notes=moved - moved.max(-1)[:, None],
        )

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """One kernel, drawn by the weights before this window, and by chance."""
        if down.address is None:
            raise InputError("`down` must have the clients' numbers, got none")
        xp = namespace(window.gradients)
        floor = np.float32(self.explore / self.kernels)
        chance = np.float32(1 - self.explore) * shares(memory["weights"]) + floor
        draw = uniform(down.address.key(Purpose.KERNEL), np.zeros(1, np.uint32)).reshape(-1)
        kernel = draw_kernel(chance, draw)
        divisor = xp.take_along_axis(chance, kernel[:, None], axis=1)
        chosen = block_mask(xp, window.gradients.shape[-1], self.kernels, kernel)
        return {"update": xp.where(chosen, window.gradients / divisor, np.float32(0))}

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """The weights, whether it sent or not."""
        return {"weights": window.notes}


@piece
@dataclass(frozen=True)
class LargestBlock(Compressor):
    """The largest of `kernels` equal blocks as it is, and its number; all of an update that has only one."""

    kernels: Annotated[int, limited(1, 256)]
    coding = "raw"
    name = "largest_block"
    unbiased = False

    def formula_bits(self, dim: int) -> float:
        """32 for each number of a block, and a byte."""
        return 32.0 * block_size(dim, self.kernels) + 8

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """Zero in the other blocks."""
        xp = namespace(updates)
        kept = block_mask(xp, updates.shape[1], self.kernels, self._largest(updates))
        bits = xp.full(updates.shape[0], np.float32(self.formula_bits(updates.shape[1])))
        return xp.where(kept, updates, np.float32(0)), bits

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """Number and values."""
        values = vector(update, self)
        size, block = block_size(values.size, self.kernels), int(self._largest(values[None])[0])
        part = np.zeros(size, np.float32)
        found = values[block * size : (block + 1) * size]
        part[: found.size] = found
        return Encoded(bytes([block]) + write_floats(part).payload)

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The values in their block."""
        size = block_size(dim, self.kernels)
        block = encoded.payload[0] if encoded.payload else self.kernels
        if block * size >= dim:
            raise WireError(f"payload: there is no block {block}")
        part = read_floats(encoded._replace(payload=encoded.payload[1:]), size)
        values = np.zeros(dim, np.float32)
        values[block * size : (block + 1) * size] = part[: dim - block * size]
        return values

    def _largest(self, updates: Array) -> Array:
        """[n]: the block with the largest number in it; the first of equals."""
        xp = namespace(updates)
        size = block_size(updates.shape[1], self.kernels)
        most = xp.abs(updates).argmax(-1)
        return (most // size).astype(np.int32)


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """Everyone sends one kernel of P; a smaller budget draws fewer senders."""
    each = LargestBlock(given.get("kernels", 8)).formula_bits(terms.dim) / (32.0 * terms.dim)
    return {"rate": min(1.0, terms.budget / each)}


@named(
    "pofmkl",
    source="P. M. Ghari, Y. Shen: Personalized Online Federated Learning with Multiple Kernels, 2022, and their "
    "public code",
    memory="a weight for each kernel",
    model="random_features",
    spend=_spend,
)
def pofmkl(
    kernels: int = 8,
    rate: float = 1.0,
    step_size: float = 0.01,
    weight_step: float = 1.0,
    explore: float = 0.1,
) -> Method:
    """POF-MKL: clients weigh common kernels, each for itself. For the model `random_features(kernels=P)`.

    f = sum of w_i f_i / sum of w_i with common theta_i and own w_i;  w_i *= exp(-r loss_i). A client draws one kernel
    I ~ q = (1 - zeta) w / sum of w + zeta / P and sends its gradient / q_I;  w <- w - eta/K sum of what arrives:
    unbiased for all kernels at once. Costs 32 p K (D / P + 1/4) bits per step up and 32 D per broadcast.

    Good where clients need different widths, or some of them change: weights are personal and cost nothing. With P =
    1 it is FedOGD on random features. The original's r is eta, the step of the models, and its zeta a power of
    1/K; it can send M > 1 kernels, here one. Its code leaves the squared norms of theta in the losses that move
    the weights, and so does the model's `l2` here.

    Args:
        kernels: P, as many as the model has.
        rate: probability that a client sends at a step; what it sends is divided by it.
        weight_step: r.
        explore: zeta.
    """
    return method(
        client=OwnWeights(kernels, weight_step, explore),
        server=descend(step_size),
        participation=bernoulli(rate),
        compress=LargestBlock(kernels),
        name="POF-MKL",
    )
