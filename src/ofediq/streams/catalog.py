"""The datasets that come by name: `load` them, and see where their files are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import signature
from typing import Any

from ofediq.errors import InputError, require_choice
from ofediq.streams import recipes
from ofediq.streams.dataset import Dataset, Task
from ofediq.streams.generate import synthetic
from ofediq.streams.locate import Found, find
from ofediq.streams.recipes import Unscaled
from ofediq.streams.scaling import Scaler, Scaling, fit_scaler, target_scaler
from ofediq.streams.sources import ABOUT, About

NAMES = tuple(ABOUT)
SCALINGS = ("auto", "none", "minmax", "standard", "authors")
_RECIPES: dict[str, Callable[..., Unscaled]] = {
    "digits": recipes.digits,
    "mnist": recipes.mnist,
    "room": recipes.room,
    "pm25": recipes.pm25,
    "air": recipes.air,
    "energy": recipes.energy,
}


def load(name: str, scaling: Scaling = "auto", scaling_fit: float = 1.0, **options: Any) -> Dataset:
    """The dataset called `name`: digits, mnist, room, pm25, air, energy or synthetic.

    Files are looked for in `$OFEDIQ_DATA`, then in the user's cache, and downloaded there otherwise; their
    checksum is always verified. Targets of a regression are mapped to [0, 1], except with scaling "none".

    Arguments:
        name: one of `NAMES`.
        scaling: of the features: "auto" (pixels / their largest value, tables per column to [0, 1]), "minmax",
            "standard" (mean 0, variance 1), "authors" (exactly what the paper's authors did) or "none" (features
            and targets in their original units).
        scaling_fit: the share of rows, from the first one, that per-column scaling may look at. The default, all
            of them, is what the paper does; it peeks at the future.
        **options: `split` ("train", "test") of mnist; `subset` ("all", "balanced") of room; `target` of air; the
            arguments of `ofediq.streams.synthetic` for synthetic.

    >>> data = load("digits")
    >>> data.x.shape, data.classes, float(data.x.max())
    ((1797, 8, 8), 10, 1.0)
    """
    require_choice("name", name, NAMES)
    require_choice("scaling", scaling, SCALINGS)
    if name == "synthetic":
        require_choice("scaling", scaling, ("auto", "none"))
        _require_options(name, synthetic, options)
        return synthetic(**options).dataset
    _require_options(name, _RECIPES[name], options)
    return _scaled(name, _RECIPES[name](**options), scaling, scaling_fit)


@dataclass(frozen=True)
class Status:
    """One row of the list of datasets.

    Attributes:
        about: name, task, samples, features, files, licence, citation and page.
        place: "embedded", "generated", "OFEDIQ_DATA", "cache" or "not here".
        size: bytes of its files: on disk if they are here, else as upstream; 0 without files.
    """

    about: About
    place: str
    size: int

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.about.name

    @property
    def task(self) -> Task:
        """Classification or regression."""
        return self.about.task

    @property
    def files(self) -> tuple[str, ...]:
        """The upstream names of its files."""
        return tuple(source.name for source in self.about.sources)


def status() -> tuple[Status, ...]:
    """Where each dataset is, without reading or downloading anything.

    >>> [row.name for row in status() if row.place in ("embedded", "generated")]
    ['digits', 'synthetic']
    """
    return tuple(_status(about) for about in ABOUT.values())


def _status(about: About) -> Status:
    if not about.sources:
        return Status(about, "generated" if about.name == "synthetic" else "embedded", 0)
    found = [find(source) for source in about.sources]
    here = [copy for copy in found if copy is not None]
    if len(here) < len(found):
        return Status(about, "not here", sum(source.size for source in about.sources))
    return Status(about, _place(here), sum(copy.path.stat().st_size for copy in here))


def _place(copies: list[Found]) -> str:
    return " and ".join(sorted({copy.place for copy in copies}))


def _require_options(name: str, maker: Callable[..., Any], options: Iterable[str]) -> None:
    known = tuple(signature(maker).parameters)
    for option in options:
        if option not in known:
            raise InputError(f"dataset {name!r} takes {', '.join(known) or 'no options'}, got `{option}`")


def _scaled(name: str, raw: Unscaled, scaling: Scaling, fit: float) -> Dataset:
    scaler, words = _feature_scaler(name, raw, scaling, fit)
    target = target_scaler(raw.y, raw.task, scaling, fit)
    return Dataset(
        name,
        x=scaler.apply(raw.x),
        y=target.apply(raw.y),
        task=raw.task,
        classes=raw.classes,
        previous=None if raw.previous is None else target.apply(raw.previous),
        feature_names=raw.feature_names,
        target_name=raw.target_name,
        target_range=target.range,
        scaling=words,
    )


def _feature_scaler(name: str, raw: Unscaled, scaling: Scaling, fit: float) -> tuple[Scaler, str]:
    choice: Scaler | str = scaling
    if scaling == "auto":
        choice = raw.auto
    elif scaling == "authors":
        if raw.authors is None:
            raise InputError(f"dataset {name!r} has no scaling of the paper's authors: they did not use it")
        choice = raw.authors
    if isinstance(choice, str):
        return fit_scaler(raw.x, choice, fit), choice
    return choice, f"(x - {choice.offset:g}) / {choice.span:g}" if choice.offset else f"x / {choice.span:g}"
