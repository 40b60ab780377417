"""Methods by name: what is known, how parameters are read, what a budget sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ofediq import methods
from ofediq.errors import InputError
from ofediq.methods import Method, Terms, make, named, registry
from ofediq.methods.pieces import describe, restore
from ofediq.methods.registry import entries, parse
from ofediq.methods.round import formula_bits
from ofediq.randomness import Address

TERMS = Terms(budget=0.05, dim=650, clients=40, steps=100)


@pytest.mark.parametrize("name", entries())
def test_every_entry_is_documented(name: str) -> None:
    found = entries()[name]
    assert found.summary.endswith(".")
    assert found.source
    assert all(one.meaning for one in found.parameters)
    made = found.make({}, TERMS, step_size=0.1, preset="paper")
    assert isinstance(made, methods.Method)


SMALL = [  # fewer clients than send in a mean step, fewer coordinates than a byte has bits
    Terms(budget=0.1, dim=1, clients=1, steps=100),
    Terms(budget=1e-4, dim=13, clients=20, steps=100),
    Terms(budget=1.0, dim=7, clients=2, steps=100),
]


@pytest.mark.parametrize("terms", [TERMS, *SMALL], ids=lambda terms: f"D={terms.dim}")
@pytest.mark.parametrize("preset", methods.PRESETS)
@pytest.mark.parametrize("name", [name for name, one in entries().items() if one.spend is not None])
def test_a_budget_is_not_exceeded(name: str, preset: str, terms: Terms) -> None:
    made = entries()[name].make({}, replace(terms, preset=preset), preset=preset)
    if not made.participation.foreseeable or hasattr(made.server, "budget"):
        pytest.skip("it keeps its budget on the way")
    each = formula_bits(made, terms.dim)
    if each != each:  # no formula: the bits of a message are counted
        updates = (
            np.random.default_rng(0)
            .standard_normal((1, made.client.sends(terms.dim)["update"]))
            .astype(np.float32)
        )
        each = float(made.compress.apply(updates, Address(0, 1, np.arange(1)))[1][0])
    rate = float(made.participation.rates(terms.clients).mean())
    assert rate / made.mean_window * each * terms.clients <= terms.bits_per_step * (1 + 1e-6)


@pytest.mark.parametrize("name", entries())
def test_a_tiny_budget_leads_to_a_method_and_a_smaller_one_to_a_sentence(name: str) -> None:
    assert methods.at_budget(name, 2e-9, 35_000, 1000, steps=10).name
    with pytest.raises(InputError, match=r"^`budget` must be at least 1e-09, got 1e-308$"):
        methods.at_budget(name, 1e-308, 35_000, 1000, steps=10)


def test_parameters_by_name() -> None:
    made = methods.make("ofediq(levels=7, coding=entropy)", TERMS)
    assert made.compress == methods.quantize(7, made.compress.blocks, coding="entropy")  # type: ignore[attr-defined]  # quantize
    each = made.compress.formula_bits(650)
    rate = float(made.participation.rates(40).mean())
    assert rate * each * 40 == pytest.approx(TERMS.bits_per_step, rel=1e-6)
    assert parse("a(b(c=1), d=2)") == ("a", {"inner": "b(c=1)", "d": 2})
    assert parse("a(b=[1, 2], c='x', d=None)") == ("a", {"b": [1, 2], "c": "x", "d": None})


@pytest.mark.parametrize("name", ["fedogd", "laq", "lasg", "scaffold"])
def test_without_a_step_size_the_methods_own_is_used(name: str) -> None:
    own = next(one.default for one in entries()[name].parameters if one.name == "step_size")
    for made in (methods.make(name), methods.at_budget(name, 0.5, 650, 40)):
        assert made.server.step_size == own  # type: ignore[attr-defined]  # these have one
    assert methods.make(name, step_size=0.3).server.step_size == 0.3  # type: ignore[attr-defined]  # likewise


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sgd", "`method` must be one of fedogd"),
        ("ofediq(", "`method` must be a name, or name"),
        ("ofediq(7)", "`method` must be a name, or name"),
        ("fedpoe(fedogd, fedogd)", "`method` must be a name, or name"),
        ("fedpoe(fedogd, inner=fedogd)", "`method` must be a name, or name"),
        ("fedpoe(inner=local)", "`inner` must be a federated method"),
        ("fedpoe(fedpoe(fedogd))", "`inner` must not be mixed already"),
        ("ofediq(fedogd)", "`inner` is not a parameter of ofediq"),
        ("__import__('os').system('true')", "`method` must be a name, or name"),
        ("ofedavg(rate=1/0)", "`method` must have numbers, texts or lists as values"),
        ("ofediq(speed=3)", "`speed` is not a parameter of ofediq: it has rate, levels"),
        ("ofedavg", "`rate` must be given for ofedavg"),
        ("ofedavg(rate=2)", r"`rate` must lie in \(0, 1\], got 2"),
    ],
)
def test_bad_names(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        methods.make(text)


def test_two_optimisers_of_one_name_have_different_identities() -> None:
    one, other = methods.optimizer(optax.adam(0.01)), methods.optimizer(optax.sgd(1.0))
    assert one.name == other.name
    assert describe(one) != describe(other)
    assert describe(one) == describe(methods.optimizer(optax.adam(0.01)))


def test_optimisers_that_differ_later_have_different_identities() -> None:
    """A limit that is seldom reached and a schedule that changes late move alike at first."""
    rules = [
        optax.sgd(0.1),
        optax.chain(optax.clip(100.0), optax.sgd(0.1)),
        optax.chain(optax.clip(200.0), optax.sgd(0.1)),
        optax.sgd(optax.piecewise_constant_schedule(0.1, {100: 0.1})),
        optax.sgd(optax.piecewise_constant_schedule(0.1, {200: 0.1})),
    ]
    prints = [methods.optimizer(rule).fingerprint for rule in rules]
    assert len(set(prints)) == len(rules)
    assert methods.optimizer(optax.chain(optax.clip(100.0), optax.sgd(0.1))).fingerprint == prints[1]


class Drop:
    """A schedule that falls to `end` after a thousand steps."""

    def __init__(self, end: float) -> None:
        self.end = end

    def __call__(self, step: Any) -> Any:
        return optax.piecewise_constant_schedule(0.1, {1000: self.end})(step)


RATES = np.linspace(0.1, 0.2, 5000)


def test_schedules_of_ones_own_are_told_apart_though_they_differ_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def looked_up(step: Any) -> Any:
        return jnp.asarray(RATES)[step]

    rules = [
        lambda step: jnp.where(step < 1000, 0.1, 0.2),
        lambda step: jnp.where(step < 1000, 0.1, 0.3),
        Drop(0.1),
        Drop(0.2),
        looked_up,
    ]
    prints = [methods.optimizer(optax.sgd(rule)).fingerprint for rule in rules]
    assert prints == [methods.optimizer(optax.sgd(rule)).fingerprint for rule in rules]
    monkeypatch.setitem(globals(), "RATES", np.where(np.arange(5000) < 4000, RATES, 0))
    prints.append(methods.optimizer(optax.sgd(looked_up)).fingerprint)
    assert len(set(prints)) == 6


@pytest.mark.parametrize("name", entries())
def test_what_clients_run_survives_the_wire(name: str) -> None:
    made = entries()[name].make({}, TERMS)
    for piece in (made.client, made.participation, made.compress, made.broadcast, made.combine):
        assert restore(describe(piece), type(piece).__mro__[1]) == piece


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"piece": 3},
        {"piece": "os"},
        {"piece": "bernoulli"},
        {"piece": "bernoulli", "rate": "1"},
        {"piece": "bernoulli", "rate": True},
        {"piece": "bernoulli", "rate": 7.0},
        {"piece": "bernoulli", "rate": 0.5, "speed": 1},
        {"piece": "quantize", "levels": 3, "blocks": 1},
    ],
)
def test_hostile_descriptions_are_input_errors(content: object) -> None:
    with pytest.raises(InputError):
        restore(content, methods.Participation)


def test_a_word_where_a_number_belongs_is_refused_by_name() -> None:
    # A stranger's method that checks nothing itself: the word went on into the round, and ended there in a traceback.
    @named("unchecked")
    def build(lean: float = 0.5, most: int | None = None) -> Method:
        """It believes what it is told."""
        return methods.ofedavg(min(1.0, lean))

    try:
        with pytest.raises(InputError, match="`lean` must be a number, got 'x'"):
            make("unchecked(lean=x)")
        with pytest.raises(InputError, match="`most` must be an integer, got 'few'"):
            make("unchecked(most=few)")
        assert make("unchecked(lean=1)").name == "OFedAvg"
        assert entries()["unchecked"].describe()["parameters"][1]["type"] == "int | None"
    finally:
        registry._ENTRIES.pop("unchecked")


def test_a_method_without_a_rule_of_its_own_spends_a_budget_by_its_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))

    @named("plain_rate")
    def plain_rate(rate: float, period: int = 1) -> Method:
        """Everything that it is told."""
        return methods.method(
            methods.local_ogd(0.1), methods.descend(0.1), methods.bernoulli(rate), period=period
        )

    assert registry.entry("plain_rate").budgeted
    assert make("plain_rate", TERMS).participation == methods.bernoulli(0.05)
    assert make("plain_rate(period=4)", TERMS).participation == methods.bernoulli(0.2)
    assert make("plain_rate(period=400)", TERMS).participation == methods.bernoulli(1.0)
    assert make("plain_rate(rate=0.5)", TERMS).participation == methods.bernoulli(0.5)
    with pytest.raises(InputError, match="`rate` must be given for plain_rate"):
        make("plain_rate")


def test_what_a_client_remembers_is_found_where_nobody_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    told = registry.entry("topk_ef")
    assert told.remembers == told.memory == told.describe()["memory"]
    assert replace(told, memory="").remembers == "error"
    assert registry.entry("fedogd").remembers == ""
