"""Models on flat parameter vectors: linear, softmax, mlp, cnn, and adapters for other frameworks."""

from ofediq.models.adapters import LossModel, TorchModel, from_equinox, from_flax, from_loss, from_torch
from ofediq.models.base import LayeredModel, Model, Task
from ofediq.models.catalog import build
from ofediq.models.cnn import Cnn, cnn
from ofediq.models.linear import Linear, linear, softmax
from ofediq.models.mlp import Mlp, mlp_classifier, mlp_regressor

__all__ = [
    "Cnn",
    "LayeredModel",
    "Linear",
    "LossModel",
    "Mlp",
    "Model",
    "Task",
    "TorchModel",
    "build",
    "cnn",
    "from_equinox",
    "from_flax",
    "from_loss",
    "from_torch",
    "linear",
    "mlp_classifier",
    "mlp_regressor",
    "softmax",
]
