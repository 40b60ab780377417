"""Your own model in Flax: a small convolutional network, learnt by OFedIQ on a tenth of the bits.

Needs `pip install 'ofediq[flax]'`. An Equinox module goes the same way, with `ofediq.models.from_equinox`.
"""

from __future__ import annotations

import jax
from flax import linen

import ofediq


def add_channel(images: jax.Array) -> jax.Array:
    """[n, 8, 8] -> [n, 8, 8, 1]."""
    return images[..., None]


def flatten(maps: jax.Array) -> jax.Array:
    """[n, ...] -> [n, features]."""
    return maps.reshape(maps.shape[0], -1)


def main(clients: int = 100, steps: int = 150, budget: float = 0.1) -> ofediq.Result:
    """Learn handwritten digits and print what was reached and what was sent."""
    module = linen.Sequential([add_channel, linen.Conv(8, (3, 3)), linen.relu, flatten, linen.Dense(10)])
    model = ofediq.models.from_flax(module, (8, 8), "classification", classes=10)
    stream = ofediq.partition(ofediq.load("digits"), clients=clients, steps=steps)
    plan = ofediq.plan(budget=budget, dim=model.dim, clients=clients)
    method = ofediq.methods.ofediq(plan.rate, plan.levels, plan.blocks, plan.period, step_size=0.2)
    result = ofediq.simulate(method, stream, model, seed=0)
    sent = result.bits_wire.sum() / 8e6
    print(f"{model.dim} parameters: accuracy {result.accuracy[-1]:.3f}, {sent:.2f} MB sent")
    return result


if __name__ == "__main__":
    main()
