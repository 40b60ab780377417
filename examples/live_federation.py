"""A live federation in one file: a broker, a server, and three sensors with a stream loop each."""

import asyncio
from typing import Any

import numpy as np

from ofediq import methods
from ofediq.federation import Broker, Client, ModelSpec, Rules, Server, coordinate, embedded

SENSORS = ("north", "south", "west")
TRUTH = np.array([0.5, -1.0, 2.0])


def sensor(broker: Broker, name: str, samples: int) -> None:
    """What runs on a device. The label arrives after the prediction; `wait` keeps it in step with the rounds."""
    rng = np.random.default_rng(SENSORS.index(name))
    errors = []
    with Client(broker, "greenhouse", name, wait=30.0) as client:
        for _ in range(samples):
            x = rng.standard_normal(3)
            guess = client.predict_one(x)
            y = float(TRUTH @ x)
            client.learn_one(x, y)
            errors.append((guess - y) ** 2)
    print(
        f"{name}: squared error {np.mean(errors[:10]):.3f} at first, {np.mean(errors[-10:]):.5f} in the end"
    )


async def federate(rounds: int) -> dict[str, Any]:
    """Broker and server in this event loop, each sensor in a thread of its own."""
    rules = Rules(roster=SENSORS, start_clients=len(SENSORS), rounds=rounds)
    model = ModelSpec("linear", (3,), "regression")
    coordinator = coordinate("greenhouse", methods.fedogd(step_size=0.1), model, rules)
    async with embedded() as broker:
        devices = [asyncio.to_thread(sensor, broker, name, rounds) for name in SENSORS]
        await asyncio.gather(Server(coordinator, broker).run(), *devices)
    return coordinator.monitor.totals()


def main(rounds: int = 100) -> dict[str, Any]:
    """Run it, and say what it cost."""
    totals = asyncio.run(federate(rounds))
    print(f"{totals['updates']} updates, {totals['bits_wire'] / 8:,.0f} bytes")
    return totals


if __name__ == "__main__":
    main()
