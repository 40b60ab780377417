"""`Recipe`: a method with its parameters, as a panel of the paper has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ofediq.settings import Ranged

if TYPE_CHECKING:
    from ofediq.methods import Method

STEP_SIZE = 0.01  # eta, "for all experiments"


@dataclass(frozen=True)
class Recipe(Ranged):
    """A method with its parameters, before a preset turns it into pieces.

    Attributes:
        label: how pictures and tables call it; not part of what is run.
        key: fedogd, ofedavg, fedomd or ofediq.
        rate: p.
        period: L.
        levels: s; 0 without a quantiser.
        blocks: b; 0 without a quantiser.
        step_size: eta.

    >>> Recipe("OFedIQ", "ofediq", rate=0.0862, levels=3, blocks=777).parameters
    'OFedIQ(1, 0.0862, 3, 777)'
    """

    label: str
    key: Literal["fedogd", "ofedavg", "fedomd", "ofediq"]
    rate: float = 1.0
    period: int = 1
    levels: int = 0
    blocks: int = 0
    step_size: float = STEP_SIZE

    @property
    def parameters(self) -> str:
        """The method as the paper writes it, OFedIQ(L, p, s, b)."""
        if self.key == "ofediq":
            return f"OFedIQ({self.period}, {self.rate:.3g}, {self.levels}, {self.blocks})"
        if self.key == "ofedavg":
            return f"OFedAvg({self.rate:g})"
        return f"FedOMD({self.period})" if self.key == "fedomd" else "FedOGD"

    @property
    def name(self) -> str:
        """A name for files: equal for equal methods, however a panel labels them.

        >>> Recipe("ours", "ofediq", rate=0.0862, levels=3, blocks=777).name
        'ofediq-p0.0862-s3-b777'
        """
        rate = f"-p{self.rate:.6g}" if self.rate != 1 else ""
        period = f"-L{self.period}" if self.period != 1 else ""
        quantiser = f"-s{self.levels}-b{self.blocks}" if self.levels else ""
        step_size = f"-eta{self.step_size:.6g}" if self.step_size != STEP_SIZE else ""
        return self.key + rate + period + quantiser + step_size

    def build(self, preset: str) -> Method:
        """The method itself, as the paper's text has it or as the authors ran it."""
        from ofediq import methods

        if self.key == "fedogd":
            return methods.fedogd(self.step_size, preset)
        if self.key == "ofedavg":
            return methods.ofedavg(self.rate, self.step_size, preset)
        if self.key == "fedomd":
            return methods.fedomd(self.period, self.step_size, preset)
        return methods.ofediq(self.rate, self.levels, self.blocks, self.period, self.step_size, preset=preset)
