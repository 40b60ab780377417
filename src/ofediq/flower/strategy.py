"""The server's side of a Flower app: a strategy that runs one of our methods."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from ofediq.errors import WireError, require, require_integer
from ofediq.federation.protocol.broadcasting import Broadcasting
from ofediq.federation.protocol.messages import ModelMessage
from ofediq.federation.protocol.task import Task
from ofediq.federation.protocol.updates import Update, add_up, is_finite, read_update
from ofediq.flower.records import RECORD, RecordLayout, wire_bytes
from ofediq.methods import Method, at_budget
from ofediq.methods.round import first_state, formula_bits, regroup, server_round
from ofediq.randomness import Address

log = logging.getLogger("ofediq.flower")


class MethodStrategy(FedAvg):
    """A Flower strategy that runs one of our methods; its clients have `method_mod`.

    Sending is the method's business: who is not due is not asked, where the method allows it. Evaluation is FedAvg's.
    Every round's metrics hold, beside the app's own, `ofediq-answers` and `ofediq-senders` (how many replied, and how
    many of them with an update), `ofediq-bits-wire` (the payloads as encoded), `ofediq-bits-formula` (as the paper
    counts them), `ofediq-bits-fedavg` (32 D K), `flower-bytes-up` and `flower-bytes-down` (what Flower sends for all
    of it, see `wire_bytes`).

    Args:
        method: one that sends after every step, or its name, which gets the parameters that spend `budget`.
        clients: K, the nodes that the first round waits for; more may come.
        budget: share of the bits that everyone sending 32 D bits per round would need.
        step_size: of the server, for methods given by name; 1 for FedAvg's.
        seed: of all draws.
        options: of Flower's FedAvg, such as `fraction_evaluate`.
    """

    def __init__(
        self,
        method: Method | str,
        *,
        clients: int,
        budget: float = 0.1,
        step_size: float = 1.0,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(
            **{"min_available_nodes": clients, "min_train_nodes": 1, "min_evaluate_nodes": 1, **options}
        )
        self.clients, self.seed = require_integer("clients", clients, 1), seed
        self._given, self._terms = method, (budget, step_size)
        self._numbers: dict[int, int] = {}  # of the nodes
        self._told: dict[int, int] = {}  # the last round whose model a node has; none if it lacks everything
        self._asked: set[int] = set()  # nodes, in this round
        self._due: set[int] = set()  # those of them that may send
        self._bytes_down = 0
        self._counted: set[int] = set()  # nodes whose last update counted

    def summary(self) -> None:
        """Log what runs."""
        super().summary()
        log.info("%s of %s", self.method.name, self.method.describe())

    def start(self, grid: Any, initial_arrays: ArrayRecord, num_rounds: int = 3, **rest: Any) -> Any:
        """Run `num_rounds` rounds from `initial_arrays`; `rest` is for Flower's `Strategy.start`."""
        self._layout = layout = RecordLayout.of(self.arrayrecord_key, initial_arrays)
        method, (budget, step_size) = self._given, self._terms
        if isinstance(method, str):
            method = at_budget(
                method, budget, layout.dim, self.clients, step_size=step_size, steps=num_rounds
            )
        lasts = f"a period of {method.period}" if method.windows is None else "windows that grow"
        whole = "must send after every step, as `scaffold(period=1)` does: a round of the app is one"
        require(not method.long_windows, "method", whole, f"{method.name} with {lasts}")
        require(not method.client.personal, "method", "must not predict with models of its own", method.name)
        self.method = method
        self._task = Task.of(method, layout, self.seed)  # type: ignore[arg-type]  # it has a dim
        self._state = first_state(method, layout.flat(initial_arrays), self.clients)
        self._broadcasts = Broadcasting(method, self.seed)
        self._told.clear()
        self._counted.clear()
        return super().start(grid, initial_arrays, num_rounds, **rest)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
    ) -> Iterable[Message]:
        """A message to everyone who is due, or to everyone if nobody can know that beforehand."""
        nodes = _wait(grid, self.min_available_nodes)
        for node in sorted(nodes - self._numbers.keys()):
            self._numbers[node] = len(self._numbers)
        method, clients = self.method, len(self._numbers)
        rule, drawn = method.participation, np.ones(clients, bool)
        if rule.foreseeable:
            drawn = np.asarray(rule.active(self.seed, server_round, np.arange(clients), clients))
        self._due = {node for node in nodes if drawn[self._numbers[node]]}
        asked = (
            self._due if method.client.idle and method.broadcast.exact else nodes
        )  # else silence needs work too
        self._state = regroup(method, self._state, clients)
        config["server-round"] = server_round
        opening = ModelMessage(1, server_round, clients, self._state.down)
        kind, difference = self._broadcasts.opening(opening)
        whole = self._layout.record(np.asarray(self._state.down.model))
        beside = opening.encode(apart=True)  # the model lies in Flower's own record
        messages, sizes = [], dict[int, int]()
        for node in sorted(asked, key=self._numbers.__getitem__):
            follows = kind == "d" and self._told.get(node) == server_round - 1
            told = {"number": self._numbers[node], "down": difference if follows else beside}
            told |= {} if node in self._told else {"task": self._task.encode()}
            told |= {"counted": True} if method.client.receipts and node in self._counted else {}
            records = {} if follows else {self.arrayrecord_key: whole}
            content = RecordDict({**records, self.configrecord_key: config, RECORD: ConfigRecord(told)})
            messages.append(Message(content, message_type=MessageType.TRAIN, dst_node_id=node))
            self._told[node] = server_round
        self._asked = set(asked)
        self._bytes_down = sum(wire_bytes(message, sizes) for message in messages)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model after the round, and its metrics."""
        good = {reply.metadata.src_node_id: reply for reply in replies if self._answers(reply)}
        for node in self._asked - good.keys():  # what it knows is uncertain: it is told everything again
            del self._told[node]
        updates: dict[int, Update] = {}
        for node, reply in sorted(good.items(), key=lambda pair: self._numbers[pair[0]]):
            body = reply.content[RECORD].get("update", b"")
            try:
                if body and node in self._due:
                    address = Address(self.seed, server_round, self._numbers[node])
                    updates[node] = read_update(self.method, body, self._state.down, address)
            except WireError as error:
                log.warning("node %d: its update is left out: %s", node, error)
        arrived = list(updates.values())
        moved = self._move(server_round, arrived)
        self._counted = self._counted - self._asked | (updates.keys() if moved else set())
        metrics = self._metrics([reply.content for reply in good.values()])
        each, clients = formula_bits(self.method, self._layout.dim), len(self._numbers)
        bits = sum(one.bits for one in arrived)
        metrics["ofediq-answers"] = len(good)
        metrics["ofediq-senders"] = len(arrived)
        metrics["ofediq-bits-wire"] = bits
        metrics["ofediq-bits-formula"] = float(bits if math.isnan(each) else each * len(arrived))
        metrics["ofediq-bits-fedavg"] = 32 * self._layout.dim * clients
        metrics["flower-bytes-up"] = sum(map(wire_bytes, good.values()))
        metrics["flower-bytes-down"] = self._bytes_down
        return self._layout.record(np.asarray(self._state.params)), metrics

    def _answers(self, reply: Message) -> bool:
        """Whether a reply is one that can be read; the others are told in the log."""
        node = reply.metadata.src_node_id
        if reply.has_error():
            log.warning("node %d failed: %s", node, reply.error.reason)
            return False
        record = reply.content.get(RECORD)
        if node not in self._asked or record is None or record.get("lost", False):
            log.warning("node %d has lost its state, or has no `method_mod`", node)
            return False
        return True

    def _move(self, step: int, updates: list[Update]) -> bool:
        """Close the round; whether the updates counted: a model that is not finite is not taken."""
        before, clients = self._state, len(self._numbers)
        for arrived in (updates, []):
            totals = add_up(self.method, self._layout.dim, arrived, [1.0] * len(arrived), clients, step)
            with np.errstate(over="ignore", invalid="ignore"):
                after, _ = server_round(self.method, before, totals, np.uint32(self.seed))
            if is_finite(after):
                break
            log.warning("round %d: the model would not be finite; its updates are left out", step)
        self._state = self._broadcasts.closed(before, after if is_finite(after) else before, step)
        return arrived is updates

    def _metrics(self, contents: list[RecordDict]) -> MetricRecord:
        """The app's own, where it sends any."""
        key = self.weighted_by_key
        some = [one for one in contents if any(key in record for record in one.metric_records.values())]
        return self.train_metrics_aggr_fn(some, key) if some else MetricRecord()


def _wait(grid: Any, least: int) -> set[int]:
    """The connected nodes, once there are enough."""
    while len(nodes := set(grid.get_node_ids())) < least:
        time.sleep(0.2)
    return nodes
