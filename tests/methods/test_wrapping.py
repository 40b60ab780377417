"""Server rules around others: what is inside keeps its say, its state and its way to close a round."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import InputError
from ofediq.methods import ServerRule, Still, steered
from ofediq.methods.budgets.purse import Purse
from ofediq.methods.budgets.steered import budget_of
from ofediq.methods.privacy import last_step_of, least_of, promise_of
from ofediq.methods.server.promised import Promised
from ofediq.methods.server.rule import Totals
from ofediq.methods.server.shifted import Shifted
from ofediq.methods.server.timed import timed

INNER = {
    "descend": methods.descend(0.1),
    "control variates": methods.make("scaffold(period=2)").server,
    "coin": methods.coin(),
}
AROUND: dict[str, Callable[[ServerRule], ServerRule]] = {
    "steered": lambda rule: steered(rule, Still(0.5)),
    "promised": lambda rule: Promised(rule, least=1),
    "shifted": lambda rule: Shifted(rule, 0.5, told=True),
    "timed": timed,
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(
    "names", [*itertools.permutations(AROUND, 1), *itertools.permutations(AROUND, 2)], ids=str
)
def test_what_is_declared_is_said(names: tuple[str, ...], inner: str) -> None:
    rule = INNER[inner]
    for name in names:
        rule = AROUND[name](rule)
    params = np.ones(3, np.float32)
    state = rule.regroup(params, 5, rule.begin(params, 2, 1))
    update = {part: np.ones(3, np.float32) for part in ("update", "control")}
    params, state = rule.close(params, Totals(update, np.int32(2), np.float32(9), 5, np.int32(2)), 2, state)
    vectors, scalars = rule.say(params, state)
    assert (tuple(vectors), tuple(scalars)) == (rule.vectors, rule.scalars)
    assert np.isfinite(params).all()
    if inner != "control variates":  # which cannot do without their own rule
        assert rule.around(methods.descend(0.2)).name == "descend"


@pytest.mark.parametrize("name", ["promised", "shifted", "timed"])
def test_a_method_is_asked_for_its_rules_at_any_depth(name: str) -> None:
    """Who wraps a steered or a private method changes neither its budget nor its promise."""
    grid = methods.ofedgrid(1000.0)
    private = methods.make("private(keep=60, senders=10, unit=member, steps=4)")
    for one in (grid, replace(grid, server=AROUND[name](grid.server))):
        assert budget_of(one) == budget_of(grid)
        assert Purse.of(one).fair == 1000.0
    name = "timed" if name == "promised" else name
    for one in (private, replace(private, server=AROUND[name](private.server))):
        assert (promise_of(one), last_step_of(one)) == (promise_of(private), 4)
        assert least_of(one) == least_of(private) > 0
        with pytest.raises(InputError, match="`combine` must be sum in a private method"):
            methods.with_combine(one, methods.combine_rule("krum"))


def test_clients_that_mix_models_keep_their_geometry() -> None:
    entropic = methods.mixed(methods.fedomd(1, mirror="simplex"), 10, 2)
    with pytest.raises(InputError, match="`rule` must use the simplex mirror map"):
        methods.with_server(entropic, methods.descend(0.1))
