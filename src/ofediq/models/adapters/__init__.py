"""Models from elsewhere behind the same seam: a JAX loss, a Flax or Equinox module, a `torch.nn.Module`.

Importing this package imports none of these libraries; each function imports its own when it is called, and says
which extra brings it when it is missing.
"""

from ofediq.models.adapters.equinox import from_equinox
from ofediq.models.adapters.flax import from_flax
from ofediq.models.adapters.loss import LossModel, from_loss
from ofediq.models.adapters.torch import TorchModel, from_torch

__all__ = ["LossModel", "TorchModel", "from_equinox", "from_flax", "from_loss", "from_torch"]
