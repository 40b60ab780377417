"""The guard where nobody is hostile; `python -m benchmarks.honest` draws many more federations."""

from __future__ import annotations

import numpy as np

from benchmarks.honest import cost


def test_honest_federations_pay_next_to_nothing() -> None:
    """Five that paid 3.3 points in the mean, 11.5 at most: thin rounds, few dimensions, windows of many steps."""
    costs = [cost(number) for number in (206, 220, 232, 238, 250)]
    assert np.mean([one.lost for one in costs]) < 0.01
    assert np.mean([one.kept for one in costs]) > 0.92
