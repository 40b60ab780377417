"""Hostile members where data differ; `python -m benchmarks attacks` has the rest."""

from __future__ import annotations

import pytest

from benchmarks.attacks import OTHERS, error


@pytest.mark.parametrize("where", ["each Dirichlet(0.3) classes", "each two classes"])
@pytest.mark.parametrize("attack", ["back to the first model", "min-max"])
def test_three_in_ten_who_pull_back_do_not_stop_the_others(where: str, attack: str) -> None:
    """Digits, 20 clients, 240 steps, step size 0.3, seed 0.

    They cost 37 to 78 points when they had a say in who is in the middle of all members.
    """
    federation = OTHERS[where]
    method = federation.method("FedOGD")
    honest = error(federation, method, "nobody", 0.0, 0)
    assert error(federation, method, attack, 0.3, 0) - honest < 0.1
