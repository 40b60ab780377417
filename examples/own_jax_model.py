"""Your own model in JAX: a loss and a prediction for one sample are enough.

Here a multi-class support vector machine (squared hinge loss, convex) learns handwritten digits from 100 clients,
once with every gradient sent, once with OFedIQ on 5 % of the bits.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import ofediq

Params = dict[str, jax.Array]
PENALTY = 1e-3


def scores(params: Params, x: jax.Array) -> jax.Array:
    """One score per digit."""
    return x.reshape(-1) @ params["weights"] + params["bias"]


def squared_hinge(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """The sum of max(0, 1 - sign * score)^2 over the digits; sign is 1 for the right digit, -1 for the others."""
    sign = jnp.where(jnp.arange(10) == y, 1.0, -1.0)
    hinge = jnp.maximum(0, 1 - sign * scores(params, x))
    return (hinge**2).sum() + PENALTY / 2 * (params["weights"] ** 2).sum()


def main(clients: int = 100, steps: int = 100, budget: float = 0.05) -> dict[str, ofediq.Result]:
    """Run both methods on the same stream and print what they reached and what they sent."""
    start = {"weights": jnp.zeros((64, 10)), "bias": jnp.zeros(10)}
    model = ofediq.models.from_loss(squared_hinge, start, scores, "classification", name="svm", convex=True)
    stream = ofediq.partition(ofediq.load("digits"), clients=clients, steps=steps)
    plan = ofediq.plan(budget=budget, dim=model.dim, clients=clients)
    methods = {
        "FedOGD": ofediq.methods.fedogd(step_size=0.02),
        "OFedIQ": ofediq.methods.ofediq(plan.rate, plan.levels, plan.blocks, plan.period, step_size=0.02),
    }
    results = {name: ofediq.simulate(method, stream, model) for name, method in methods.items()}
    for name, result in results.items():
        print(f"{name:8}accuracy {result.accuracy[-1]:.3f}   {result.bits_wire.sum() / 8e6:8.2f} MB sent")
    return results


if __name__ == "__main__":
    main()
