from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.errors import DataError, InputError
from ofediq.streams import KINDS, Dataset, partition
from ofediq.streams.partitioning import Kind

from .made import make_dataset

sizes = st.integers(1, 40)
REPEATING: list[Kind] = ["random", "passes", "sequential"]
DEALT: list[Kind] = [*REPEATING, "dirichlet", "label"]


@given(samples=sizes, clients=sizes, steps=sizes, seed=st.integers(0, 2**32), kind=st.sampled_from(REPEATING))
def test_each_sample_is_used_equally_often_up_to_one(
    samples: int, clients: int, steps: int, seed: int, kind: Kind
) -> None:
    order = partition(make_dataset(samples), clients, steps, kind=kind, seed=seed).order
    uses = np.bincount(order.ravel(), minlength=samples)
    assert order.shape == (steps, clients)
    assert uses.min() == clients * steps // samples
    assert uses.max() - uses.min() <= 1


@given(samples=sizes, clients=sizes, steps=sizes, seed=st.integers(0, 100))
def test_no_sample_comes_twice_within_a_pass(samples: int, clients: int, steps: int, seed: int) -> None:
    deck = partition(make_dataset(samples), clients, steps, kind="passes", seed=seed).order.ravel()
    for start in range(0, len(deck), samples):
        one_pass = deck[start : start + samples]
        assert len(np.unique(one_pass)) == len(one_pass)


def test_random_mixes_the_repetitions() -> None:
    """Shuffled as a whole, the first N of 2N cards hold duplicates; in passes they cannot."""
    order = partition(make_dataset(60), 30, 4, kind="random").order
    assert len(np.unique(order[:2])) < 60


def test_sequential_follows_the_source_and_starts_again() -> None:
    assert partition(make_dataset(5), 2, 3, kind="sequential").order.tolist() == [[0, 1], [2, 3], [4, 0]]


@pytest.mark.parametrize("kind", DEALT)
def test_by_default_one_pass_in_whole_steps(kind: Kind) -> None:
    assert partition(make_dataset(60), 7, kind=kind).steps == 8


@pytest.mark.parametrize("kind", ["random", "passes", "dirichlet", "label"])
def test_the_seed_decides_everything(kind: Kind) -> None:
    orders = [partition(make_dataset(60), 5, 20, kind=kind, seed=seed).order for seed in (1, 1, 2)]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert (orders[0] != orders[2]).any()


def _largest_label_share(alpha: float) -> float:
    data = make_dataset(600, classes=6)
    labels = data.y[partition(data, 50, 100, kind="dirichlet", alpha=alpha).order]
    return float(np.mean([np.bincount(column).max() / 100 for column in labels.T]))


