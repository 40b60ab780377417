from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.streams import Stream

from .made import make_dataset

DATA = make_dataset(samples=6, classes=None)


def test_step_gives_samples_targets_and_presence() -> None:
    stream = Stream(DATA, np.array([[0, 1, 2], [5, -1, 3]]))
    x, y, present = stream.step(1)
    assert x[:, 0].tolist() == [5, 0, 3]
    assert y.tolist() == [5, 0, 3]
    assert present.tolist() == [True, False, True]
    assert (stream.steps, stream.clients, stream.complete) == (2, 3, False)


def test_a_step_never_changes_the_dataset() -> None:
    stream = Stream(DATA, np.array([[-1, 0]]))
    stream.step(0)
    assert DATA.y.tolist() == [0, 1, 2, 3, 4, 5]


def test_head_keeps_the_first_steps_without_a_copy() -> None:
    stream = Stream(DATA, np.arange(6).reshape(3, 2))
    head = stream.head(2)
    assert head.order.tolist() == [[0, 1], [2, 3]]
    assert np.shares_memory(head.order, stream.order)


def test_fingerprint_depends_on_samples_targets_order_and_classes() -> None:
    data = make_dataset(samples=4, classes=2)
    order = np.arange(4).reshape(2, 2)
    streams = [
        Stream(data, order),
        Stream(data, order[::-1]),
        Stream(data, order.reshape(4, 1)),
        Stream(replace(data, x=data.x + 1), order),
        Stream(replace(data, y=1 - data.y), order),
        Stream(replace(data, classes=3), order),
    ]
    prints = [stream.fingerprint() for stream in streams]
    assert len(set(prints)) == len(prints)
    assert Stream(make_dataset(samples=4, classes=2), order).fingerprint() == prints[0]


@pytest.mark.parametrize(
    "order",
    [np.array([0, 1]), np.empty((0, 2), int), np.array([[0.0]]), np.array([[6]]), np.array([[-2]])],
    ids=["one axis", "no steps", "floats", "index too large", "index too small"],
)
def test_bad_order_is_named(order: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
    with pytest.raises(InputError, match="`order` must"):
        Stream(DATA, order)


def test_steps_outside_the_stream_are_refused() -> None:
    stream = Stream(DATA, np.array([[0]]))
    with pytest.raises(InputError, match="`t` must be an integer from 0 to 0, got 1"):
        stream.step(1)
    with pytest.raises(InputError, match="`steps` must be an integer from 1 to 1, got 2"):
        stream.head(2)
