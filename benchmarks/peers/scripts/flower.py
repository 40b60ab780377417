"""Flower's simulation: Ray, one virtual client per node, FedAvg with one local step per round.

Every client is asked in every round, because every client predicts; those that do not send return nothing. Rounds
after the time is over select nobody and cost nothing.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from flwr.client import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.scripts import flower_client, task
from benchmarks.peers.scripts import torch_model as peer


class Average(FedAvg):
    """FedAvg; with a quantiser, the server steps along what was sent instead of averaging parameters."""

    def __init__(self, given: task.Arguments) -> None:
        self.given, self.recorder = given, task.Recorder(given.task, given.seconds)
        self.module = peer.build(given.task)
        self.values = flower_client.get_parameters(self.module)
        super().__init__(
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=given.task.clients,  # nodes register one by one, and a round would take those there are
            min_available_clients=given.task.clients,
            initial_parameters=ndarrays_to_parameters(self.values),
            on_fit_config_fn=lambda number: {"step": number - 1},
        )

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
        """Everyone, until the time is over."""
        if self.recorder.over:
            return []
        return super().configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """The new model; errors and times are noted."""
        if failures or len(results) != self.given.task.clients:
            raise SystemExit(f"{len(failures)} clients failed, {len(results)} answered: {failures[:1]}")
        sent = [pair for pair in results if pair[1].parameters.tensors]
        if not self.given.task.levels:
            parameters = super().aggregate_fit(server_round, sent, failures)[0]
            self.values = parameters_to_ndarrays(parameters)
        else:
            total = sum(parameters_to_ndarrays(answer.parameters)[0] for _, answer in sent)
            self._move(np.asarray(total, np.float32))
        self.recorder.note([sum(answer.metrics["error"] for _, answer in results)])
        flower_client.set_parameters(self.module, self.values)
        self.recorder.report(peer.flat_params(self.given.task, self.module), self.given.out)
        return ndarrays_to_parameters(self.values), {}

    def _move(self, total: Any) -> None:
        start, factor = 0, self.given.task.step_size / self.given.task.clients
        for place, value in enumerate(self.values):
            self.values[place] = value - factor * total[start : start + value.size].reshape(value.shape)
            start += value.size


def main() -> None:
    """Run the simulation with one processor per client at a time, the usual setting."""
    given = task.arguments()
    if given.task.period > 1:
        raise SystemExit("this script knows windows of one step only")
    os.environ[flower_client.WORK] = str(given.path.resolve())

    def server_fn(context: Any) -> Any:
        return ServerAppComponents(
            strategy=Average(given), config=ServerConfig(num_rounds=len(given.task.senders))
        )

    run_simulation(
        server_app=ServerApp(server_fn=server_fn),
        client_app=ClientApp(client_fn=flower_client.client_fn),
        num_supernodes=given.task.clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )


if __name__ == "__main__":
    main()
