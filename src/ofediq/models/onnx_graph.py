"""A learnt stack of layers as an ONNX graph, for runtimes on other systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Vector
from ofediq.errors import InputError, extra
from ofediq.models.activations import Activation, Gelu, GeluTanh, Identity, Leaky, Silu
from ofediq.models.anchor import Anchored
from ofediq.models.base import Model
from ofediq.models.stack import Network
from ofediq.models.stages import Stage

_OPSET = 17


def to_onnx(model: Model, params: Vector, about: dict[str, str] | None = None) -> bytes:
    """The ONNX file of `model` with `params`.

    Input `x` [n, ...samples]; output `scores` [n, classes] and `label` [n], or `value` [n]. An anchored model reads
    the rows that `ofediq.streams.features.Pipeline` writes.
    """
    onnx = extra("onnx", "onnx")
    inner = model.inner if isinstance(model, Anchored) else model
    if not isinstance(inner, Network) or not inner.as_given or inner.places is not None:
        raise InputError(f"`model` must be a built-in stack of layers for ONNX, got {model.name!r}")
    graph = _Graph(onnx)
    shape = list(inner.shape)
    name = "x"
    if isinstance(model, Anchored):
        shape = [int(np.prod(inner.shape)) + model.anchors]
        name, anchors = graph.split(name, shape[0] - model.anchors, model.anchors)
    for stage, (weights, bias) in zip(
        inner.stages, inner._arrays(np.asarray(params, np.float32)), strict=True
    ):
        name = graph.stage(stage, weights, bias, name)
    if isinstance(model, Anchored):
        name = graph.anchored(name, anchors, regression=model.task == "regression")
    outputs = graph.end(name, regression=model.task == "regression", classes=inner.outputs)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    made = helper.make_graph(
        graph.nodes,
        "ofediq",
        [helper.make_tensor_value_info("x", kind, ["n", *shape])],
        outputs,
        graph.arrays,
    )
    file = helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="ofediq")
    file.ir_version = 8
    helper.set_model_props(file, about or {})
    onnx.checker.check_model(file)
    return bytes(file.SerializeToString())


class _Graph:
    """Nodes and arrays, each with a name of its own."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.arrays = onnx, list[Any](), list[Any]()

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; returns the name of its first output, `NAME`, beside `NAME.1`, ..."""
        name = f"{kind.lower()}{len(self.nodes)}"
        names = [name, *(f"{name}.{place}" for place in range(1, outputs))]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return name

    def array(self, values: npt.ArrayLike) -> str:
        """A constant."""
        name = f"array{len(self.arrays)}"
        self.arrays.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def split(self, name: str, first: int, second: int) -> tuple[str, str]:
        """The first and the other columns."""
        made = self.node("Split", name, self.array(np.array([first, second])), outputs=2, axis=1)
        return made, f"{made}.1"

    def stage(self, stage: Stage, weights: Any, bias: Any, name: str) -> str:
        """One layer with what follows it; images are [n, height, width, channels] between layers."""
        if stage.kind == "dense":
            name = self.node("Reshape", name, self.array(np.array([0, -1])))
            name = self.node("MatMul", name, self.array(np.asarray(weights, np.float32)))
            if stage.bias:
                name = self.node("Add", name, self.array(np.asarray(bias, np.float32)))
        elif stage.kind == "norm":
            parts = [weights.reshape(-1), bias] if stage.bias else [weights.reshape(-1)]
            arrays = (self.array(np.asarray(part, np.float32)) for part in parts)
            name = self.node("LayerNormalization", name, *arrays, axis=-1, epsilon=stage.epsilon)
        else:
            shape = self.array(np.array([0, *stage.inputs]))
            name = self.node("Transpose", self.node("Reshape", name, shape), perm=[0, 3, 1, 2])
            if stage.kind == "conv":
                filters = np.asarray(weights, np.float32).reshape(*stage.size, stage.inputs[-1], -1)
                kernel = self.array(filters.transpose(3, 2, 0, 1))
                given = (kernel, self.array(np.asarray(bias, np.float32))) if stage.bias else (kernel,)
                pads = [side for side in stage.margins for _ in range(2)]
                name = self.node("Conv", name, *given, pads=pads, strides=[stage.stride] * 2)
            if stage.kind != "conv" or stage.pooled:
                window = [2, 2] if stage.pooled else list(stage.size)
                kind = "AveragePool" if stage.kind == "mean" else "MaxPool"
                name = self.node(kind, name, kernel_shape=window, strides=window)
            name = self.node("Transpose", name, perm=[0, 2, 3, 1])
        return self.activation(stage.activation, name)

    def activation(self, chosen: Activation, name: str) -> str:
        """What follows a layer."""
        if isinstance(chosen, Identity):
            return name
        if isinstance(chosen, Leaky):
            return self.node("LeakyRelu", name, alpha=chosen.below)
        if isinstance(chosen, Silu):
            return self.node("Mul", name, self.node("Sigmoid", name))
        if not isinstance(chosen, (Gelu, GeluTanh)):
            return self.node(chosen.word.capitalize(), name)
        half, one = (self.array(np.float32(value)) for value in (0.5, 1.0))
        if isinstance(chosen, Gelu):
            inner = self.node("Erf", self.node("Mul", name, self.array(np.float32(np.sqrt(0.5)))))
        else:
            cube = self.node(
                "Mul", self.node("Mul", name, name), self.node("Mul", name, self.array(np.float32(0.044715)))
            )
            width = self.array(np.float32(np.sqrt(2 / np.pi)))
            inner = self.node("Tanh", self.node("Mul", self.node("Add", name, cube), width))
        return self.node("Mul", self.node("Mul", name, half), self.node("Add", inner, one))

    def anchored(self, name: str, anchors: str, *, regression: bool) -> str:
        """What was learnt beside the naive forecast: forecast + unit x outputs, or log-odds + outputs."""
        if not regression:
            return self.node("Add", name, anchors)
        forecast, unit = self.split(anchors, 1, 1)
        return self.node("Add", forecast, self.node("Mul", unit, name))

    def end(self, name: str, *, regression: bool, classes: int) -> list[Any]:
        """Names for the results."""
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        if regression:
            self.nodes.append(helper.make_node("Squeeze", [name, self.array(np.array([1]))], ["value"]))
            return [helper.make_tensor_value_info("value", proto.FLOAT, ["n"])]
        self.nodes.append(helper.make_node("Identity", [name], ["scores"]))
        self.nodes.append(helper.make_node("ArgMax", [name], ["label"], axis=1, keepdims=0))
        return [
            helper.make_tensor_value_info("scores", proto.FLOAT, ["n", classes]),
            helper.make_tensor_value_info("label", proto.INT64, ["n"]),
        ]
