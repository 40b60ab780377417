"""pfl-research: its simulated backend and federated averaging, the quantiser as one of its postprocessors.

Predictions of all clients are one batched pass outside of pfl, which would train and evaluate client by client.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import HyperParam, NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.postprocessor.base import Postprocessor

from benchmarks.peers.scripts import task as shared
from benchmarks.peers.scripts import torch_model as peer
from benchmarks.peers.scripts.task import Arguments


class Module(torch.nn.Module):
    """The task's network with the two functions that pfl calls."""

    def __init__(self, given: Arguments) -> None:
        super().__init__()
        self.task, self.network = given.task, peer.build(given.task)

    def loss(self, x: Any, y: Any, is_eval: bool = False) -> Any:
        """Without the penalty: the local optimiser has it as weight decay."""
        return peer.loss(self.task, self.network(x), y)

    def metrics(self, x: Any, y: Any, is_eval: bool = True) -> dict[str, Any]:
        """None: predictions are counted elsewhere."""
        return {}


class Rounds(TrainingProcessCallback):
    """Knows which window it is; predicts before each, and stops when the time is over."""

    def __init__(self, given: Arguments, module: Module) -> None:
        self.given, self.module = given, module
        self.recorder = shared.Recorder(given.task, given.seconds)
        self.x, self.y = peer.samples(given.task)
        self.window = 0
        self.start()

    def start(self) -> None:
        """Predictions of the window, and the senders' turn."""
        task = self.given.task
        rows = task.order[self.window]
        with torch.no_grad():
            self.errors = float(peer.errors(task, self.module.network(self.x[rows]), self.y[rows]))
        self.senders = np.flatnonzero(task.senders[self.window])
        self.queue: Any = iter(self.senders)

    def dataset(self, client: int) -> Any:
        """The sample that a client sees in this window."""
        row = self.given.task.order[self.window, client]
        return Dataset([self.x[row : row + 1], self.y[row : row + 1]], user_id=str(client))

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        """Note the window; the next one."""
        self.recorder.note([self.errors])
        self.window += 1
        if self.recorder.over:
            return True, Metrics()
        self.start()
        return False, Metrics()


class Quantise(Postprocessor):
    """What a sender's difference becomes on its way; pfl averages over the senders, the task over all clients."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds, self.task = rounds, rounds.given.task

    def postprocess_one_user(self, *, stats: Any, user_context: Any) -> Any:
        """Quantised, then scaled so that the mean over senders is the sum over all clients / (K p)."""
        if self.task.levels:
            names = list(stats.keys())
            flat = torch.cat([stats[name].reshape(-1) for name in names])
            sent = peer.quantize(flat[None], self.task.levels, self.task.blocks)[0]
            start = 0
            for name in names:
                value = stats[name]
                stats[name] = sent[start : start + value.numel()].view_as(value)
                start += value.numel()
        factor = len(self.rounds.senders) / (self.task.clients * self.task.rate)
        for name in stats.keys() if factor != 1 else ():
            stats[name] = factor * stats[name]
        return stats, Metrics()


class Senders(HyperParam):
    """How many clients the next window asks."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds

    def value(self) -> int:
        """Their number."""
        return len(self.rounds.senders)


def main() -> None:
    """Run federated averaging, one cohort per window."""
    given = shared.arguments()
    if given.task.period > 1:
        raise SystemExit("this script knows windows of one step only")
    module = Module(given)
    rounds = Rounds(given, module)
    data = FederatedDataset(rounds.dataset, lambda: next(rounds.queue))
    backend = SimulatedBackend(data, data, postprocessors=[Quantise(rounds)])
    model = PyTorchModel(
        model=module,
        local_optimizer_create=lambda params, lr: torch.optim.SGD(params, lr, weight_decay=given.task.l2),
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(len(given.task.senders), 10**9, Senders(rounds), None),
        backend=backend,
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=given.task.step_size, local_batch_size=None
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=None),
        callbacks=[rounds],
    )
    rounds.recorder.report(peer.flat_params(given.task, module.network), given.out)


if __name__ == "__main__":
    main()
