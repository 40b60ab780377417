"""The client's side of a Flower app: a mod around its training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict

from ofediq.arrays import Vector
from ofediq.codec import Encoded
from ofediq.errors import InputError, require
from ofediq.federation.protocol.messages import LostError, ModelMessage
from ofediq.federation.protocol.task import Task
from ofediq.federation.protocol.window import OpenWindow
from ofediq.flower.records import RECORD, RecordLayout
from ofediq.methods.round import first_memory
from ofediq.storage import Stored, leaves

_ARRAYS = "ofediq-arrays"  # beside the record in a client's state


def method_mod(message: Message, context: Context, call_next: Any) -> Message:
    """The mod of a `ClientApp` under `MethodStrategy`: what `train` returns is sent the method's way, or not at all.

    Functions for training see the whole model, and a record "ofediq" with the client's `number` beside what the app
    itself sends. Other messages pass as they are.
    """
    if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
        return call_next(message, context)
    if RECORD not in message.content:
        raise InputError("`strategy` must be MethodStrategy where clients have its mod, got another one")
    told, node = message.content[RECORD], _Node(context)
    opened = node.open(told, message.content)
    if opened is None:  # the server has to tell it everything again
        return Message(RecordDict({RECORD: ConfigRecord({"lost": True})}), reply_to=message)
    number, training = int(told["number"]), _Training(message, context, call_next, node.layout)
    memory = node.memory(np.asarray(opened.down.model), "counted" if "counted" in told else "lost")
    window = OpenWindow.of(node.task, training, number, opened, memory)  # type: ignore[arg-type]  # gives what a window asks of a model
    window.learn(np.zeros(0, np.float32), np.zeros(0), ())
    body, lost, counted = window.close(str(number))
    node.keep(opened, lost=lost, counted=counted)
    reply = training.reply
    others = {name: one for name, one in reply.content.items() if not isinstance(one, ArrayRecord)}
    reply.content = RecordDict({**others, RECORD: ConfigRecord({"update": body} if body else {})})
    return reply


class _Training:
    """The app's training in the place of a model: its gradient is how far the arrays moved."""

    def __init__(self, message: Message, context: Context, call_next: Any, layout: RecordLayout) -> None:
        self._message, self._context, self._call_next, self._layout = message, context, call_next, layout
        self.reply: Message = None

    def client_gradients(self, params: Any, xs: Any, ys: Any) -> Vector:
        """Of a batch of one."""
        layout, message = self._layout, self._message
        message.content[layout.key] = given = layout.record(np.asarray(params).reshape(-1))
        before = layout.flat(given)  # as the app's types have it
        self.reply = self._call_next(message, self._context)
        require(not self.reply.has_error(), "train", "must return arrays", self.reply)
        found = list(self.reply.content.array_records.values())
        require(len(found) == 1, "train", "must return one ArrayRecord", len(found))
        return (before - layout.flat(found[0]))[None]


class _Node:
    """What a client keeps between rounds, in Flower's `Context.state`."""

    def __init__(self, context: Context) -> None:
        self._state = context.state
        self._kept = dict(self._state.get(RECORD, {}))  # task, layout, step
        self._arrays = {name: one.numpy() for name, one in self._state.get(_ARRAYS, {}).items()}

    @cached_property
    def task(self) -> Task:
        return Task.decode(self._kept["task"])

    @cached_property
    def layout(self) -> RecordLayout:
        return RecordLayout(**json.loads(self._kept["layout"]))

    def open(self, told: Mapping[str, Any], content: RecordDict) -> ModelMessage | None:
        """The round's opening with its model; None if this node lacks what it was told before."""
        if "task" in told:
            ((key, record),) = content.array_records.items()
            if told["task"] != self._kept.get("task"):
                self._arrays, self._kept = {}, {"step": 0}
            self._kept |= {"task": told["task"], "layout": json.dumps(asdict(RecordLayout.of(key, record)))}
        if "task" not in self._kept:
            return None
        method = self.task.method
        names = tuple(method.server.vectors), tuple(method.server.scalars)
        near = 1, self._kept["step"], 2**15  # the strategy's only epoch; fewer than 2^16 clients
        try:
            opened = ModelMessage.decode(told["down"], self.task.dim, *names, near=near)
        except LostError:
            return None
        if opened.step <= self._kept["step"]:  # another run of the same task
            self._arrays = {}
        model = self._model(opened, list(content.array_records.values()))
        return (
            None
            if model is None
            else replace(opened, down=opened.down._replace(model=model), difference=None)
        )

    def _model(self, opened: ModelMessage, given: list[ArrayRecord]) -> Vector | None:
        """The whole model that came, or the one that it has moved by the difference that came."""
        if given:
            return self.layout.flat(given[0])
        before, copy = opened.step - 1, self._arrays.get("copy")
        if copy is None or self._kept["step"] != before:
            return None
        encoded = opened.difference or Encoded(b"")
        return self.task.method.broadcast.decode(encoded, True, copy, self.task.dim, self.task.seed, before)

    def memory(self, model: Vector, which: str) -> Any:
        """What the method remembers, now that the server says whether its last update `counted` or was `lost`."""
        first = first_memory(self.task.method, model, 1)
        known = any(path.startswith(which) for path in self._arrays)
        return Stored("Context.state", {}, {}, self._arrays).tree(which, first) if known else first

    def keep(self, opened: ModelMessage, *, lost: Any, counted: Any) -> None:
        """For the next round: both of its possible memories, and the model if differences are added to it."""
        arrays = leaves({"lost": lost, "counted": counted})
        if not self.task.method.broadcast.exact:
            arrays["copy"] = np.asarray(opened.down.model)
        self._state[RECORD] = ConfigRecord({**self._kept, "step": opened.step})
        self._state[_ARRAYS] = ArrayRecord({path: Array(np.asarray(one)) for path, one in arrays.items()})
