"""Facts about the datasets that come by name: files, checksums, where they come from, licence, citation.

Recipes and figures refer to exactly these bytes.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from ofediq.streams.dataset import Task
from ofediq.streams.locate import Upstream


@dataclass(frozen=True)
class About:
    """What is known about a dataset before it is loaded.

    Attributes:
        name: how `load` calls it.
        task: "classification" or "regression".
        licence: under which it is published.
        citation: who to cite.
        url: its page.
        sources: its files; empty for embedded and generated data.
        test: those of a test set, where there is one.
        samples: how many, with the default options; None if an option decides.
        features: numbers per sample; None if an option decides.
    """

    name: str
    task: Task
    licence: str
    citation: str
    url: str
    sources: tuple[Upstream, ...]
    test: tuple[Upstream, ...]
    samples: int | None = None
    features: int | None = None


def _read() -> dict[str, About]:
    text = files("ofediq.streams").joinpath("sources.toml").read_text(encoding="utf-8")
    found = {}
    for name, facts in tomllib.loads(text).items():
        for split in ("sources", "test"):
            listed = facts.get(split, ())
            facts[split] = tuple(Upstream(**{**one, "urls": tuple(one["urls"])}) for one in listed)
        found[name] = About(name, **facts)
    return found


ABOUT = _read()
"""By name, as `sources.toml` has them."""
