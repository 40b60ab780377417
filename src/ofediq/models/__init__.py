"""Models on flat parameter vectors: stacks of layers, random features, prototypes, and adapters for frameworks."""

from ofediq.models.adapters import LossModel, TorchModel, from_equinox, from_flax, from_loss, from_torch
from ofediq.models.anchor import Anchored, anchored
from ofediq.models.base import LayeredModel, Model, Task
from ofediq.models.catalog import build, build_anchored
from ofediq.models.delay import Late, late
from ofediq.models.fourier import RandomFeatures, random_features
from ofediq.models.layers import Conv, Dense, Identity, Pool, Relu, Tanh
from ofediq.models.paper import cnn, linear, mlp_classifier, mlp_regressor, softmax
from ofediq.models.prototypes import Prototypes, lvq
from ofediq.models.shared import PerFeature, per_feature
from ofediq.models.stack import Network, network

__all__ = [
    "Anchored",
    "Conv",
    "Dense",
    "Identity",
    "Late",
    "LayeredModel",
    "LossModel",
    "Model",
    "Network",
    "PerFeature",
    "Pool",
    "Prototypes",
    "RandomFeatures",
    "Relu",
    "Tanh",
    "Task",
    "TorchModel",
    "anchored",
    "build",
    "build_anchored",
    "cnn",
    "from_equinox",
    "from_flax",
    "from_loss",
    "from_torch",
    "late",
    "linear",
    "lvq",
    "mlp_classifier",
    "mlp_regressor",
    "network",
    "per_feature",
    "random_features",
    "softmax",
]
