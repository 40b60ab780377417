"""When the world changes: from the middle on, every digit is called by the next one's name.

An online learner does not stop learning, so it recovers by itself. How fast depends on the bits that it may send.
Some clients also join late and pause now and then, as clients do.
"""

from __future__ import annotations

import numpy as np

import ofediq
from ofediq.streams import availability, drift


def share_right(result: ofediq.Result, steps: slice) -> float:
    """The share of right predictions within some steps, instead of since the start."""
    return float(1 - result.error[steps].sum() / result.present[steps].sum())


def main(clients: int = 100, steps: int = 400) -> dict[str, ofediq.Result]:
    """Print accuracy before the change, right after it, and at the end."""
    stream = ofediq.partition(ofediq.load("digits"), clients=clients, steps=steps)
    stream = availability(drift(stream, at=steps // 2), join=0.3, pause=0.1)
    model = ofediq.models.softmax(features=64, classes=10)
    methods = {
        "FedOGD": ofediq.methods.fedogd(step_size=1.0),
        "OFedIQ, 10 %": ofediq.methods.at_budget("ofediq", 0.1, model.dim, clients, step_size=1.0),
        "OFedIQ, 1 %": ofediq.methods.at_budget("ofediq", 0.01, model.dim, clients, step_size=1.0),
        "no communication": ofediq.methods.local(step_size=1.0),
    }
    results = {name: ofediq.simulate(method, stream, model) for name, method in methods.items()}
    tenth = steps // 10
    phases = {"before": steps // 2 - tenth, "just after": steps // 2, "at the end": steps - tenth}
    print(f"{'accuracy':18}" + "".join(f"{phase:>12}" for phase in phases))
    for name, result in results.items():
        shares = [share_right(result, np.s_[first : first + tenth]) for first in phases.values()]
        print(f"{name:18}" + "".join(f"{share:12.3f}" for share in shares))
    return results


if __name__ == "__main__":
    main()
