"""Noise has the scale that the accountant asks for, and no stream can move a sum by more than the sensitivity."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from ofediq import methods, models, simulate, streams
from ofediq.codec.skellam import secret_skellam, skellam
from ofediq.errors import InputError
from ofediq.federation import Rules, coordinate
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import Terms, combine_rule, with_combine
from ofediq.methods.compress import Addable, additive
from ofediq.methods.pieces import describe, restore
from ofediq.methods.privacy import promise_of
from ofediq.methods.registry import make
from ofediq.randomness import Address, Purpose, stream_key
from ofediq.simulation.oracle import reference
from ofediq.theory.privacy import skellam_epsilon, skellam_variance

Vectors = npt.NDArray[np.float32]


# The accountant -------------------------------------------------------------------------------------------------


def gaussian_noise(epsilon: float, delta: float) -> float:
    """B. Balle, Y. Wang: Improving the Gaussian Mechanism, 2018, Theorem 8."""

    def exact(sigma: float) -> float:
        low, high = -1 / (2 * sigma) + epsilon * sigma, 1 / (2 * sigma) + epsilon * sigma
        return float(stats.norm.sf(low) - math.exp(epsilon) * stats.norm.sf(high)) - delta

    return float(optimize.brentq(exact, 1e-2, 1e3))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_skellam_noise_is_never_below_the_gaussian_and_near_it_on_a_fine_grid(epsilon: float) -> None:
    square = 10**6  # sensitivity of 1000 steps
    ratio = math.sqrt(skellam_variance(epsilon, 1e-5, square, 100) / square) / gaussian_noise(epsilon, 1e-5)
    assert 1 <= ratio < 1.12  # Renyi's conversion costs some per cent


@pytest.mark.parametrize("square", [1, 4, 30])
def test_the_claimed_epsilon_bounds_the_real_one_of_one_coordinate(square: int) -> None:
    """The privacy loss of one whole number with Skellam noise, term by term."""
    shift, variance, delta = math.isqrt(square), 3.0 * square, 1e-5
    claimed = skellam_epsilon(variance, square, 1, delta)
    span = np.arange(-400, 401)
    here, there = (stats.skellam.pmf(span - by, variance / 2, variance / 2) for by in (0, shift))
    for one, other in ((here, there), (there, here)):
        assert np.maximum(one - math.exp(claimed) * other, 0).sum() <= delta


def test_a_member_costs_more_noise_than_a_sample() -> None:
    sample = make("private(keep=50, senders=20)")
    member = make("private(keep=50, senders=20, unit=member, steps=100, groups=4)")
    assert _noise(member) > 20 * _noise(sample)  # 25 releases
    with pytest.raises(InputError, match="`steps` must be given to keep a promise for each member"):
        make("private(keep=50, senders=20, unit=member)")


# The noise ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [0.01, 0.7, 5.0, 2000.0])
@pytest.mark.parametrize("secret", [False, True])
def test_noise_is_skellam(variance: float, secret: bool) -> None:
    count = 200_000
    if secret:
        drawn = secret_skellam(count, variance)
    else:
        drawn = skellam(stream_key(3, 1, np.arange(2), Purpose.NOISE), count // 2, variance).ravel()
    law = stats.skellam(variance / 2, variance / 2)
    edges = np.unique(law.ppf([0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999]))
    for edge in edges:
        share = float((drawn <= edge).mean())
        assert abs(share - law.cdf(edge)) < 6 * math.sqrt(law.cdf(edge) * law.sf(edge) / count) + 1e-9
    assert drawn.var() == pytest.approx(variance, rel=6 * math.sqrt((2 + 1 / variance) / count))


def test_noise_of_a_sum_is_what_the_accountant_asked_for() -> None:
    method = make("private(keep=300, senders=40, epsilon=2.0, least=40)")
    piece = method.compress
    assert isinstance(piece, Addable)
    zeros = np.zeros((40, 300), np.float32)
    sums = [piece.symbols(zeros, Address(0, step, np.arange(40))).sum(0) for step in range(1, 61)]
    variance = skellam_variance(2.0, 1e-5, piece.sensitivity, 300)
    assert np.var(sums) == pytest.approx(variance, rel=6 * math.sqrt(2 / 18_000))
    assert abs(np.mean(sums)) < 6 * math.sqrt(variance / 18_000)


def test_a_device_draws_noise_that_nobody_can_repeat() -> None:
    piece, address = additive(50, 1.0, 8, noise=4.0), Address(0, 1, 3)
    assert piece.encode(np.zeros(60), address) == piece.encode(np.zeros(60), address)
    device = piece.on_device()
    assert device.encode(np.zeros(60), address) != device.encode(np.zeros(60), address)
    assert restore(describe(device), methods.Compressor) == piece  # the task that a server announces


# The sensitivity ------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    data=st.data(),
    keep=st.integers(1, 40),
    clip=st.floats(1e-3, 1e3),
    shape=st.sampled_from(["normal", "spike", "equal", "half"]),
    scale=st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1e3, 1e30]),
)
def test_no_update_moves_a_sum_by_more_than_the_sensitivity(
    data: st.DataObject, keep: int, clip: float, shape: str, scale: float
) -> None:
    """Neighbours differ in one message, which is zero in one of them: what it adds is what it may hide."""
    dim = data.draw(st.integers(keep, 60))
    address = Address(data.draw(st.integers(0, 9)), data.draw(st.integers(1, 99)), np.arange(3))
    piece = additive(keep, clip, senders=20)
    update = {
        "normal": np.random.default_rng(keep).standard_normal((3, dim)),
        "spike": np.eye(3, dim),
        "equal": np.ones((3, dim)),
        "half": np.full((3, dim), (1 + 1e-3) * clip / 2),  # halfway between two points of the grid, or close
    }[shape]
    with np.errstate(over="ignore"):
        rounded = piece.rounded((scale * update).astype(np.float32), address).astype(np.int64)
    assert (rounded**2).sum(-1).max() <= piece.sensitivity
    assert np.abs(rounded).max() * piece.senders < 2 ** (piece.bits - 1)


def test_a_sample_can_move_nothing_but_the_sum_of_its_own_step() -> None:
    """Neighbouring streams, up to the step in which they differ and at the first sum after it."""
    stream = streams.synthetic(task="classification", clients=6, steps=20, features=8, classes=3, seed=1)
    model = models.softmax(8, 3)
    method = make("private(keep=20, senders=6, epsilon=1.0, least=1, step_size=0.1)")
    order = stream.order.copy()
    order[9, 2] = -1  # one sample less
    neighbour = streams.Stream(stream.dataset, order)
    here, there = (simulate(method, one.head(9), model).params for one in (stream, neighbour))
    assert (here == there).all()
    assert (simulate(method, stream.head(10), model).params != here).any()


# The method -----------------------------------------------------------------------------------------------------


def test_simulator_and_plain_loop_agree() -> None:
    stream = streams.synthetic(task="classification", clients=8, steps=30, features=8, classes=3, seed=1)
    model = models.softmax(8, 3)
    for text in (
        "private(keep=12, senders=8, epsilon=8.0, clip=1.0, step_size=0.05)",
        "secure(keep=12, senders=4, groups=2, clip=1.0, step_size=0.05)",
    ):
        fast, plain = simulate(make(text), stream, model), reference(make(text), stream, model)
        np.testing.assert_allclose(fast.params, plain.params, rtol=1e-4, atol=1e-5)
        assert (fast.bits_wire == plain.bits_wire).all()
        assert (fast.senders == plain.senders).all()


def test_a_round_of_too_few_moves_nothing() -> None:
    stream = streams.synthetic(task="classification", clients=6, steps=5, features=4, classes=2, seed=1)
    model = models.softmax(4, 2)
    lost = make("private(keep=10, senders=7, least=7, step_size=0.1)")
    assert (simulate(lost, stream, model).params == model.initial(0)).all()
    kept = make("private(keep=10, senders=7, least=6, step_size=0.1)")
    assert (simulate(kept, stream, model).params != model.initial(0)).any()


def test_a_promise_for_members_ends() -> None:
    stream = streams.synthetic(task="classification", clients=6, steps=9, features=4, classes=2, seed=1)
    model = models.softmax(4, 2)
    method = make("private(keep=10, senders=6, unit=member, steps=4, step_size=0.1)")
    ends = [simulate(method, stream.head(steps), model).params for steps in (3, 4, 9)]
    assert (ends[0] != ends[1]).any()
    assert (ends[1] == ends[2]).all()


def test_everyone_has_its_turn() -> None:
    rule = methods.in_turns(5)
    drawn = np.array([rule.active(7, step, np.arange(23), 23) for step in range(1, 101)])
    assert (drawn.sum(0) == 20).all()
    assert set(drawn.sum(1)) == {4, 5}


def test_a_budget_buys_coordinates_and_what_is_promised_is_known() -> None:
    terms = Terms(0.01, dim=7850, clients=1000, steps=300, epsilon=2.0, delta=1e-6)
    method = make("private", terms)
    promise = promise_of(method)
    assert promise is not None
    assert (promise.epsilon, promise.delta) == (2.0, 1e-6)
    piece = method.compress
    assert isinstance(piece, Addable)
    share = 8 * piece.payload_bytes * piece.senders / terms.bits_per_step
    assert 0.95 < share <= 1
    variance = piece.noise * method.server.least  # type: ignore[attr-defined]  # `Promised`
    assert skellam_epsilon(variance, piece.sensitivity, piece.keep, 1e-6) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("epsilon=abc", "`epsilon` must be a finite number > 0, got 'abc'"),
        ("epsilon=0", "`epsilon` must be a finite number > 0, got 0"),
        ("epsilon=0.001", "`epsilon` must be larger: its noise does not fit into the messages of 7 members"),
        ("delta=1", r"`delta` must lie in \(0, 1\), got 1"),
        ("unit=house", "`unit` must be one of sample, member, got 'house'"),
        ("least=9", "`least` must be an integer from 1 to 8, got 9"),
        ("clip=0", "`clip` must be a finite number > 0, got 0"),
        ("groups=0", "`groups` must be an integer >= 1, got 0"),
    ],
)
def test_bad_promises(given: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(f"private(keep=10, senders=8, {given})")


def _noise(method: methods.Method) -> float:
    assert isinstance(method.compress, Addable)
    return method.compress.noise


def test_who_sends_must_not_tell_about_updates() -> None:
    open_, closed = make("ofedgrid(bits_per_step=1e4)"), make("private(keep=50, senders=20)")
    with pytest.raises(InputError, match="`participation` must not look at updates in a private method"):
        replace(
            open_,
            server=replace(closed.server, inner=open_.server),  # type: ignore[type-var]  # `Promised`
        )


@pytest.mark.parametrize("rule", ["guard", "krum", "trimmed_mean"])
def test_what_is_not_a_sum_has_too_little_noise(rule: str) -> None:
    """A message alone has one of `least` parts of it, and so has whatever follows a few of them."""
    with pytest.raises(InputError, match="`combine` must be sum in a private method"):
        with_combine(make("private(keep=50, senders=20)"), combine_rule(rule))


def test_a_live_server_weighs_no_message_that_has_a_part_of_the_noise() -> None:
    spec, rules = ModelSpec("linear", (9,), "regression"), Rules()
    for key, clip in (("private(keep=5, senders=8)", None), ("secure(keep=5, senders=8)", rules.clip)):
        assert coordinate("f", make(key), spec, rules).tally.guard.clip == clip


def test_a_promise_of_nearly_nothing_needs_nearly_no_noise() -> None:
    assert 0 < _noise(make("private(keep=10, senders=8, epsilon=1e300)")) < 1e-3
