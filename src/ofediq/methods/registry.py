"""The named methods: what they are called, what they can be told, what covers them, what they cost.

A method is one file: its pieces, a function that composes them, and the decorator `named` over it. The command line,
live federations, budgets, the documentation and the contract tests look it up here. A package that is not ours adds
one with an entry point in the group `ofediq.methods`, whose value is such a function (or the module that holds it).
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import logging
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from ofediq.calls import parse_call
from ofediq.errors import InputError, OFedIQError, require, require_choice
from ofediq.methods.budgets.allowance import Counted, within
from ofediq.methods.budgets.connection import Connection
from ofediq.methods.composition import Method
from ofediq.methods.terms import Planner, Spend, Terms

GROUP = "ofediq.methods"

_log = logging.getLogger(__name__)

Build = TypeVar("Build", bound=Callable[..., Method])

COMMON = {"step_size": "eta.", "preset": "which server rule, see `methods.presets`."}
"""Parameters that every method may have, and that a run sets for all of its methods; with what they usually mean."""


@dataclass(frozen=True)
class Parameter:
    """One argument of a method: its name, its type, its default (None if it must be given), and what it means."""

    name: str
    type: str
    default: Any
    required: bool
    meaning: str


@dataclass(frozen=True)
class Entry:
    """A named method.

    Attributes:
        name: lower case with underscores.
        build: from parameters to the method.
        spend: how a budget sets its parameters; without it a budget sets a `rate` that has no default.
        theorem: which theorem covers it; empty for none.
        source: where it comes from.
        memory: what a client remembers, in words; empty where the names of its memory say it (see `remembers`).
        model: the model that it is made for, by name; empty for any.
        counts: what its budget is a share of by itself, see `allowance.Counted`.
    """

    name: str
    build: Callable[..., Method]
    spend: Spend | None
    theorem: str
    source: str
    memory: str
    model: str = ""
    counts: Counted = "formula"

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.build) or "").partition("\n")[0]

    @property
    def documentation(self) -> str:
        """All of it."""
        return inspect.getdoc(self.build) or ""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its arguments, in order."""
        meanings = COMMON | _meanings(self.documentation)
        return tuple(
            Parameter(
                one.name,
                "" if one.annotation is one.empty else inspect.formatannotation(one.annotation).strip("'"),
                None if one.default is one.empty else one.default,
                one.default is one.empty,
                meanings.get(one.name, ""),
            )
            for one in inspect.signature(self.build).parameters.values()
        )

    @property
    def budgeted(self) -> bool:
        """Whether a budget sets any of its parameters."""
        return self.spend is not None or any(one.name == "rate" and one.required for one in self.parameters)

    @property
    def remembers(self) -> str:
        """What a client remembers, in words or by the names of its memory; empty for nothing."""
        if self.memory:
            return self.memory
        try:
            one = self.make({}, Terms(0.1, 100, 10, 100)).client.memory(np.zeros(100, np.float32))
        except OFedIQError:  # it does not fit a model of this size
            return "not said"
        names = getattr(one, "_fields", one)
        return ", ".join(names) if isinstance(names, (tuple, Mapping)) else "numbers without names"

    def make(self, given: Mapping[str, Any], terms: Terms | None = None, **common: Any) -> Method:
        """The method with these parameters; what is not given comes from the budget, or has its default.

        Args:
            given: parameters by name.
            terms: what to fit the others to.
            common: `step_size` and `preset` of the run, for methods that have them; None for a method's own default.

        A parameter called `inner` is a method: its text is made with the same terms.
        """
        known = {one.name: one for one in self.parameters}
        for name in given:
            if name not in known:
                have = ", ".join(known) or "none"
                raise InputError(f"`{name}` is not a parameter of {self.name}: it has {have}")
        values = {name: value for name, value in common.items() if name in known and value is not None}
        if terms is not None and self.spend is not None:
            values |= self.spend(terms, given)
        values |= given
        if "inner" in known and isinstance(values.setdefault("inner", known["inner"].default), str):
            shared = {name: value for name, value in given.items() if name in COMMON}
            values["inner"] = make(values["inner"], terms, **(common | shared))
        missing = [name for name, one in known.items() if one.required and name not in values]
        fitted = terms is not None and missing == ["rate"]
        if missing and not fitted:
            name = missing[0]
            raise InputError(f"`{name}` must be given for {self.name}, as {self.name}({name}=...)")
        try:
            if terms is not None and fitted:
                values["rate"] = rate_within(self.build(**values, rate=1.0), terms)
            made = self.build(**values)
        except InputError:  # its pieces say which numbers do
            raise
        except (TypeError, ValueError):
            self._refuse_words(given)
            raise
        self._refuse_words(given)
        return made

    def _refuse_words(self, given: Mapping[str, Any]) -> None:
        """A word where a number belongs, which a method that checks nothing takes on into the round."""
        for one in self.parameters:
            kinds = set(one.type.replace("|", " ").split()) - {"None"}
            if isinstance(given.get(one.name), str) and kinds and kinds <= {"int", "float"}:
                rule = "must be an integer" if kinds == {"int"} else "must be a number"
                raise InputError(f"`{one.name}` {rule}, got {given[one.name]!r}")

    def describe(self) -> dict[str, Any]:
        """The entry, JSON-ready."""
        return {
            "name": self.name,
            "summary": self.summary,
            "parameters": [asdict(one) for one in self.parameters],
            "memory": self.remembers,
            "model": self.model,
            "theorem": self.theorem,
            "source": self.source,
        }