def test_smaller_alpha_means_fewer_labels_per_client() -> None:
    shares = [_largest_label_share(alpha) for alpha in (0.01, 0.1, 1.0, 100.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9  # nearly one label per client
    assert shares[-1] < 2 / 6  # near the even share of 1/6


def test_dirichlet_keeps_the_mix_of_labels_on_average() -> None:
    """E q_k is the prior: over 2,000 clients the share of a label is normal around it.

    Var(q) <= prior (1 - prior) / (1 + alpha * classes) plus the draw itself; five standard deviations.
    """
    y = np.repeat([0, 1], [900, 100])
    data = Dataset("uneven", y[:, None], y, "classification")
    stream = partition(data, 2_000, 20, kind="dirichlet", alpha=0.5)
    variance = 0.9 * 0.1 * (1 / (1 + 0.5 * 2) + 1 / 20) / 2_000
    assert abs(data.y[stream.order].mean() - 0.1) < 5 * variance**0.5


@given(
    classes=st.integers(2, 12), labels=st.integers(1, 12), clients=st.integers(1, 60), seed=st.integers(0, 50)
)
def test_label_gives_each_client_exactly_its_labels_equally_often(
    classes: int, labels: int, clients: int, seed: int
) -> None:
    labels = min(labels, classes)
    data = make_dataset(5 * classes, classes)
    seen = data.y[partition(data, clients, 3 * labels, kind="label", seed=seed, labels=labels).order]
    for column in seen.T:
        counts = np.bincount(column, minlength=classes)
        assert sorted(counts)[-labels:] == [3] * labels


def test_label_spreads_the_labels_evenly_over_the_clients() -> None:
    data = make_dataset(100, classes=10)
    seen = data.y[partition(data, 50, 2, kind="label", labels=2).order]
    assert np.bincount(seen.ravel()).tolist() == [10] * 10


@pytest.mark.parametrize("kind", ["dirichlet", "label"])
def test_samples_of_a_label_are_used_equally_often_up_to_one(kind: Kind) -> None:
    data = make_dataset(30, classes=3)
    uses = np.bincount(partition(data, 11, 17, kind=kind, seed=3).order.ravel(), minlength=30)
    for label in range(3):
        assert np.ptp(uses[data.y == label]) <= 1


def test_regression_targets_are_grouped_by_size() -> None:
    data = make_dataset(100, classes=None)
    seen = data.y[partition(data, 20, 30, kind="label", labels=1).order]
    assert (np.ptp(seen, axis=0) < 10).all()  # one decile of 0..99 each


def _with_clients(ids: list[int]) -> Dataset:
    size = len(ids)
    return Dataset("c", np.eye(size), np.arange(size), "regression", client_ids=np.array(ids))


def test_column_keeps_the_order_of_the_file() -> None:
    stream = partition(_with_clients([1, 0, 1, 1, 0]), kind="column")
    assert stream.order.tolist() == [[1, 0], [-1, 2], [4, 3]]


def test_column_takes_the_first_clients_and_steps_when_asked() -> None:
    data = _with_clients([1, 0, 1, 1, 0])
    assert partition(data, clients=1, kind="column").order.tolist() == [[1], [4]]
    assert partition(data, steps=1, kind="column").order.tolist() == [[1, 0]]


def test_column_needs_client_ids() -> None:
    with pytest.raises(DataError, match="'made' does not say which client a sample belongs to"):
        partition(make_dataset(), kind="column")


def test_column_does_not_invent_clients_or_steps() -> None:
    data = _with_clients([0, 1, 1])
    with pytest.raises(InputError, match="`clients` must be an integer from 1 to 2, got 3"):
        partition(data, clients=3, kind="column")
    with pytest.raises(InputError, match="`steps` must be an integer from 1 to 2, got 5"):
        partition(data, steps=5, kind="column")


rows_of_clients = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=40)


@given(rows=rows_of_clients, timed=st.booleans())
def test_column_lets_no_prediction_see_a_later_row(rows: list[tuple[int, int]], timed: bool) -> None:
    """What the model has learnt from at step t are the rows of earlier steps: none may be later in the source."""
    clients = np.unique([client for client, _ in rows], return_inverse=True)[1]
    moments = np.array([moment for _, moment in rows]) if timed else None
    size = len(rows)
    data = Dataset("c", np.eye(size), np.arange(size), "regression", client_ids=clients, time=moments)
    order = partition(data, kind="column").order
    seen = [order[t][order[t] >= 0] for t in range(len(order))]
    assert sorted(np.concatenate(seen).tolist()) == list(range(size))
    in_pieces = np.count_nonzero(np.diff(clients)) > clients.max()
    if timed or in_pieces:
        clock = np.arange(size) if moments is None else moments
        for earlier, later in itertools.pairwise(seen):
            assert clock[earlier].max() <= clock[later].min()


def test_a_client_that_comes_late_starts_late() -> None:
    ids, time = [0] * 50 + [1], [*range(50), 49]
    size = len(ids)
    data = Dataset("late", np.eye(size), np.arange(size), "regression", client_ids=ids, time=time)  # type: ignore[arg-type]  # lists are converted
    stream = partition(data, kind="column")
    assert stream.order[:49, 1].tolist() == [-1] * 49
    assert stream.order[49].tolist() == [49, 50]


def test_clients_with_clocks_of_their_own_share_steps() -> None:
    """Twenty sensors, each a millisecond after the one before: a step per moment would be nearly empty."""
    ids = np.tile(np.arange(20), 5)
    data = Dataset("clocks", np.eye(100), np.arange(100), "regression", client_ids=ids, time=np.arange(100))
    assert partition(data, kind="column").order.tolist() == np.arange(100).reshape(5, 20).tolist()


def test_stretches_are_pieces_of_the_source_in_its_order() -> None:
    assert partition(make_dataset(7), 3, kind="stretches").order.T.tolist() == [
        [0, 1, -1],
        [2, 3, -1],
        [4, 5, 6],
    ]


def test_a_stream_that_cannot_fit_is_refused_with_its_size() -> None:
    with pytest.raises(InputError, match=r"`clients` x `steps` must fit in memory .* takes 111,759 GiB"):
        partition(make_dataset(60), 10**11, 300)


def test_bad_arguments_are_named() -> None:
    data = make_dataset(60)
    with pytest.raises(InputError, match=r"`clients` must be at most 60 .* got 61"):
        partition(data, 61)
    with pytest.raises(InputError, match="`clients` must be given for a 'random' partition"):
        partition(data)
    with pytest.raises(InputError, match="`clients` must be an integer >= 1, got 0"):
        partition(data, 0)
    with pytest.raises(InputError, match="`steps` must be an integer >= 1, got 0"):
        partition(data, 2, 0)
    with pytest.raises(InputError, match="`alpha` must be a finite number > 0, got 0"):
        partition(data, 2, kind="dirichlet", alpha=0)
    with pytest.raises(InputError, match="`labels` must be an integer from 1 to 3, got 4"):
        partition(data, 2, kind="label", labels=4)
    with pytest.raises(InputError, match="`seed` must be an integer >= 0, got -1"):
        partition(data, 2, seed=-1)
    with pytest.raises(InputError, match=f"`kind` must be one of {', '.join(KINDS)}, got 'iid'"):
        partition(data, 2, kind="iid")  # type: ignore[arg-type]  # the wrong type is the point
