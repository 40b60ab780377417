"""The paper's panels as data: what is run, with which parameters, and what the authors got."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, cast

from ofediq.errors import require_choice
from ofediq.experiment import Config, Experiment
from ofediq.reproduction.recipes import STEP_SIZE, Recipe
from ofediq.theory import plan

Preset = Literal["authors", "paper"]
PRESETS: tuple[str, ...] = ("authors", "paper")
CLIENTS = 1000
_PARTITIONS = {"authors": "passes", "paper": "random"}
_QUICK_CLIENTS, _QUICK_STEPS = 100, 120


@dataclass(frozen=True)
class Problem:
    """A dataset with the paper's model for it.

    Attributes:
        title: what the paper calls it.
        dataset: what `ofediq.streams.load` calls it.
        model: which of the paper's models.
        dim: D of our model; a test compares it with the model itself.
        paper_dim: D as printed in the paper.
        metric: accuracy or mse.
        options: loading options of each preset, where it has some.
        built: what `ofediq.models.build` calls the model.
        hidden: sizes of its hidden layers.
    """

    title: str
    dataset: str
    model: str
    dim: int
    paper_dim: int
    metric: Literal["accuracy", "mse"]
    options: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    built: str = "auto"
    hidden: tuple[int, ...] = (64, 64)


MNIST = Problem("MNIST", "mnist", "Model I (CNN)", 34_826, 34_826, "accuracy")
# What the paper calls Air Quality is the Beijing PM2.5 series; see docs/data.md.
AIR = Problem("Air (Beijing PM2.5), all lags", "pm25", "Model III (5-64-64-1)", 4_609, 4_353, "mse")
ROOM = Problem(
    "Room occupancy",
    "room",
    "Model II (14-64-64-4)",
    5_380,
    4_548,
    "accuracy",
    {"authors": (("subset", "balanced"),)},
)
ENERGY = Problem("Appliances energy, all features", "energy", "Model III (25-64-64-1)", 5_889, 4_353, "mse")


def _per_feature(problem: Problem, title: str) -> Problem:
    """With the authors' network, 1-32-32-1 on every feature alone: what made their curves. 64-64 came later."""
    return replace(
        problem, title=title, model="1-32-32-1 per feature", dim=1_153, built="per_feature", hidden=(32, 32)
    )


AUTHORS_AIR = _per_feature(AIR, "Air (Beijing PM2.5)")
AUTHORS_ENERGY = _per_feature(ENERGY, "Appliances energy")


@dataclass(frozen=True)
class Scale:
    """How large the runs are.

    Attributes:
        clients: K; None for the paper's.
        steps: largest T; None for the paper's.

    >>> Scale().full, Scale.quick().full
    (True, False)
    """

    clients: int | None = None
    steps: int | None = None

    @classmethod
    def quick(cls) -> Scale:
        """About a minute for everything: shows that it works, says nothing about the paper."""
        return cls(_QUICK_CLIENTS, _QUICK_STEPS)

    @property
    def full(self) -> bool:
        """Whether this is the paper's scale."""
        return self.clients is None and self.steps is None


@dataclass(frozen=True)
class Panel:
    """One picture of the paper.

    Attributes:
        name: fig2, fig3, fig4a, ...
        title: what it shows.
        problem: dataset and model.
        ccr: communication cost reduction in percent.
        steps: T.
        recipes: the methods.
        authors: the authors' final values by label, where we know them.
        clients: K.
    """

    name: str
    title: str
    problem: Problem
    ccr: int
    steps: int
    recipes: tuple[Recipe, ...]
    authors: Mapping[str, float]
    clients: int = CLIENTS

    def config(self, preset: str, seeds: int = 1, scale: Scale | None = None) -> Config:
        """The experiment behind this panel."""
        require_choice("preset", preset, PRESETS)
        scale = scale or Scale()
        return Config(
            dataset=self.problem.dataset,
            options=dict(self.problem.options.get(preset, ())),
            model=self.problem.built,
            hidden=self.problem.hidden,
            scaling="authors",
            partition=_PARTITIONS[preset],
            clients=scale.clients or self.clients,
            steps=min(self.steps, scale.steps or self.steps),
            step_size=STEP_SIZE,
            preset=cast(Preset, preset),  # checked above
            methods=tuple(recipe.text for recipe in self.recipes),
            seeds=seeds,
            regret=False,
        )


def _optimised(problem: Problem, ccr: int) -> Recipe:
    """OFedIQ with the parameters of Algorithm 3 for the D that our model really has."""
    chosen = plan(_budget(ccr), problem.dim, CLIENTS, method="paper")
    return Recipe("OFedIQ", "ofediq", chosen.mean_rate, 1, chosen.levels, chosen.blocks)


def _budget(ccr: int) -> float:
    return (100 - ccr) / 100


FEDOGD = Recipe("FedOGD", "fedogd")