_ENTRIES: dict[str, Entry] = {}


def named(
    name: str,
    *,
    spend: Spend | None = None,
    theorem: str = "",
    source: str = "",
    memory: str = "",
    model: str = "",
    counts: Counted = "formula",
) -> Callable[[Build], Build]:
    """Register a function that composes a method under `name`; the function itself stays as it is.

    Args:
        name: what the method is called everywhere.
        spend: how a budget sets its parameters; without it a budget sets a `rate` that has no default.
        theorem: which theorem of the paper covers it.
        source: where it comes from.
        memory: what a client remembers, in words.
        model: the model that it is made for, if it does not work with any.
        counts: what its budget is a share of by itself, see `allowance.Counted`.
    """
    require(name.isidentifier() and name == name.lower(), "name", "must be lower case with underscores", name)

    def register(build: Build) -> Build:
        _ENTRIES[name] = Entry(name, build, spend, theorem, source, memory, model, counts)
        return build

    return register


def entries() -> Mapping[str, Entry]:
    """All named methods, the paper's first, then by name.

    >>> list(entries())[:4]
    ['fedogd', 'ofedavg', 'fedomd', 'ofediq']
    """
    first = _load()
    listed = [*(name for name in first if name in _ENTRIES), *sorted(set(_ENTRIES) - set(first))]
    return {name: _ENTRIES[name] for name in listed}


def entry(name: str) -> Entry:
    """The method called `name`, or `InputError`."""
    found = entries()
    require_choice("method", name, tuple(found))
    return found[name]


def known(text: str) -> str:
    """`text`, if it names a method; `InputError` if not."""
    entry(parse(text)[0])
    return text


def make(
    text: str, terms: Terms | None = None, *, step_size: float | None = None, preset: str = "paper"
) -> Method:
    """The method that `text` names, such as "ofediq(levels=7)"; the rest comes from `terms` or has its default.

    >>> make("ofedavg(rate=0.25)").participation
    Bernoulli(rate=0.25)
    """
    name, given = parse(text)
    return entry(name).make(given, terms, step_size=step_size, preset=preset)


def at_budget(
    key: str,
    budget: float,
    dim: int,
    clients: int,
    *,
    step_size: float | None = None,
    preset: str = "paper",
    planner: Planner = "paper",
    steps: int | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    budget_of: Counted = "formula",
    features: int | None = None,
) -> Method:
    """The method that `key` names with the parameters that spend `budget`, a fraction of FedOGD's uplink bits.

    OFedAvg gets p = budget, FedOMD L = 1 / budget (rounded up, so that it does not exceed the budget), OFedIQ the
    plan that `planner` ("paper" or "exact") makes. OFedGrid spends the budget in real bits over `steps` steps, which
    it must be told. Methods without a budget (FedOGD and the references) are what they are. Private methods promise
    `epsilon` at `delta`. With `budget_of` "uplink" or "total" the budget is one of all bytes that go up, or of all
    bytes in both directions; see `allowance`. Samples, for methods that send them, have `features` numbers.

    >>> at_budget("fedomd", 0.01, dim=34826, clients=1000).period
    100
    """

    def build(share: float, extra_bits: float = 0.0) -> Method:
        terms = Terms(share, dim, clients, steps, planner, preset, epsilon, delta, extra_bits, features)
        return make(key, terms, step_size=step_size, preset=preset)

    chosen = entry(parse(key)[0])
    if budget_of == "formula" or not chosen.budgeted or chosen.counts == "total":
        return build(budget)
    beside = 8.0 * Connection().update_bytes(build(budget), dim)
    return within(lambda share: build(share, beside), budget_of, budget, dim, clients)


def rate_within(everyone: Method, terms: Terms) -> float:
    """How often clients may send within the budget what they send in every window of `everyone`."""
    sent = everyone.client.sends(terms.dim).items()
    bits = sum(everyone.compressor(name).usual_bits(size) for name, size in sent)
    return min(1.0, terms.bits_each * everyone.mean_window / bits)


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters in a text, see `calls.parse_call`.

    >>> parse("fedpoe(ofediq(levels=7), mixing=adaptive)")
    ('fedpoe', {'inner': 'ofediq(levels=7)', 'mixing': 'adaptive'})
    """
    return parse_call(text, what="method")


def _meanings(documentation: str) -> dict[str, str]:
    """The `Args:` of a docstring, by name."""
    meanings: dict[str, str] = {}
    last = ""
    inside = False
    for line in documentation.splitlines():
        if line.strip() == "Args:":
            inside = True
        elif inside and line.startswith("        ") and last:
            meanings[last] += " " + line.strip()
        elif inside and line.startswith("    ") and ":" in line:
            last, _, meaning = line.strip().partition(":")
            meanings[last] = meaning.strip()
        elif line.strip():
            inside = False
    return meanings


@functools.cache
def _load() -> tuple[str, ...]:
    """Import our methods and those of installed packages; returns which are listed first."""
    from ofediq.methods import zoo

    for _, module, _ in pkgutil.iter_modules(zoo.__path__):
        importlib.import_module(f"{zoo.__name__}.{module}")
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # somebody else's package: ours goes on without it
            where = getattr(point.dist, "name", "?")
            _log.warning("the method %s of the package %s cannot be loaded: %s", point.name, where, error)
    return zoo.ORDER
