"""Hostile members where data differ; `python -m benchmarks attacks` has the rest."""

from __future__ import annotations

from functools import cache

import pytest

from benchmarks.attacks import OTHERS, error


@cache
def honest(where: str) -> float:
    return error(OTHERS[where], OTHERS[where].method("FedOGD"), "nobody", 0.0, 0)


@pytest.mark.parametrize("where", ["each Dirichlet(0.3) classes", "each two classes"])
@pytest.mark.parametrize("attack", ["back to the first model", "min-max", "against the others"])
def test_three_in_ten_who_pull_back_do_not_stop_the_others(where: str, attack: str) -> None:
    """Digits, 20 clients, 240 steps, step size 0.3, seed 0.

    The first two cost 37 to 78 points when they had a say in who is in the middle of all members, the last one 28
    and 56 when six who want the same counted as six.
    """
    method = OTHERS[where].method("FedOGD")
    assert error(OTHERS[where], method, attack, 0.3, 0) - honest(where) < 0.1
