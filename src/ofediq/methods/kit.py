"""What authors of methods build with: the bases of pieces, what a round hands them, and how they get a name.

>>> from dataclasses import dataclass
>>> @piece
... @dataclass(frozen=True)
... class Halved(ClientRule):
...     def finish(self, window, down, memory):
...         return {"update": window.gradients / 2}
>>> from ofediq.methods import descend
>>> method(client=Halved(), server=descend(0.1)).client
Halved()
"""

from ofediq.arrays import Array as Array
from ofediq.arrays import namespace as namespace
from ofediq.lazy import public
from ofediq.methods.broadcast import Broadcast as Broadcast
from ofediq.methods.budgets.loudness import length as length
from ofediq.methods.client import ClientRule as ClientRule
from ofediq.methods.client import Down as Down
from ofediq.methods.client import Outcome as Outcome
from ofediq.methods.client import Sample as Sample
from ofediq.methods.client import Window as Window
from ofediq.methods.combine import Combine as Combine
from ofediq.methods.composition import Method as Method
from ofediq.methods.compress import Compressor as Compressor
from ofediq.methods.participation import Participation as Participation
from ofediq.methods.pieces import piece as piece
from ofediq.methods.presets import method as method
from ofediq.methods.registry import named as named
from ofediq.methods.server.rule import FromTotals as FromTotals
from ofediq.methods.server.rule import Keeping as Keeping
from ofediq.methods.server.rule import ServerRule as ServerRule
from ofediq.methods.server.rule import Totals as Totals
from ofediq.methods.terms import Terms as Terms
from ofediq.randomness import Address as Address
from ofediq.randomness import Purpose as Purpose
from ofediq.randomness import uniform as uniform
from ofediq.settings import Count as Count
from ofediq.settings import Fading as Fading
from ofediq.settings import Fraction as Fraction
from ofediq.settings import NonNegative as NonNegative
from ofediq.settings import Positive as Positive
from ofediq.settings import Share as Share

__all__ = public(globals())
