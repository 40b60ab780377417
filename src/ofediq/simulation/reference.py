"""The oracle: Algorithm 2 as a plain loop over clients, in NumPy, with every message really encoded.

Slow on purpose, and written to be read beside the paper. It shares with the fast engine only the pieces of the
method and the addresses of the random draws; the tests hold the two against each other.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq import codec
from ofediq.codec import HEADER_BYTES
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.methods.participation import NormProportional
from ofediq.methods.steering import Signal
from ofediq.models import Model
from ofediq.simulation.result import Result
from ofediq.streams import Stream

Vector = npt.NDArray[np.float32]


def reference(method: Method, stream: Stream, model: Model, seed: int = 0) -> Result:
    """Run a federated `method` client by client; arguments as in `simulate`."""
    if method.topology != "federated":
        raise InputError(f"`method` must be federated for the reference loop, got {method.topology}")
    started = time.perf_counter()
    common: Vector = np.asarray(method.server.start(model.initial(seed)))
    server, state = common, method.server.init(common)  # w and, in `common`, what the clients have of it
    method.broadcast.check(model.dim)
    signal = None if method.steer is None else method.steer.init()
    clients = [_Client(common) for _ in range(stream.clients)]
    record = {
        name: np.zeros(stream.steps) for name in ("loss", "error", "senders", "formula", "wire", "downlink")
    }

    for t in range(1, stream.steps + 1):
        x, y, present = stream.step(t - 1)
        for k in np.flatnonzero(present):
            loss, error = model.evaluate(
                common, x[k : k + 1], y[k : k + 1]
            )  # predict with the common model ...
            record["loss"][t - 1] += loss[0]
            record["error"][t - 1] += error[0]
            clients[k].learn(method, model, x[k : k + 1], y[k : k + 1])  # ... then learn
        if t % method.period:
            continue
        total = np.zeros(model.dim, np.float32)
        for sender, rate in _senders(method, clients, seed, t, signal):
            received, bits = _send(method, clients[sender].gradients / rate, seed, t, sender, signal)
            total += received
            record["senders"][t - 1] += 1
            record["wire"][t - 1] += bits
        if record["senders"][t - 1]:
            moved, state = method.server.apply(server, total, stream.clients, state)
            server = np.asarray(moved)
        if method.steer is not None and signal is not None:
            signal = method.steer.next(signal, np.float32(record["wire"][t - 1]), t, method.period)
        common, record["downlink"][t - 1] = _broadcast(method, server, common, seed, t)
        clients = [_Client(common) for _ in range(stream.clients)]

    each = method.compress.formula_bits(model.dim)
    record["formula"] = record["wire"] if np.isnan(each) else record["senders"] * each
    return Result(
        method=method,
        model=model,
        stream=stream,
        seed=seed,
        loss=record["loss"],
        error=record["error"],
        present=stream.present.sum(1).astype(np.float64),
        senders=record["senders"],
        bits_formula=record["formula"],
        bits_wire=record["wire"],
        bits_downlink=record["downlink"],
        params=server,
        seconds=time.perf_counter() - started,
    )


class _Client:
    """One client inside one window."""

    def __init__(self, common: Vector) -> None:
        self.own = common  # g_k, its own model
        self.gradients: Vector = np.zeros_like(common)  # added up over the window
        self.seen = False  # whether it had a sample

    def learn(self, method: Method, model: Model, x: Any, y: Any) -> None:
        """One local step."""
        gradient = model.client_gradients(self.own, x, y)[0]
        self.gradients = self.gradients + gradient
        self.own = np.asarray(method.local.step(self.own, gradient))
        self.seen = True


def _senders(
    method: Method, clients: list[_Client], seed: int, step: int, signal: Signal | None
) -> list[tuple[int, np.float32]]:
    """Who sends at `step`, each with its probability of sending."""
    numbers = np.arange(len(clients))
    if isinstance(method.participation, NormProportional) and signal is not None:
        norms = np.array([np.linalg.norm(client.gradients) for client in clients], np.float32)
        rates = method.participation.probabilities(norms, signal.value)
        active = method.participation.draws(seed, step, numbers) < rates
    else:
        rates = method.participation.rates(len(clients))
        active = np.asarray(method.participation.active(seed, step, numbers, len(clients)))
    return [(int(k), rates[k]) for k in numbers if active[k] and clients[k].seen]


def _send(
    method: Method, update: Vector, seed: int, step: int, client: int, signal: Signal | None
) -> tuple[Vector, float]:
    """What the server decodes from the client's bytes, and the bits of their payload."""
    value = None if signal is None else float(signal.value)
    message = method.compress.message(update, seed, step, client, value)
    data = codec.encode(message, coding=method.compress.coding)
    received = codec.decode(data, max_dim=len(update)).dequantize()
    return received, 8.0 * (len(data) - HEADER_BYTES)


def _broadcast(method: Method, server: Vector, common: Vector, seed: int, step: int) -> tuple[Vector, float]:
    """What the clients know after the server's message, and the bits of its payload, the signal's included."""
    message, coding, adds = method.broadcast.message(server, common, seed, step, step // method.period)
    data = codec.encode(message, coding=coding)
    received = codec.decode(data, max_dim=len(server)).dequantize()
    signal = 0.0 if method.steer is None else 32.0
    return common + received if adds else received, 8.0 * (len(data) - HEADER_BYTES) + signal
