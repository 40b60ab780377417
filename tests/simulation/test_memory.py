"""Memories of clients in a run: what does not fit is refused, and a combination may look at every message."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.arrays import namespace
from ofediq.errors import InputError
from ofediq.methods import Combine
from ofediq.methods.zoo.scaffold import scaffold
from ofediq.methods.zoo.topk_ef import topk_ef
from ofediq.simulation import InterruptedRunError, client_mesh, engine, fit, reference, simulate
from ofediq.streams import Dataset, Stream

SOFTMAX = models.softmax(64, 10)
TOPK, SCAFFOLD = topk_ef(keep=20, rate=0.5, step_size=0.1), scaffold(period=3, rate=0.6, step_size=0.1)


@dataclass(frozen=True)
class Median(Combine):
    """The coordinate-wise median of the messages, times their number."""

    def total(self, messages: Any, sent: Any) -> Any:
        xp = namespace(messages)
        middle = xp.nanmedian(xp.where(sent[:, None], messages, np.float32(np.nan)), axis=0)
        return xp.where(sent.any(), middle * sent.sum(), np.float32(0)).astype(np.float32)


def test_a_combination_sees_every_message(digits: Stream) -> None:
    method = replace(methods.ofedavg(0.6, 0.1), combine=Median())
    fast, slow = simulate(method, digits, SOFTMAX, seed=7), reference(method, digits, SOFTMAX, seed=7)
    np.testing.assert_array_equal(fast.senders, slow.senders)
    np.testing.assert_allclose(fast.params, slow.params, rtol=2e-4, atol=2e-6)
    plain = simulate(methods.ofedavg(0.6, 0.1), digits, SOFTMAX, seed=7)
    assert not np.allclose(fast.params, plain.params, atol=1e-3)
    with pytest.raises(InputError, match="`mesh` must be None for 'OFedAvg', whose server looks at every"):
        simulate(method, digits, SOFTMAX, mesh=client_mesh(1))


def test_memories_that_do_not_fit_are_refused_with_their_bytes(
    digits: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "memory_bytes", lambda: 10_000)
    each = 4 * SOFTMAX.dim
    sentence = (
        f"{digits.clients} memories of {each:,} bytes are {digits.clients * each:,} bytes, and 5,000 fit"
    )
    with pytest.raises(InputError, match=sentence):
        simulate(TOPK, digits, SOFTMAX)
    simulate(methods.fedogd(0.1), digits, SOFTMAX)  # nothing to remember, nothing to refuse


@pytest.mark.parametrize("method", [TOPK, SCAFFOLD], ids=["topk_ef", "scaffold"])
def test_a_resumed_run_remembers(
    method: methods.Method, digits: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_BLOCK_STEPS", 6)
    whole, file = simulate(method, digits, SOFTMAX), tmp_path / "run.npz"

    def interrupt(done: int, total: int) -> None:
        if done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        simulate(method, digits, SOFTMAX, progress=interrupt, checkpoint=file)
    resumed = simulate(method, digits, SOFTMAX, checkpoint=file, resume=True)
    np.testing.assert_array_equal(resumed.params, whole.params)
    np.testing.assert_array_equal(resumed.loss, whole.loss)


def test_scaffold_finds_the_optimum_where_fedavg_drifts() -> None:
    # (w - 1)^2 and (3 w)^2: the sum is least at 1/10. With eight local steps of 0.05 the first client goes 1 - 0.9^8
    # of its way to 1 and the second all of its way to 0, so FedAvg rests where w is the mean of both.
    data = Dataset(
        "two", np.array([[1.0], [3.0]], np.float32), np.array([1.0, 0.0], np.float32), "regression"
    )
    stream, model = (
        Stream(data, np.tile(np.arange(2, dtype=np.int32), (800, 1))),
        models.linear(1, intercept=False),
    )
    average, controlled = (
        float(simulate(methods.make(f"{name}(period=8, step_size=0.05)"), stream, model).params[0])
        for name in ("fedavg", "scaffold")
    )
    near, far = 0.9**8, 0.1**8
    assert average == pytest.approx((1 - near) / (2 - near - far), abs=1e-3)
    assert controlled == pytest.approx(0.1, abs=1e-3)
