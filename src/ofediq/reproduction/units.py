"""A unit of work: one method on one stream with one seed. Panels share units, so each runs only once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ofediq.errors import require_choice, require_integer

if TYPE_CHECKING:
    from ofediq.methods import Method

STEP_SIZE = 0.01  # eta, "for all experiments"
_KEYS = ("fedogd", "ofedavg", "fedomd", "ofediq")


@dataclass(frozen=True)
class Recipe:
    """A method with its parameters, before a preset turns it into pieces.

    Attributes:
        label: how pictures and tables call it; not part of what is run.
        key: fedogd, ofedavg, fedomd or ofediq.
        rate: p.
        period: L.
        levels: s; 0 without a quantiser.
        blocks: b; 0 without a quantiser.

    >>> Recipe("OFedIQ", "ofediq", rate=0.0862, levels=3, blocks=777).parameters
    'OFedIQ(1, 0.0862, 3, 777)'
    """

    label: str
    key: str
    rate: float = 1.0
    period: int = 1
    levels: int = 0
    blocks: int = 0

    def __post_init__(self) -> None:
        require_choice("key", self.key, _KEYS)

    @property
    def parameters(self) -> str:
        """The method as the paper writes it, OFedIQ(L, p, s, b)."""
        if self.key == "ofediq":
            return f"OFedIQ({self.period}, {self.rate:.3g}, {self.levels}, {self.blocks})"
        if self.key == "ofedavg":
            return f"OFedAvg({self.rate:g})"
        return f"FedOMD({self.period})" if self.key == "fedomd" else "FedOGD"

    def build(self, preset: str, step_size: float = STEP_SIZE) -> Method:
        """The method itself, as the paper's text has it or as the authors ran it."""
        from ofediq import methods

        if self.key == "fedogd":
            return methods.fedogd(step_size, preset)
        if self.key == "ofedavg":
            return methods.ofedavg(self.rate, step_size, preset)
        if self.key == "fedomd":
            return methods.fedomd(self.period, step_size, preset)
        return methods.ofediq(self.rate, self.levels, self.blocks, self.period, step_size, preset)


@dataclass(frozen=True)
class Data:
    """Which samples, dealt how, to whom.

    Attributes:
        dataset: name for `ofediq.streams.load`.
        options: further arguments for it, as pairs.
        partition: how samples are dealt to clients.
        clients: K.
        steps: T.
        seed: of the deal.
    """

    dataset: str
    options: tuple[tuple[str, str], ...]
    partition: str
    clients: int
    steps: int
    seed: int

    def __post_init__(self) -> None:
        require_integer("clients", self.clients, 1)
        require_integer("steps", self.steps, 1)
        require_integer("seed", self.seed, 0)

    @property
    def name(self) -> str:
        """A name for files."""
        variant = "".join(f".{value}" for _, value in self.options)
        return f"{self.dataset}{variant}-{self.partition}-K{self.clients}-T{self.steps}-seed{self.seed}"


@dataclass(frozen=True)
class Unit:
    """One run: `recipe` as `preset` has it, on `data` with the dataset's own model.

    >>> data = Data("mnist", (), "passes", clients=1000, steps=900, seed=0)
    >>> Unit(data, Recipe("FedOGD", "fedogd"), "authors").name
    'mnist-passes-K1000-T900-seed0-authors-fedogd'
    """

    data: Data
    recipe: Recipe
    preset: str

    @property
    def name(self) -> str:
        """A name for files: equal for equal runs, however a panel labels them."""
        recipe = self.recipe
        parts = [self.data.name, self.preset, recipe.key]
        if recipe.rate != 1:
            parts.append(f"p{recipe.rate:.6g}")
        if recipe.period != 1:
            parts.append(f"L{recipe.period}")
        if recipe.levels:
            parts.append(f"s{recipe.levels}-b{recipe.blocks}")
        return "-".join(parts)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that decides the outcome, JSON-ready."""
        recipe = asdict(self.recipe)
        del recipe["label"]
        data = {**asdict(self.data), "options": [list(pair) for pair in self.data.options]}
        return {"data": data, "recipe": recipe, "preset": self.preset, "step_size": STEP_SIZE}
