from __future__ import annotations

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.streams import Dataset, Stream, availability, drift, partition

from .made import make_dataset

STREAM = partition(make_dataset(60), 200, 100, seed=0)


def test_nothing_asked_nothing_changed() -> None:
    np.testing.assert_array_equal(availability(STREAM).order, STREAM.order)


def test_a_share_of_the_clients_joins_late_and_then_stays() -> None:
    late = availability(STREAM, join=0.25, seed=1)
    first = late.present.argmax(axis=0)
    assert np.count_nonzero(first) == 50
    for client, step in enumerate(first):
        assert (late.order[:step, client] == -1).all()
        np.testing.assert_array_equal(late.order[step:, client], STREAM.order[step:, client])


def test_pauses_have_the_asked_share_and_length() -> None:
    """20,000 steps of 200 independent chains with pauses of 5 steps on average.

    The share away has standard deviation below sqrt(0.2 * 0.8 * 2 * 5 / 20,000) = 0.009, because a pause correlates
    about 2 * 5 steps; about 800 pauses give their mean length to 5 / sqrt(800) = 0.18. Four deviations each.
    """
    away = ~availability(STREAM, pause=0.2, pause_length=5, seed=2).present
    assert abs(away.mean() - 0.2) < 0.036
    starts = np.count_nonzero(away[1:] & ~away[:-1])
    assert abs(away[1:].sum() / starts - 5) < 0.72 + 5 * away[0].sum() / starts


def test_availability_follows_its_seed() -> None:
    orders = [availability(STREAM, join=0.5, pause=0.3, seed=seed).order for seed in (1, 1, 2)]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert (orders[0] != orders[2]).any()


def test_bad_availability_is_named() -> None:
    with pytest.raises(InputError, match=r"`join` must be a share in \[0, 1\]"):
        availability(STREAM, join=1.5)
    with pytest.raises(InputError, match="`join` must be 200 steps >= 0, one per client"):
        availability(STREAM, join=[1, 2])
    with pytest.raises(InputError, match=r"`pause` must be a share in \[0, 1\), got 1"):
        availability(STREAM, pause=1)
    with pytest.raises(InputError, match=r"`pause` 0\.9 needs `pause_length` >= 9, got 2"):
        availability(STREAM, pause=0.9, pause_length=2)


def test_drift_moves_every_label_from_its_step_on() -> None:
    changed = drift(STREAM, at=40)
    for t in (0, 39, 40, 99):
        (x, y, _), (old_x, old_y, _) = changed.step(t), STREAM.step(t)
        np.testing.assert_array_equal(x, old_x)
        np.testing.assert_array_equal(y, (old_y + (t >= 40)) % 3)


def test_drift_mirrors_targets_and_what_came_before_and_keeps_absence() -> None:
    data = Dataset(
        "d",
        np.eye(3),
        np.array([0.0, 0.25, 1.0]),
        "regression",
        previous=np.array([np.nan, 0.0, 0.25]),
        client_ids=np.array([0, 1, 0]),
    )
    changed = drift(Stream(data, np.array([[0, 1], [-1, 1], [2, 0]])), at=1)
    assert changed.present.tolist() == [[True, True], [False, True], [True, True]]
    assert changed.step(1)[1].tolist() == [0.0, 0.75]
    assert changed.step(2)[1].tolist() == [0.0, 1.0]
    previous, ids = changed.dataset.previous, changed.dataset.client_ids
    assert previous is not None
    assert ids is not None
    assert previous[changed.order[1, 1]] == 1.0
    assert np.isnan(previous[changed.order[2, 1]])
    assert ids[changed.order[2]].tolist() == [0, 0]


def test_drift_must_come_after_the_first_step() -> None:
    with pytest.raises(InputError, match="`at` must be an integer from 1 to 99, got 0"):
        drift(STREAM, at=0)
