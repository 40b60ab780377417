from __future__ import annotations

import jax
import numpy as np
import pytest

from ofediq.codec import Rotation
from ofediq.errors import InputError
from ofediq.methods import rotate
from ofediq.randomness import Address

UPDATES = np.random.default_rng(0).standard_normal((2, 9000)).astype(np.float32) ** 3
IDS = np.array([4, 9])
KINDS: tuple[Rotation, ...] = ("dither", "nearest")


@pytest.mark.parametrize("rotation", KINDS)
@pytest.mark.parametrize("bits", [1, 4])
def test_apply_and_message_agree(bits: int, rotation: Rotation) -> None:
    piece = rotate(bits, rotation)
    sent, counted = piece.apply(UPDATES, Address(3, 17, IDS))
    scale = np.linalg.norm(UPDATES[0]) / np.sqrt(9000)
    for row, client in enumerate(IDS.tolist()):
        message = piece.encode(UPDATES[row], Address(3, 17, client))
        received = piece.decode(message, 9000, Address(3, 17, client))
        far = np.abs(sent[row] - received) > 0.01 * scale  # a symbol may tip over by rounding
        assert far.mean() < 0.001
        assert counted[row] == pytest.approx(message.bits, rel=0.01)


@pytest.mark.parametrize("rotation", KINDS)
def test_numpy_and_jax_agree(rotation: Rotation) -> None:
    piece = rotate(2, rotation)
    updates = UPDATES[:, :700]
    here, bits = piece.apply(updates, Address(3, 17, IDS))
    there, traced = jax.jit(lambda rows: piece.apply(rows, Address(3, 17, IDS)))(updates)
    scale = np.linalg.norm(updates[0]) / np.sqrt(700)
    assert (np.abs(here - there) > 0.01 * scale).mean() < 0.01
    np.testing.assert_allclose(bits, traced, rtol=0.01)


@pytest.mark.parametrize("bits", [1, 2])
def test_the_mean_over_steps_is_the_update(bits: int) -> None:
    """Deterministic; 5 standard errors, so that another seed would fail once in about 10^5."""
    count = 3000
    update = np.zeros(24, np.float32)
    update[:3] = 1, 0.5, -0.1  # few large coordinates, where deterministic rounding has a bias
    rows = np.tile(update, (count, 1))
    sent, _ = rotate(bits).apply(rows, Address(0, 1, np.arange(count)))
    errors = (sent - update).mean(0) / (sent.std(0) / np.sqrt(count))
    assert np.abs(errors).max() < 5


def test_no_formula_and_bad_arguments() -> None:
    assert np.isnan(rotate(2).formula_bits(100))
    with pytest.raises(InputError, match="`bits` must be an integer from 1 to 4, got 0"):
        rotate(0)
