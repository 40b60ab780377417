"""Methods as compositions: local rule, participation, compressor, server rule."""

from ofediq.methods.catalog import (
    KEYS,
    PRESETS,
    at_budget,
    fedogd,
    fedomd,
    from_plan,
    local,
    method,
    ofedavg,
    ofediq,
    ogd,
)
from ofediq.methods.compress import Compressor, identity, quantize
from ofediq.methods.local import LocalRule, hold
from ofediq.methods.local import ogd as local_ogd
from ofediq.methods.method import Method, Topology
from ofediq.methods.mirror import MirrorMap, mirror_map
from ofediq.methods.participation import Participation, bernoulli, everyone, fixed_size
from ofediq.methods.server import ServerRule, adam, descend, optimizer

__all__ = [
    "KEYS",
    "PRESETS",
    "Compressor",
    "LocalRule",
    "Method",
    "MirrorMap",
    "Participation",
    "ServerRule",
    "Topology",
    "adam",
    "at_budget",
    "bernoulli",
    "descend",
    "everyone",
    "fedogd",
    "fedomd",
    "fixed_size",
    "from_plan",
    "hold",
    "identity",
    "local",
    "local_ogd",
    "method",
    "mirror_map",
    "ofedavg",
    "ofediq",
    "ogd",
    "optimizer",
    "quantize",
]
