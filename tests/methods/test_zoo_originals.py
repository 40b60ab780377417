"""Methods of the related work against their originals' equations, as plain loops that use none of our pieces."""

from __future__ import annotations

import numpy as np
import pytest

from ofediq import methods
from ofediq.methods.registry import make
from ofediq.simulation import simulate
from ofediq.streams import Stream
from tests.methods.test_zoo import MODEL, Vector, ends_at, gradient, patchy, stream, windows

__all__ = ["patchy", "stream"]  # fixtures


def loss(w: Vector, x: Vector, y: float) -> float:
    return float((w @ np.append(x, 1.0) - y) ** 2)


# FedOMD in the original form ---------------------------------------------------------------------------------------


def exponentiated(w: Vector, step: Vector) -> Vector:
    moved = w * np.exp(-step)
    return np.asarray(moved / moved.sum())


@pytest.mark.parametrize(
    ("mirror", "average"), [("euclidean", "primal"), ("simplex", "primal"), ("simplex", "dual")]
)
def test_fedomd_predicts_with_the_moving_model(mirror: str, average: str, patchy: Stream) -> None:
    flat = mirror == "euclidean"
    w: Vector = MODEL.initial(0).astype(np.float64) if flat else np.full(MODEL.dim, 1 / MODEL.dim)
    suffered = 0.0
    for window in windows(patchy, 3):
        local = []
        for samples in filter(None, window):
            y = w.copy()
            for sample in samples:
                suffered += loss(y, *sample)
                step = 0.05 * gradient(y, *sample)
                y = y - step if flat else exponentiated(y, step)
            local.append(y)
        if local and average == "primal":
            w = np.mean(local, axis=0)
        elif local:
            product = np.exp(np.mean(np.log(local), axis=0))
            w = product / product.sum()
    text = f"fedomd_local(period=3, step_size=0.05, mirror={mirror}, average={average})"
    ends_at(text, patchy, w)
    assert simulate(make(text), patchy, MODEL).loss.sum() == pytest.approx(suffered, rel=1e-4)


def test_the_two_means_are_one_without_a_mirror(stream: Stream) -> None:
    one, other = (
        simulate(make(f"fedomd_local(period=4, step_size=0.02, average={average})"), stream, MODEL)
        for average in ("primal", "dual")
    )
    np.testing.assert_allclose(one.params, other.params, rtol=1e-5, atol=1e-6)
    paper = simulate(methods.fedomd(4, 0.02), stream, MODEL)
    np.testing.assert_allclose(one.params, paper.params, rtol=1e-5, atol=1e-6)  # learns the same
    assert one.loss.sum() < paper.loss.sum()  # and predicts with more of it
