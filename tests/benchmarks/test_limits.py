import numpy as np
import pytest

from benchmarks import limits
from benchmarks.limits import Load
from ofediq import models
from ofediq.errors import InputError


def test_the_operations_of_model_one_are_those_of_its_products() -> None:
    first, second, last = 26 * 26 * 9 * 32, 10 * 10 * 9 * 32 * 64, 5 * 5 * 64 * 10
    found = limits.work(models.cnn())
    assert found.forward == 2 * (first + second + last)
    assert found.backward == 2 * (first + 2 * second + 2 * last)


def test_a_step_has_one_forward_pass_each_and_a_backward_pass_for_senders() -> None:
    found = limits.work(models.mlp_regressor(25))
    forward = 2 * (25 * 64 + 64 * 64 + 64)
    backward = 2 * (25 * 64 + 2 * (64 * 64 + 64))
    assert found.per_step(Load(100, rate=0.3)) == pytest.approx(100 * forward + 30 * backward)
    window = found.per_step(Load(100, rate=0.5, period=4))  # three of four steps at the sender's own model
    assert window == pytest.approx(100 * forward + 50 * (backward + 0.75 * forward))


def test_bytes_are_samples_once_and_updates_twice() -> None:
    assert limits.bytes_per_step(Load(10, rate=0.2), features=7, dim=100) == 4 * (10 * 7 + 2 * 2 * 100)
    assert limits.bytes_per_step(Load(10, rate=0.2, period=4), 7, 100) == 4 * (10 * 7 + 100)


def test_a_model_from_elsewhere_has_no_known_operations() -> None:
    model = models.from_loss(lambda w, x, y: (w @ x - y) ** 2, np.zeros(3, np.float32), task="regression")
    with pytest.raises(InputError, match="stack of layers"):
        limits.work(model)
