"""A Flower app whose clients send bits, not arrays: one mod on the clients, one strategy on the server.

`pip install '.[flower]'`, then `python examples/flower_app.py`: Flower's simulation of ten clients that learn a
softmax model (7,850 parameters) in NumPy; any framework does. First with Flower's own FedAvg, then with our methods,
and what each sends, as Flower's connection would carry it. `--rounds` and `--methods` change it.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from ofediq.flower import MethodStrategy, method_mod, wire_bytes

CLIENTS, FEATURES, CLASSES, BATCH = 10, 784, 10, 20
METHODS = "flower,fedogd,ofediq:0.1,ofedgrid:0.1,ofedgrid:0.01"

app = ClientApp(mods=[method_mod])
plain = ClientApp()
FIRST = {"weights": np.zeros((FEATURES, CLASSES), np.float32), "offsets": np.zeros(CLASSES, np.float32)}


@plain.train()
@app.train()
def train(message: Message, context: Context) -> Message:
    """A usual Flower client: arrays in, one local step, arrays out. It knows nothing of bits."""
    weights, offsets = (array.numpy() for array in message.content["arrays"].values())
    x, y = batch(int(context.node_config["partition-id"]), message.content["config"]["server-round"])
    scores = x @ weights + offsets
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    slopes = (chances - np.eye(CLASSES, dtype=np.float32)[y]) / len(x)
    arrays = {
        "weights": Array(weights - 0.5 * x.T @ slopes),
        "offsets": Array(offsets - 0.5 * slopes.sum(axis=0)),
    }
    metrics = {"num-examples": len(x), "error": float((scores.argmax(axis=1) != y).mean())}
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord(metrics)})
    return Message(content, reply_to=message)


def batch(client: int, step: int) -> tuple[Any, Any]:
    """New samples of a client: noisy copies of ten pictures that all clients share."""
    pictures = np.random.default_rng(7).normal(size=(CLASSES, FEATURES))
    rng = np.random.default_rng([client, step])
    y = rng.integers(CLASSES, size=BATCH)
    x = (pictures[y] + 4 * rng.normal(size=(BATCH, FEATURES))) / np.sqrt(FEATURES)
    return x.astype(np.float32), y


class CountedFedAvg(FedAvg):
    """Flower's own FedAvg, which also says how many bytes came."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        """As FedAvg does."""
        kept = list(replies)
        arrays, metrics = super().aggregate_train(server_round, kept)
        metrics["flower-bytes-up"] = sum(map(wire_bytes, kept))
        return arrays, metrics


def strategy(name: str) -> FedAvg:
    """`flower` for FedAvg, else a method's name and its budget."""
    if name == "flower":
        return CountedFedAvg(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    key, _, budget = name.partition(":")
    return MethodStrategy(key, clients=CLIENTS, budget=float(budget or 1), fraction_evaluate=0.0)


def run(name: str, rounds: int) -> dict[str, float]:
    """One federation in Flower's simulation: means per round, and the error of the last ones."""
    server, found = ServerApp(), {}

    @server.main()
    def main(grid: Any, context: Context) -> None:
        first = ArrayRecord({name: Array(values) for name, values in FIRST.items()})
        result = strategy(name).start(grid, first, rounds)
        rows = [dict(one) for one in result.train_metrics_clientapp.values()]
        for key in ("ofediq-senders", "ofediq-bits-wire", "flower-bytes-up", "flower-bytes-down"):
            found[key] = float(np.mean([row.get(key, np.nan) for row in rows]))
        found["error"] = float(np.mean([row["error"] for row in rows[-3:] if "error" in row]))

    chosen = plain if name == "flower" else app
    run_simulation(server, chosen, CLIENTS, backend_config={"client_resources": {"num_cpus": 1}})
    return found


def main(methods: str = METHODS, rounds: int = 10) -> dict[str, dict[str, float]]:
    """Run them all, then print a table."""
    found = {name: run(name, rounds) for name in methods.split(",")}
    print(f"\nper round, {CLIENTS} clients, {FEATURES * CLASSES + CLASSES:,} parameters, {rounds} rounds")
    print(f"{'method':>14}  senders  our payloads    Flower up  Flower down  error")
    for name, one in found.items():
        payload = one["ofediq-bits-wire"] / 8
        print(
            f"{name:>14}  {one['ofediq-senders']:7.1f}  {payload:10,.0f} B  {one['flower-bytes-up']:9,.0f} B"
            f"  {one['flower-bytes-down']:9,.0f} B  {one['error']:.2f}"
        )
    return found


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Bits inside a Flower app.")
    options.add_argument("--methods", default=METHODS)
    options.add_argument("--rounds", type=int, default=10)
    main(**vars(options.parse_args()))
