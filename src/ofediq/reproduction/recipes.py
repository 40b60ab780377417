"""`Recipe`: a method with its parameters, as a panel of the paper has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ofediq.settings import Ranged

STEP_SIZE = 0.01  # eta, "for all experiments"
_TAKES = {
    "fedogd": (),
    "ofedavg": ("rate",),
    "fedomd": ("period",),
    "ofediq": ("rate", "levels", "blocks", "period"),
}


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
    def text(self) -> str:
        """The method as `--methods` takes it: equal for equal methods, however a panel labels them.

        >>> Recipe("ours", "ofedavg", rate=0.5, step_size=0.1).text
        'ofedavg(rate=0.5, step_size=0.1)'
        """
        names = (*_TAKES[self.key], *(["step_size"] if self.step_size != STEP_SIZE else ()))
        return (
            f"{self.key}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
            if names
            else self.key
        )
