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
from ofediq.models import Model
from ofediq.simulation.result import Result
from ofediq.streams import Stream

Vector = npt.NDArray[np.float32]


def reference(method: Method, stream: Stream, model: Model, seed: int = 0) -> Result:
    """Run a federated `method` client by client; arguments as in `simulate`."""
    if method.topology != "federated":
        raise InputError(f"`method` must be federated for the reference loop, got {method.topology}")
    started = time.perf_counter()
    clients = range(stream.clients)
    everyone = np.arange(stream.clients)
    rates = method.participation.rates(stream.clients)
    common: Vector = np.asarray(method.server.start(model.initial(seed)))
    state = method.server.init(common)
    own = [common] * stream.clients  # g_k, the client's own model
    summed = [np.zeros(model.dim, np.float32)] * stream.clients  # its gradients of this window, added up
    seen = [False] * stream.clients  # whether it had a sample in this window
    record = {
        name: np.zeros(stream.steps) for name in ("loss", "error", "senders", "formula", "wire", "downlink")
    }

    for t in range(1, stream.steps + 1):
        x, y, present = stream.step(t - 1)
        for k in clients:
            if not present[k]:
                continue
            loss, error = model.evaluate(
                common, x[k : k + 1], y[k : k + 1]
            )  # predict with the common model ...
            record["loss"][t - 1] += loss[0]
            record["error"][t - 1] += error[0]
            gradient = model.client_gradients(own[k], x[k : k + 1], y[k : k + 1])[0]  # ... then learn
            summed[k] = summed[k] + gradient
            own[k] = np.asarray(method.local.step(own[k], gradient))
            seen[k] = True
        if t % method.period:
            continue
        active = np.asarray(method.participation.active(seed, t, everyone, stream.clients))
        total = np.zeros(model.dim, np.float32)
        for k in clients:
            if active[k] and seen[k]:
                received, bits = _send(method, summed[k] / rates[k], seed, t, k)
                total += received
                record["senders"][t - 1] += 1
                record["wire"][t - 1] += bits
                record["formula"][t - 1] += method.compress.formula_bits(model.dim)
        if record["senders"][t - 1]:
            moved, state = method.server.apply(common, total, stream.clients, state)
            common = np.asarray(moved)
        record["downlink"][t - 1] = 32.0 * model.dim
        own = [common] * stream.clients
        summed = [np.zeros(model.dim, np.float32)] * stream.clients
        seen = [False] * stream.clients

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
        params=common,
        seconds=time.perf_counter() - started,
    )


def _send(method: Method, update: Vector, seed: int, step: int, client: int) -> tuple[Vector, float]:
    """What the server decodes from the client's bytes, and the bits of their payload."""
    message = method.compress.message(update, seed, step, client)
    data: Any = codec.encode(message, coding=method.compress.coding)
    received = codec.decode(data, max_dim=len(update)).dequantize()
    return received, 8.0 * (len(data) - HEADER_BYTES)
