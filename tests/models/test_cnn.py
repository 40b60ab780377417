from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from ofediq.errors import InputError
from ofediq.models import Network, cnn

SIZES = [(9, 32), (9 * 32, 64)]  # 3x3 filters: inputs and outputs of the two convolutions


def pool(maps: jax.Array, order: tuple[int, ...]) -> jax.Array:
    """2x2 max-pooling; among equals the corner that comes first in `order` wins, and gets the gradient."""
    rows, columns = (side // 2 * 2 for side in maps.shape[:2])
    corners = jnp.stack([maps[i:rows:2, j:columns:2] for i in range(2) for j in range(2)])[jnp.array(order)]
    return jnp.take_along_axis(corners, corners.argmax(0)[None], axis=0)[0]


def loss(
    params: jax.Array, image: jax.Array, label: jax.Array, classes: int, order: tuple[int, ...] = (0, 1, 2, 3)
) -> jax.Array:
    """Model I from the paper's text, on XLA's own convolution."""
    hidden, start = image[None, :, :, None], 0
    for fan_in, fan_out in SIZES:
        cut = start + fan_in * fan_out
        filters = params[start:cut].reshape(3, 3, fan_in // 9, fan_out)
        maps = jax.lax.conv_general_dilated(
            hidden, filters, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        hidden = pool(jax.nn.relu(maps[0] + params[cut : cut + fan_out]), order)[None]
        start = cut + fan_out
    flat = hidden.reshape(-1)
    cut = start + flat.size * classes
    scores = flat @ params[start:cut].reshape(flat.size, classes) + params[cut:]
    return -jax.nn.log_softmax(scores)[label]


def images(model: Network, count: int = 3) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    x = np.random.default_rng(0).random((count, *model.shape)).astype(np.float32)
    return x, np.arange(count, dtype=np.int32)


def test_dimension_of_the_paper() -> None:
    assert cnn().dim == 34_826


@pytest.mark.parametrize("model", [cnn(), cnn(11, 14, classes=3)], ids=["28x28", "odd sides"])
def test_losses_and_gradients_are_those_of_jax(model: Network) -> None:
    x, y = images(model)
    params = model.initial(0)
    one = jax.value_and_grad(partial(loss, classes=model.outputs))
    losses, gradients = jax.jit(jax.vmap(one, (None, 0, 0)))(jnp.asarray(params), x, y)
    np.testing.assert_allclose(model.evaluate(params, x, y)[0], losses, rtol=1e-5)
    np.testing.assert_allclose(model.client_gradients(params, x, y), gradients, rtol=1e-3, atol=1e-6)


def test_equal_values_in_a_pool_give_the_gradient_to_the_first() -> None:
    """With empty first filters every pool ties, and the patches still differ: who wins shows in the gradient."""
    model = cnn(10, 10, classes=3)
    x, y = images(model, count=1)
    params = model.initial(0)
    params[: 9 * 32], params[9 * 32 : 10 * 32] = 0.0, 1.0
    found = model.client_gradients(params, x, y)[0]
    first, last = (
        jax.jit(jax.grad(partial(loss, classes=3, order=order)))(jnp.asarray(params), x[0], y[0])
        for order in ((0, 1, 2, 3), (3, 2, 1, 0))
    )
    np.testing.assert_allclose(found, first, rtol=1e-3, atol=1e-6)
    assert np.abs(found - last).max() > 0.01 * np.abs(found).max()


def test_glorot_start() -> None:
    """r = sqrt(6 / (in + out)), where a filter's fans are its 9 places times the channels on either side."""
    model = cnn()
    params, start = model.initial(2), 0
    for fan_in, outputs, fan_out in ((9, 32, 9 * 32), (9 * 32, 64, 9 * 64), (1600, 10, 10)):
        cut, limit = start + fan_in * outputs, np.sqrt(6 / (fan_in + fan_out))
        assert 0.9 * limit < np.abs(params[start:cut]).max() <= limit
        assert not params[cut : cut + outputs].any()
        start = cut + outputs
    assert (params != model.initial(3)).any()


@pytest.mark.parametrize(("height", "width", "name"), [(9, 28, "height"), (28, 9, "width")])
def test_small_images_are_refused(height: int, width: int, name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}` must be at least 10 .* got 9"):
        cnn(height, width)
