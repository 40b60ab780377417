"""Semantics of `simulate`: reductions, presence, bits, references, checkpoints, bad input."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.errors import CheckpointError, InputError
from ofediq.methods import ClientRule, Method
from ofediq.simulation import InterruptedRunError, Result, simulate
from ofediq.simulation.engine import _Run
from ofediq.streams import Stream

SOFTMAX = models.softmax(64, 10)
OFEDIQ = methods.ofediq(0.5, levels=3, blocks=14, step_size=0.1)


def assert_identical(one: Result, other: Result) -> None:
    np.testing.assert_array_equal(one.params, other.params)
    for name in ("loss", "error", "senders", "bits_wire", "bits_formula"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_ofediq_with_everyone_and_no_quantiser_is_fedogd_exactly(digits: Stream) -> None:
    plain = methods.method(client=methods.local_ogd(0.1), server=methods.descend(0.1))
    averaged = methods.ofedavg(1.0, 0.1)
    fedogd = simulate(methods.fedogd(0.1), digits, SOFTMAX)
    for method in (plain, averaged, methods.fedomd(1, 0.1)):
        assert_identical(simulate(method, digits, SOFTMAX), fedogd)


def test_first_step_is_the_mean_gradient(digits: Stream) -> None:
    x, y, _ = digits.step(0)
    start = SOFTMAX.initial()
    expected = start - 0.1 * SOFTMAX.client_gradients(start, x, y).mean(0)
    result = simulate(methods.fedogd(0.1), digits.head(1), SOFTMAX)
    np.testing.assert_allclose(result.params, expected, rtol=1e-5, atol=1e-8)


def test_predicts_before_it_learns(digits: Stream) -> None:
    losses, errors = SOFTMAX.evaluate(SOFTMAX.initial(), *digits.step(0)[:2])
    for method in (methods.fedogd(0.1), OFEDIQ, methods.local(0.1)):
        result = simulate(method, digits, SOFTMAX)
        np.testing.assert_allclose(result.loss[0], losses.sum(), rtol=1e-6)
        assert result.error[0] == errors.sum()


def test_model_stands_still_inside_a_window_and_in_an_unfinished_one(digits: Stream) -> None:
    method = methods.fedomd(7, 0.1)  # 17 steps: two whole windows and three steps
    whole, cut = simulate(method, digits, SOFTMAX), simulate(method, digits.head(14), SOFTMAX)
    np.testing.assert_array_equal(whole.params, cut.params)
    assert np.flatnonzero(whole.senders).tolist() == [6, 13]
    before = simulate(method, digits.head(7), SOFTMAX).params
    x, y, _ = digits.step(10)
    np.testing.assert_allclose(whole.loss[10], SOFTMAX.evaluate(before, x, y)[0].sum(), rtol=1e-5)


@pytest.mark.parametrize("client", [methods.hold(), methods.local_ogd(0.1)], ids=["hold", "local"])
def test_a_window_longer_than_the_stream_has_no_more_rows_than_it(client: ClientRule, digits: Stream) -> None:
    """A hundred times as many were gone through; 2^31 - 1 of them would have ended the process."""
    found = [
        simulate(methods.method(client=client, server=methods.descend(0.1), period=period), digits, SOFTMAX)
        for period in (digits.steps + 1, 2**31 - 1)
    ]
    assert_identical(*found)
    assert found[0].bits_wire.sum() == 0


def test_an_empty_round_leaves_the_model_even_with_momentum(digits: Stream) -> None:
    method = methods.ofedavg(0.05, 0.01)
    method = replace(method, server=methods.adam(0.01))
    result = simulate(method, digits, SOFTMAX, seed=1)
    silent = int(np.flatnonzero(result.senders == 0)[0])
    assert silent > 0
    before, after = (simulate(method, digits.head(n), SOFTMAX, seed=1).params for n in (silent, silent + 1))
    np.testing.assert_array_equal(before, after)


def test_absent_clients_count_for_nothing(digits: Stream) -> None:
    order = digits.order.copy()
    order[:, 6:] = -1
    half = simulate(methods.fedogd(0.1), Stream(digits.dataset, order), SOFTMAX)
    six = simulate(methods.fedogd(0.05), Stream(digits.dataset, digits.order[:, :6].copy()), SOFTMAX)
    np.testing.assert_allclose(
        half.params, six.params, rtol=1e-4, atol=1e-7
    )  # eta / 12 against (eta / 2) / 6
    assert (half.present == 6).all()
    assert (half.senders == 6).all()


def test_bits(digits: Stream) -> None:
    result = simulate(OFEDIQ, digits, SOFTMAX)
    formula = 32 * 14 + 650 * (1 + np.log2(3 + 1))
    np.testing.assert_allclose(result.bits_formula, result.senders * formula)
    assert (result.bits_wire <= result.bits_formula).all()
    assert (result.bits_downlink == 32 * 650).all()
    assert simulate(methods.fedogd(), digits, SOFTMAX).ccr == 0.0


def test_central_reference_is_one_gradient_step_per_sample(digits: Stream) -> None:
    params = SOFTMAX.initial()
    for t in range(3):
        x, y, _ = digits.step(t)
        for k in range(digits.clients):
            params = (
                params - np.float32(0.1) * SOFTMAX.client_gradients(params, x[k : k + 1], y[k : k + 1])[0]
            )
    result = simulate(methods.ogd(0.1), digits.head(3), SOFTMAX)
    np.testing.assert_allclose(result.params, params, rtol=1e-4, atol=1e-6)
    assert result.bits_formula[0] == 12 * 32 * (64 + 1)


def test_separate_reference_learns_each_client_alone(patchy: Stream) -> None:
    result = simulate(methods.local(0.1), patchy, SOFTMAX)
    for k in (0, 5, 11):
        alone = Stream(patchy.dataset, patchy.order[:, k : k + 1].copy())
        expected = simulate(methods.fedogd(0.1), alone, SOFTMAX).params
        np.testing.assert_allclose(result.params[k], expected, rtol=1e-4, atol=1e-6)
    assert result.bits_wire.sum() == 0


def test_sampled_updates_are_unbiased(digits: Stream) -> None:
    # 200 independent runs of one step, seen along 20 random directions (a single coordinate may be sent too seldom
    # for a normal approximation): 5 standard errors each; a false alarm has probability below 2e-5, the seeds are
    # fixed.
    stream = digits.head(1)
    directions = np.random.default_rng(0).choice([-1.0, 1.0], size=(SOFTMAX.dim, 20))
    exact = simulate(methods.fedogd(0.1), stream, SOFTMAX).params @ directions
    moves = (
        np.array([simulate(OFEDIQ, stream, SOFTMAX, seed=seed).params for seed in range(200)]) @ directions
    )
    assert (np.abs(moves.mean(0) - exact) <= 5 * moves.std(0) / np.sqrt(len(moves))).all()
    assert moves.std() > 0


@pytest.mark.parametrize(
    "method",
    [
        OFEDIQ,
        methods.fedomd(3, 0.1),
        methods.local(0.1),
        methods.ogd(0.1),
        methods.with_server(OFEDIQ, methods.coin()),
    ],
)
def test_resumed_run_equals_uninterrupted_one(
    method: Method, digits: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ofediq.simulation.engine._BLOCK_STEPS", 4)
    whole = simulate(method, digits, SOFTMAX)
    file = tmp_path / "run.npz"

    def interrupt(done: int, total: int) -> None:
        if done >= 8:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError) as caught:
        simulate(method, digits, SOFTMAX, progress=interrupt, checkpoint=file)
    partial = caught.value.result
    assert partial is not None
    assert 8 <= partial.steps < 17
    np.testing.assert_array_equal(partial.loss, whole.loss[: partial.steps])
    seen: list[int] = []
    resumed = simulate(
        method, digits, SOFTMAX, checkpoint=file, resume=True, progress=lambda done, _: seen.append(done)
    )
    assert seen[0] > 8  # it did go on from there
    assert_identical(resumed, whole)


def test_ctrl_c_inside_a_block_waits_for_its_end(
    digits: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ofediq.simulation.engine._BLOCK_STEPS", 4)
    whole = simulate(OFEDIQ, digits, SOFTMAX)
    advance = _Run.advance

    def interrupted(run: _Run) -> None:
        if run.done == 4:
            signal.raise_signal(signal.SIGINT)
        advance(run)

    with monkeypatch.context() as patch:
        patch.setattr(_Run, "advance", interrupted)
        with pytest.raises(InterruptedRunError) as caught:
            simulate(OFEDIQ, digits, SOFTMAX, checkpoint=tmp_path / "run.npz")
    assert caught.value.result is not None
    assert caught.value.result.steps == 8
    assert_identical(simulate(OFEDIQ, digits, SOFTMAX, checkpoint=tmp_path / "run.npz", resume=True), whole)


def test_checkpoint_of_another_run_is_refused(digits: Stream, tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    simulate(OFEDIQ, digits, SOFTMAX, checkpoint=file, checkpoint_every=1)
    with pytest.raises(CheckpointError, match="its seed is 0, not 1"):
        simulate(OFEDIQ, digits, SOFTMAX, seed=1, checkpoint=file, resume=True)
    with pytest.raises(CheckpointError, match="its initial is None, not"):
        simulate(OFEDIQ, digits, SOFTMAX, initial=np.ones(650), checkpoint=file, resume=True)
    file.write_bytes(b"no archive")
    with pytest.raises(CheckpointError, match="cannot read checkpoint"):
        simulate(OFEDIQ, digits, SOFTMAX, checkpoint=file, resume=True)
    with pytest.raises(CheckpointError, match="cannot write checkpoint"):
        simulate(OFEDIQ, digits, SOFTMAX, checkpoint=file / "below", checkpoint_every=1)


def test_same_seed_same_run_other_seed_other_run(digits: Stream) -> None:
    assert_identical(simulate(OFEDIQ, digits, SOFTMAX, seed=5), simulate(OFEDIQ, digits, SOFTMAX, seed=5))
    other = simulate(OFEDIQ, digits, SOFTMAX, seed=6)
    assert (other.senders != simulate(OFEDIQ, digits, SOFTMAX, seed=5).senders).any()


def test_learns() -> None:
    stream = streams.partition(streams.load("digits"), clients=100, steps=150, seed=0)
    result = simulate(methods.ofediq(0.3, 3, 14, step_size=0.1), stream, SOFTMAX)
    naive = streams.naive_references(stream)
    assert result.accuracy[-1] > naive["majority"][-1] + 0.5
    assert result.accuracy[-1] > simulate(methods.local(0.1), stream, SOFTMAX).accuracy[-1]


def test_divergence_is_told(regression: Stream) -> None:
    result = simulate(methods.fedogd(50.0), regression, models.mlp_regressor(5))
    assert result.diverged
    assert result.summary()["mse"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model": models.linear(64)},
            "`model` must be for a classification task like the stream, got a regression",
        ),
        ({"model": models.softmax(5, 10)}, r"`model` must take samples of shape \[8, 8\]"),
        ({"model": models.softmax(64, 9)}, "`model` must score 10 classes like the stream, got 9"),
        ({"seed": -1}, "`seed` must be an integer from 0 to 4294967295, got -1"),
        ({"initial": np.zeros(3)}, r"`initial` must be 650 finite numbers, got shape \[3\]"),
        ({"initial": np.full(650, np.nan)}, "`initial` must be 650 finite numbers"),
        ({"method": methods.ofedavg([0.5, 0.5])}, r"`rate` must have one entry per client \(12\), got 2"),
        ({"method": methods.ofediq(0.5, 3, 651)}, "`blocks` must be an integer from 1 to 650, got 651"),
    ],
)
def test_bad_input(change: dict[str, object], message: str, digits: Stream) -> None:
    arguments = {"method": OFEDIQ, "stream": digits, "model": SOFTMAX, **change}
    with pytest.raises(InputError, match=message):
        simulate(**arguments)  # type: ignore[arg-type]  # wrong on purpose
