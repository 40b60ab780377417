"""Methods as compositions: client rule, participation, compressor, combination, server rule, broadcast.

`methods.round` is what they do, `methods.zoo` has one file per named method, `methods.registry` knows their names.
`methods.kit` has what authors of pieces need. `methods.server` has the server rules, `methods.budgets` how bits are
spent, `methods.robust` whom a server trusts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ofediq.methods.broadcast import Broadcast, delta, whole
from ofediq.methods.budgets.steered import Still, steered
from ofediq.methods.budgets.steering import Budget, budget
from ofediq.methods.client import ClientRule, hold, local_ogd
from ofediq.methods.combine import COMBINES, Combine, add_up, combine_rule
from ofediq.methods.composition import Method, Topology
from ofediq.methods.compress import (
    Compressor,
    additive,
    grid,
    identity,
    keep_largest,
    quantize,
    rotate,
    signs,
)
from ofediq.methods.mirror import MirrorMap, mirror_map
from ofediq.methods.participation import (
    Participation,
    bernoulli,
    everyone,
    fixed_size,
    in_turns,
    norm_proportional,
)
from ofediq.methods.presets import (
    PRESETS,
    SERVERS,
    method,
    mixed,
    own_server,
    server_rule,
    untuned,
    usual_budget,
    with_broadcast,
    with_combine,
    with_server,
)
from ofediq.methods.registry import Terms, at_budget, entries, entry, make, named
from ofediq.methods.robust.attacks import attack, attacked
from ofediq.methods.server.adaptive import Adaptive, adaptive
from ofediq.methods.server.averaged import Averaged, averaged
from ofediq.methods.server.coin import Coin, coin
from ofediq.methods.server.rule import ServerRule, adam, descend, optimizer
from ofediq.methods.zoo.fedogd import fedogd
from ofediq.methods.zoo.fedomd import fedomd
from ofediq.methods.zoo.ofedavg import ofedavg
from ofediq.methods.zoo.ofedgrid import ofedgrid, ofediq_norm
from ofediq.methods.zoo.ofediq import from_plan, ofediq
from ofediq.methods.zoo.references import local, ogd

__all__ = [
    "COMBINES",
    "PRESETS",
    "SERVERS",
    "Adaptive",
    "Averaged",
    "Broadcast",
    "Budget",
    "ClientRule",
    "Coin",
    "Combine",
    "Compressor",
    "Method",
    "MirrorMap",
    "Participation",
    "ServerRule",
    "Still",
    "Terms",
    "Topology",
    "adam",
    "adaptive",
    "add_up",
    "additive",
    "at_budget",
    "attack",
    "attacked",
    "averaged",
    "bernoulli",
    "budget",
    "coin",
    "combine_rule",
    "delta",
    "descend",
    "entries",
    "entry",
    "everyone",
    "fedogd",
    "fedomd",
    "fixed_size",
    "from_plan",
    "grid",
    "hold",
    "identity",
    "in_turns",
    "keep_largest",
    "local",
    "local_ogd",
    "make",
    "method",
    "mirror_map",
    "mixed",
    "named",
    "norm_proportional",
    "ofedavg",
    "ofedgrid",
    "ofediq",
    "ofediq_norm",
    "ogd",
    "optimizer",
    "own_server",
    "quantize",
    "rotate",
    "server_rule",
    "signs",
    "steered",
    "untuned",
    "usual_budget",
    "whole",
    "with_broadcast",
    "with_combine",
    "with_server",
]

if not TYPE_CHECKING:  # a type checker finds misspelt names

    def __getattr__(name: str) -> Any:
        """Any other named method, by its name."""
        found = (
            entries() if name.islower() and not name.startswith("_") else {}
        )  # no method is called Like This
        if name not in found:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return found[name].build
