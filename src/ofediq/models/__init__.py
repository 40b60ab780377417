"""Models on flat parameter vectors: stacks of layers, random features, prototypes, and adapters for frameworks."""

from ofediq.lazy import public
from ofediq.models.adapters import LossModel as LossModel
from ofediq.models.adapters import TorchModel as TorchModel
from ofediq.models.adapters import from_equinox as from_equinox
from ofediq.models.adapters import from_flax as from_flax
from ofediq.models.adapters import from_loss as from_loss
from ofediq.models.adapters import from_torch as from_torch
from ofediq.models.anchor import Anchored as Anchored
from ofediq.models.anchor import anchored as anchored
from ofediq.models.base import LayeredModel as LayeredModel
from ofediq.models.base import Model as Model
from ofediq.models.base import Task as Task
from ofediq.models.catalog import build as build
from ofediq.models.catalog import build_anchored as build_anchored
from ofediq.models.delay import Late as Late
from ofediq.models.delay import late as late
from ofediq.models.fourier import RandomFeatures as RandomFeatures
from ofediq.models.fourier import random_features as random_features
from ofediq.models.layers import Conv as Conv
from ofediq.models.layers import Dense as Dense
from ofediq.models.layers import Identity as Identity
from ofediq.models.layers import Pool as Pool
from ofediq.models.layers import Relu as Relu
from ofediq.models.layers import Tanh as Tanh
from ofediq.models.paper import cnn as cnn
from ofediq.models.paper import linear as linear
from ofediq.models.paper import mlp_classifier as mlp_classifier
from ofediq.models.paper import mlp_regressor as mlp_regressor
from ofediq.models.paper import softmax as softmax
from ofediq.models.prototypes import Prototypes as Prototypes
from ofediq.models.prototypes import lvq as lvq
from ofediq.models.shared import PerFeature as PerFeature
from ofediq.models.shared import per_feature as per_feature
from ofediq.models.stack import Network as Network
from ofediq.models.stack import network as network

__all__ = public(globals())