def _compared(problem: Problem, ccr: int) -> tuple[Recipe, ...]:
    """The four methods of the comparison figure at one communication cost."""
    return (
        FEDOGD,
        _optimised(problem, ccr),
        Recipe("OFedAvg", "ofedavg", rate=_budget(ccr)),
        Recipe("FedOMD", "fedomd", period=round(100 / (100 - ccr))),
    )


def _periods() -> tuple[Recipe, ...]:
    """OFedIQ(L, L p, 3, 777): the same p/L, so the same bits."""
    best = _optimised(MNIST, 99)
    longer = [
        Recipe(f"OFedIQ L={period}", "ofediq", period * best.rate, period, best.levels, best.blocks)
        for period in (4, 8)
    ]
    return (FEDOGD, best, *longer)


def _quantisers() -> tuple[Recipe, ...]:
    """The optimised quantiser, the one with a single norm, none."""
    single = Recipe("OFedIQ s=7 b=1", "ofediq", 0.086, 1, 7, 1)
    return (FEDOGD, _optimised(MNIST, 99), single, Recipe("OFedAvg", "ofedavg", rate=0.01))


def _panel(
    name: str,
    problem: Problem,
    ccr: int,
    steps: int,
    *authors: float,
    title: str = "Comparison of methods",
    recipes: tuple[Recipe, ...] = (),
) -> Panel:
    """A panel, by default of the comparison figure; the authors' values in the order of its methods, or none."""
    shown = recipes or _compared(problem, ccr)
    values = {recipe.label: value for recipe, value in zip(shown, authors, strict=False)}
    return Panel(name, title, problem, ccr, steps, shown, values)


_ALL = "The same, all features at once"
PANELS: Mapping[str, Panel] = {
    panel.name: panel
    for panel in (
        _panel(
            *("fig2", MNIST, 99, 900, 0.9864, 0.9686, 0.9624, 0.9424),
            title="The transmission period, at equal bits",
            recipes=_periods(),
        ),
        _panel(
            *("fig3", MNIST, 99, 900, 0.9864, 0.9686, 0.9507, 0.9220),
            title="The quantiser",
            recipes=_quantisers(),
        ),
        _panel("fig4a", MNIST, 90, 900, 0.9864, 0.9842, 0.9725, 0.9318),
        _panel("fig4b", MNIST, 99, 900, 0.9864, 0.9686, 0.9220, 0.6254),
        _panel("fig4c", AUTHORS_AIR, 90, 494),
        _panel("fig4d", AUTHORS_AIR, 99, 570, 0.00257, 0.00262, 0.00306, 0.00532),
        _panel("fig4e", ROOM, 99, 640, 0.9841, 0.9712, 0.9497, 0.6168),
        _panel("fig4f", AUTHORS_ENERGY, 99, 360, 0.02876, 0.02883, 0.02910, 0.06793),
        # Ours beside them: one network that sees all features at once. There is nothing to compare it with.
        _panel("fig4c_all", AIR, 90, 494, title=_ALL),
        _panel("fig4d_all", AIR, 99, 570, title=_ALL),
        _panel("fig4f_all", ENERGY, 99, 360, title=_ALL),
    )
}

# The small datasets first, since they take seconds; then what the paper rests on.
_ORDER = (
    *("fig4d", "fig4e", "fig4f", "fig4c", "fig4d_all", "fig4f_all", "fig4c_all"),
    *("fig4b", "fig3", "fig2", "fig4a"),
)


def experiment_of(config: Config) -> Experiment:
    """Its streams, model and methods, under names that do not depend on which other methods run beside them."""
    made = Experiment.set_up(config)
    methods = {text: replace(one, name=f"{config.name} {text}") for text, one in made.methods.items()}
    return replace(made, methods=methods, notes=(), origin=partial(experiment_of, config))


def series_name(config: Config) -> str:
    """A name for the folder of a series.

    >>> series_name(PANELS["fig4e"].config("authors"))
    'room.balanced-passes-K1000-T640-authors'
    """
    variant = "".join(f".{value}" for value in config.options.values())
    variant += f".{config.model}" * (config.model != "auto")
    sizes = f"K{config.clients}-T{config.steps}" + f"-seed{config.seed}" * (config.seed > 0)
    return f"{config.dataset}{variant}-{config.partition}-{sizes}-{config.preset}"


def all_series(names: Collection[str], preset: str, seeds: int, scale: Scale) -> dict[str, Config]:
    """Everything behind the named panels, by the name of its folder; the quickest comes first."""
    return merged(PANELS[name].config(preset, seeds, scale) for name in _ORDER if name in names)


def merged(configs: Iterable[Config]) -> dict[str, Config]:
    """One experiment for runs that share their streams, with all their methods, by the name of its folder."""
    found: dict[str, Config] = {}
    for config in configs:
        known = found.get(series_name(config), config)
        methods = tuple(dict.fromkeys((*known.methods, *config.methods)))
        found[series_name(config)] = replace(known, methods=methods)
    return found
