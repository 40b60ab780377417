"""Server rules around others: what is inside keeps its say, its state and its way to close a round."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from ofediq import methods
from ofediq.methods import ServerRule, Still, steered
from ofediq.methods.privacy import Promised
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
