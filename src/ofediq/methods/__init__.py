"""Methods as compositions: local rule, participation, compressor, server rule, broadcast."""

from ofediq.methods.broadcast import Broadcast, delta, whole
from ofediq.methods.catalog import (
    KEYS,
    PRESETS,
    SERVERS,
    at_budget,
    fedogd,
    fedomd,
    from_plan,
    local,
    method,
    ofedavg,
    ofedgrid,
    ofediq,
    ofediq_norm,
    ogd,
    server_rule,
    with_broadcast,
    with_server,
)
from ofediq.methods.compress import Compressor, grid, identity, quantize
from ofediq.methods.local import LocalRule, hold
from ofediq.methods.local import ogd as local_ogd
from ofediq.methods.method import Method, Topology
from ofediq.methods.mirror import MirrorMap, mirror_map
from ofediq.methods.parameter_free import Coin, coin
from ofediq.methods.participation import Participation, bernoulli, everyone, fixed_size, norm_proportional
from ofediq.methods.rotate import rotate
from ofediq.methods.server import ServerRule, adam, descend, optimizer
from ofediq.methods.steering import Budget, budget

__all__ = [
    "KEYS",
    "PRESETS",
    "SERVERS",
    "Broadcast",
    "Budget",
    "Coin",
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
    "budget",
    "coin",
    "delta",
    "descend",
    "everyone",
    "fedogd",
    "fedomd",
    "fixed_size",
    "from_plan",
    "grid",
    "hold",
    "identity",
    "local",
    "local_ogd",
    "method",
    "mirror_map",
    "norm_proportional",
    "ofedavg",
    "ofedgrid",
    "ofediq",
    "ofediq_norm",
    "ogd",
    "optimizer",
    "quantize",
    "rotate",
    "server_rule",
    "whole",
    "with_broadcast",
    "with_server",
]
