"""Your own model in PyTorch: a small convolutional network, learnt by OFedIQ on a tenth of the bits.

Needs `pip install 'ofediq[torch]'`; torch computes the gradients, everything else stays as it is.
"""

from __future__ import annotations

from torch import nn

import ofediq


def make(seed: int) -> nn.Module:
    """The network before the first step; torch's generator has been seeded with `seed`."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),  # [n, 8, 8] -> [n, 1, 8, 8], with a channel
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 8 * 8, 10),
    )


def main(clients: int = 100, steps: int = 150, budget: float = 0.1) -> ofediq.Result:
    """Learn handwritten digits and print what was reached and what was sent."""
    model = ofediq.models.from_torch(make, "classification", classes=10)
    stream = ofediq.partition(ofediq.load("digits"), clients=clients, steps=steps)
    plan = ofediq.plan(budget=budget, dim=model.dim, clients=clients)
    method = ofediq.methods.ofediq(plan.rate, plan.levels, plan.blocks, plan.period, step_size=0.2)
    result = ofediq.simulate(method, stream, model, seed=0)
    sent = result.bits_wire.sum() / 8e6
    print(f"{model.dim} parameters: accuracy {result.accuracy[-1]:.3f}, {sent:.2f} MB sent")
    return result


if __name__ == "__main__":
    main()
