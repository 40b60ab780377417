"""Methods as compositions: client rule, participation, compressor, combination, server rule, broadcast.

`methods.round` is what they do, `methods.zoo` has one file per named method, `methods.registry` knows their names,
`methods.terms` says what they are fitted to. `methods.kit` has what authors of pieces need. `methods.server` has the
server rules, `methods.budgets` how bits are spent, `methods.robust` whom a server trusts.
"""

import typing

from ofediq.lazy import public
from ofediq.methods.broadcast import Broadcast as Broadcast
from ofediq.methods.broadcast import delta as delta
from ofediq.methods.broadcast import whole as whole
from ofediq.methods.budgets.steered import Still as Still
from ofediq.methods.budgets.steered import steered as steered
from ofediq.methods.budgets.steering import Budget as Budget
from ofediq.methods.budgets.steering import budget as budget
from ofediq.methods.client import ClientRule as ClientRule
from ofediq.methods.client import hold as hold
from ofediq.methods.client import local_ogd as local_ogd
from ofediq.methods.combine import COMBINES as COMBINES
from ofediq.methods.combine import Combine as Combine
from ofediq.methods.combine import add_up as add_up
from ofediq.methods.combine import combine_rule as combine_rule
from ofediq.methods.composition import Method as Method
from ofediq.methods.composition import Topology as Topology
from ofediq.methods.compress import Compressor as Compressor
from ofediq.methods.compress import additive as additive
from ofediq.methods.compress import grid as grid
from ofediq.methods.compress import identity as identity
from ofediq.methods.compress import keep_largest as keep_largest
from ofediq.methods.compress import quantize as quantize
from ofediq.methods.compress import rotate as rotate
from ofediq.methods.compress import signs as signs
from ofediq.methods.mirror import MirrorMap as MirrorMap
from ofediq.methods.mirror import mirror_map as mirror_map
from ofediq.methods.participation import Participation as Participation
from ofediq.methods.participation import bernoulli as bernoulli
from ofediq.methods.participation import everyone as everyone
from ofediq.methods.participation import fixed_size as fixed_size
from ofediq.methods.participation import in_turns as in_turns
from ofediq.methods.participation import norm_proportional as norm_proportional
from ofediq.methods.presets import PRESETS as PRESETS
from ofediq.methods.presets import SERVERS as SERVERS
from ofediq.methods.presets import method as method
from ofediq.methods.presets import mixed as mixed
from ofediq.methods.presets import own_server as own_server
from ofediq.methods.presets import server_rule as server_rule
from ofediq.methods.presets import untuned as untuned
from ofediq.methods.presets import usual_budget as usual_budget
from ofediq.methods.presets import with_broadcast as with_broadcast
from ofediq.methods.presets import with_combine as with_combine
from ofediq.methods.presets import with_server as with_server
from ofediq.methods.registry import at_budget as at_budget
from ofediq.methods.registry import entries as entries
from ofediq.methods.registry import entry as entry
from ofediq.methods.registry import make as make
from ofediq.methods.registry import named as named
from ofediq.methods.robust.attacks import attack as attack
from ofediq.methods.robust.attacks import attacked as attacked
from ofediq.methods.server.adaptive import Adaptive as Adaptive
from ofediq.methods.server.adaptive import adaptive as adaptive
from ofediq.methods.server.averaged import Averaged as Averaged
from ofediq.methods.server.averaged import averaged as averaged
from ofediq.methods.server.coin import Coin as Coin
from ofediq.methods.server.coin import coin as coin
from ofediq.methods.server.rule import ServerRule as ServerRule
from ofediq.methods.server.rule import adam as adam
from ofediq.methods.server.rule import descend as descend
from ofediq.methods.server.rule import optimizer as optimizer
from ofediq.methods.terms import Terms as Terms
from ofediq.methods.zoo.fedogd import fedogd as fedogd
from ofediq.methods.zoo.fedomd import fedomd as fedomd
from ofediq.methods.zoo.ofedavg import ofedavg as ofedavg
from ofediq.methods.zoo.ofedgrid import ofedgrid as ofedgrid
from ofediq.methods.zoo.ofedgrid import ofediq_norm as ofediq_norm
from ofediq.methods.zoo.ofediq import from_plan as from_plan
from ofediq.methods.zoo.ofediq import ofediq as ofediq
from ofediq.methods.zoo.references import local as local
from ofediq.methods.zoo.references import ogd as ogd

__all__ = public(globals())

if not typing.TYPE_CHECKING:  # a type checker finds misspelt names

    def __getattr__(name: str) -> typing.Any:
        """Any other named method, by its name."""
        found = (
            entries() if name.islower() and not name.startswith("_") else {}
        )  # no method is called Like This
        if name not in found:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return found[name].build
