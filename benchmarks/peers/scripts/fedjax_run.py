"""FedJAX: its federated averaging, and its `for_each_client` with the quantiser added where there is one.

Predictions of all clients are one batched pass outside of FedJAX, which has no cheaper way.
"""

from __future__ import annotations

from typing import Any

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg

from benchmarks.peers.scripts import task as shared
from benchmarks.peers.scripts.task import Flags, Rows, Task, Vector


class Federation:
    """The server's state, and what FedJAX compiled."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.averages = task.period == 1 and not task.levels and bool(task.senders.all())
        gradient = jax.grad(self._loss)

        def grad_fn(params: Any, batch: Any, rng: Any) -> Any:
            return gradient(params, batch)

        local = fedjax.optimizers.sgd(task.step_size)
        batches = fedjax.ShuffleRepeatBatchHParams(batch_size=1, num_epochs=1)
        self.algorithm = fed_avg.federated_averaging(grad_fn, local, fedjax.optimizers.sgd(1.0), batches)
        self.each = fed_avg.create_train_for_each_client(grad_fn, local)
        self.state = self.algorithm.init(
            [(jnp.asarray(w), jnp.asarray(b)) for w, b in task.layers(task.initial)]
        )
        self.mistakes = jax.jit(self._mistakes)
        self.sent = jax.jit(self._sent)
        self.key = jax.random.PRNGKey(0)

    def window(self, rows: Rows, senders: Flags) -> list[float]:
        """Predict with the common model, then learn."""
        task = self.task
        errors = [float(self.mistakes(self.state.params, task.x[row], task.y[row])) for row in rows]
        clients = []
        for client in np.flatnonzero(senders):
            chosen = rows[:, client]
            data = fedjax.ClientDataset({"x": task.x[chosen], "y": task.y[chosen]})
            clients.append((int(client), data, self.key))
        if self.averages:
            self.state, _ = self.algorithm.apply(self.state, clients)
        else:
            self._step(clients)
        jax.block_until_ready(self.state.params)
        return errors

    def params(self) -> Vector:
        """Flat."""
        return np.concatenate([np.asarray(one).reshape(-1) for pair in self.state.params for one in pair])

    def _step(self, clients: list[Any]) -> None:
        total = jnp.zeros(self.task.dim)
        batches = [(client, data.batch(batch_size=1), key) for client, data, key in clients]
        for _, difference in self.each(self.state.params, batches):
            self.key, key = jax.random.split(self.key)
            total = total + self.sent(difference, key)
        step = np.asarray(total * (self.task.step_size / self.task.clients), np.float32)
        moved: Vector = self.params() - step
        layers = [(jnp.asarray(w), jnp.asarray(b)) for w, b in self.task.layers(moved)]
        self.state = fed_avg.ServerState(layers, self.state.opt_state)

    def _sent(self, difference: Any, key: Any) -> Any:
        """What arrives of a client's difference: over step size and rate, quantised by blocks."""
        task = self.task
        flat = jnp.concatenate([one.reshape(-1) for pair in difference for one in pair])
        update = flat / (task.step_size * task.rate)
        if not task.levels:
            return update
        size = -(-task.dim // task.blocks)
        cut = jnp.pad(update, (0, task.blocks * size - task.dim)).reshape(task.blocks, size)
        norms = jnp.linalg.norm(cut, axis=1, keepdims=True)
        steps = jnp.floor(jnp.abs(cut) * (task.levels / (norms + 1e-30)) + jax.random.uniform(key, cut.shape))
        return (norms * jnp.sign(cut) * steps / task.levels).reshape(-1)[: task.dim]

    def _outputs(self, params: Any, x: Any) -> Any:
        if self.task.model == "cnn":
            hidden = x[..., None]
            for filters, bias in params[:2]:
                layout = ("NHWC", "HWIO", "NHWC")
                maps = jax.lax.conv_general_dilated(
                    hidden, filters, (1, 1), "VALID", dimension_numbers=layout
                )
                ones = (1, 2, 2, 1)
                hidden = jax.lax.reduce_window(
                    jax.nn.relu(maps + bias), -jnp.inf, jax.lax.max, ones, ones, "VALID"
                )
            return hidden.reshape(x.shape[0], -1) @ params[2][0] + params[2][1]
        hidden = x.reshape(x.shape[0], -1)
        for depth, (weights, bias) in enumerate(params):
            hidden = (jax.nn.relu(hidden) if depth else hidden) @ weights + bias
        return hidden

    def _loss(self, params: Any, batch: Any) -> Any:
        outputs, ys = self._outputs(params, batch["x"]), batch["y"]
        penalty = self.task.l2 / 2 * sum((one * one).sum() for pair in params for one in pair)
        if self.task.task == "regression":
            return ((outputs[:, 0] - ys) ** 2).sum() + penalty
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs), ys[:, None], 1).sum() + penalty

    def _mistakes(self, params: Any, x: Any, y: Any) -> Any:
        outputs = self._outputs(params, x)
        if self.task.task == "regression":
            return ((outputs[:, 0] - y) ** 2).sum()
        return (outputs.argmax(1) != y).sum()


if __name__ == "__main__":
    given = shared.arguments()
    federation = Federation(given.task)
    shared.run(federation.window, federation.params, given)
