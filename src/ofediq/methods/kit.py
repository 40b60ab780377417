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

from ofediq.arrays import Array, namespace
from ofediq.methods.broadcast import Broadcast
from ofediq.methods.budgets.loudness import length
from ofediq.methods.client import ClientRule, Down, Outcome, Sample, Window
from ofediq.methods.combine import Combine
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor
from ofediq.methods.participation import Participation
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import Terms, named
from ofediq.methods.server.rule import FromTotals, Keeping, ServerRule, Totals
from ofediq.randomness import Address, Purpose, uniform
from ofediq.settings import Count, Fading, Fraction, NonNegative, Positive, Share

__all__ = [
    "Address",
    "Array",
    "Broadcast",
    "ClientRule",
    "Combine",
    "Compressor",
    "Count",
    "Down",
    "Fading",
    "Fraction",
    "FromTotals",
    "Keeping",
    "Method",
    "NonNegative",
    "Outcome",
    "Participation",
    "Positive",
    "Purpose",
    "Sample",
    "ServerRule",
    "Share",
    "Terms",
    "Totals",
    "Window",
    "length",
    "method",
    "named",
    "namespace",
    "piece",
    "uniform",
]
