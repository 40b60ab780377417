"""The oracle: Algorithm 2 as a plain loop over clients, in NumPy, with every message really encoded.

Slow on purpose, and written to be read beside the paper. It shares with the fast engine only the pieces of the
method and the addresses of the random draws, not the round that combines them; the tests hold the two against each
other.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ofediq.arrays import Vector, map_leaves
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.methods.client import Down, Outcome, Sample, Window
from ofediq.methods.server.rule import Totals
from ofediq.models import Model
from ofediq.randomness import Address
from ofediq.simulation.result import Result
from ofediq.streams import Stream


def reference(method: Method, stream: Stream, model: Model, seed: int = 0) -> Result:
    """Run a federated `method` client by client; arguments as in `simulate`."""
    if method.topology != "federated":
        raise InputError(f"`method` must be federated for the reference loop, got {method.topology}")
    started = time.perf_counter()
    method.broadcast.check(model.dim)
    server: Vector = np.asarray(method.server.start(model.initial(seed)))  # w
    state = method.server.begin(server, stream.clients, method.window(0))
    down = Down(server, *method.server.say(server, state))  # what the clients know of it
    clients = [_Client(method, number, server) for number in range(stream.clients)]
    record = {
        name: np.zeros(stream.steps) for name in ("loss", "error", "senders", "formula", "wire", "downlink")
    }
    for client in clients:
        client.open(down, seed, method.window(0))

    ends = set(method.ends(stream.steps).tolist())
    for t in range(1, stream.steps + 1):
        x, y, present = stream.step(t - 1)
        for k in np.flatnonzero(present):
            loss, error = clients[k].predict_then_learn(model, x[k : k + 1], y[k : k + 1])
            record["loss"][t - 1] += loss
            record["error"][t - 1] += error
        if t not in ends:
            continue
        received = [client.send(seed, t, stream.clients) for client in clients]
        messages = [vectors for vectors, _ in received if vectors is not None]
        record["senders"][t - 1] = len(messages)
        record["wire"][t - 1] = sum(bits for _, bits in received)
        totals = _combine(method, messages, model.dim, np.float32(record["wire"][t - 1]), stream.clients, t)
        before = server if method.broadcast.exact else method.broadcast.resume(server, down.model)
        moved, state = method.server.close(before, totals._replace(seed=seed), method.window_to(t), state)
        server = np.asarray(moved)
        down, record["downlink"][t - 1] = _broadcast(method, server, state, down, seed, t)
        for client in clients:
            client.open(down, seed, t + method.window(t))

    formulas = [
        method.compressor(name).formula_bits(size) for name, size in method.client.sends(model.dim).items()
    ]
    record["formula"] = record["wire"] if np.isnan(sum(formulas)) else record["senders"] * sum(formulas)
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
    """One client with its memory; every array has a first axis of length one."""

    def __init__(self, method: Method, number: int, first: Vector) -> None:
        self.method, self.number = method, number
        self.memory = map_leaves(lambda one: np.asarray(one)[None], method.client.memory(first))

    def open(self, known: Down, seed: int, step: int) -> None:
        """A broadcast arrives: a new window, which ends at `step`."""
        rule = self.method.client
        down = known._replace(address=Address(seed, step, np.array([self.number])))
        self.down, self.seen = down, 0
        own = np.asarray(rule.start(down, self.memory)).reshape(1, -1)
        self.window = Window(own, np.zeros_like(own), np.zeros(1, np.float32), rule.notes(down, self.memory))

    def predict_then_learn(self, model: Model, x: Any, y: Any) -> tuple[float, float]:
        """Predict with what it holds, suffer the loss, then learn."""
        rule = self.method.client
        experts = rule.experts(self.window, self.down, self.memory)
        alone = tuple(np.asarray(model.evaluate(params, x, y)[0]) for _, params in experts)
        if len(experts) == 1:
            loss, error = model.evaluate(experts[0][1], x, y)
        else:
            loss, error = model.evaluate_mixture(experts, x, y)
        sample = Sample(lambda at: model.client_gradients(at, x, y), alone)
        after = rule.learn(self.window, sample, self.down, self.memory)
        self.seen += 1
        self.window = after._replace(taken=np.full(1, self.seen, np.float32))
        return float(loss[0]), float(error[0])

    def send(self, seed: int, step: int, clients: int) -> tuple[dict[str, Vector] | None, float]:
        """What the server decodes from this client's bytes, or None; and the bits of its payloads."""
        if not self.seen:
            return None, 0.0
        rule, down = self.method.client, self.down
        wanted = rule.finish(self.window, down, self.memory)
        sends, rate = self._draw(wanted, Address(seed, step, np.array([self.number])), clients)
        if rule.divides and sends:
            wanted = {name: vector / rate for name, vector in wanted.items()}
        decoded, bits = {}, 0.0
        for name, vector in wanted.items():
            piece, address = self.method.compressor(name), Address(seed, step, self.number)
            signal = None if piece.signal is None else float(down.scalars[piece.signal])
            message = piece.encode(vector[0], address, signal) if sends else None
            decoded[name] = np.zeros_like(vector[0])
            if message is not None:
                decoded[name] = piece.decode(message, vector.shape[-1], address, signal)
                bits += message.bits
        if sends or not rule.idle:
            batch = {name: vector[None] for name, vector in decoded.items()}
            outcome = Outcome(wanted, batch, np.array([sends]))
            self.memory = rule.settle(self.memory, self.window, outcome, down)
        return (decoded if sends else None), bits

    def _draw(self, wanted: dict[str, Vector], address: Address, clients: int) -> tuple[bool, np.float32]:
        """Whether it sends, and with which probability."""
        who = self.method.participation
        offers = signal = None
        if not who.foreseeable:
            offers = self.method.client.offer(wanted, self.window, self.down, self.memory)
            signal = None if who.signal is None else self.down.scalars[who.signal]
        sends, rates = who.draw(address, clients, offers, signal)
        return bool(np.asarray(sends)[0]), np.asarray(rates)[0]


def _combine(
    method: Method, messages: list[dict[str, Vector]], dim: int, bits: np.float32, clients: int, step: int
) -> Totals:
    """All messages as one, in the order of the clients' numbers."""
    vectors: dict[str, Vector] = {}
    for name, size in method.client.sends(dim).items():
        rows = [message[name] for message in messages]
        if rows and name == "update" and not method.combine.adds:
            vectors[name] = method.combine.total(np.array(rows), np.ones(len(rows), bool))
        else:
            vectors[name] = sum(rows, np.zeros(size, np.float32))
    return Totals(vectors, np.int32(len(messages)), bits, clients, np.int32(step))


def _broadcast(
    method: Method, server: Vector, state: Any, before: Down, seed: int, step: int
) -> tuple[Down, float]:
    """What the clients know after the server's message, and its bits: payload, and 32 for every number beside it."""
    message, adds = method.broadcast.encode(server, before.model, seed, step, int(method.number_to(step)))
    model = method.broadcast.decode(message, adds, before.model, len(server), seed, step)
    vectors, scalars = method.server.say(server, state)
    beside = 32.0 * (sum(len(vector) for vector in vectors.values()) + len(scalars))
    return Down(model, vectors, scalars), message.bits + beside
