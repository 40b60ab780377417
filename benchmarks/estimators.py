"""Our estimators on River's own streams, beside River's linear models: `python -m benchmarks estimators`.

Nothing is set: ten clients at a tenth of the bits, and one client with FedOGD. River's models stand behind a
`StandardScaler` and one-hot texts. Accuracy in per cent, or mean absolute error, over the first 2,000 samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from river import compose, datasets, linear_model, metrics, preprocessing
from river.datasets import synth

from benchmarks import table
from ofediq.river import FederatedClassifier, FederatedRegressor

MOST = 2000


def months() -> Iterator[tuple[dict[str, int], Any]]:
    """Airline passengers by month and year: a date is no number."""
    for x, y in datasets.AirlinePassengers():
        yield {"month": x["month"].month, "year": x["month"].year}, y


STREAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "Phishing": (datasets.Phishing, "labels"),
    "Bananas": (datasets.Bananas, "labels"),
    "ImageSegments": (datasets.ImageSegments, "many labels"),
    "SEA": (lambda: synth.SEA(seed=1), "labels"),
    "Agrawal": (lambda: synth.Agrawal(seed=1), "labels"),
    "Hyperplane": (lambda: synth.Hyperplane(seed=1, n_features=10, mag_change=0.001), "labels"),
    "LEDDrift": (lambda: synth.LEDDrift(seed=1), "many labels"),
    "STAGGER": (lambda: synth.STAGGER(seed=1), "labels"),
    "Sine": (lambda: synth.Sine(seed=1), "labels"),
    "TrumpApproval": (datasets.TrumpApproval, "numbers"),
    "AirlinePassengers": (months, "numbers"),
    "ChickWeights": (datasets.ChickWeights, "numbers"),
    "Friedman": (lambda: synth.Friedman(seed=1), "numbers"),
    "Planes2D": (lambda: synth.Planes2D(seed=1), "numbers"),
    "Mv": (lambda: synth.Mv(seed=1), "numbers"),
}
RIVER: dict[str, Callable[[], Any]] = {
    "labels": linear_model.LogisticRegression,
    "many labels": linear_model.SoftmaxRegression,
    "numbers": linear_model.LinearRegression,
}


def score(model: Any, stream: Any, kind: str) -> str:
    """Predict, then learn."""
    found: Any = metrics.MAE() if kind == "numbers" else metrics.Accuracy()
    for x, y in itertools.islice(stream, MOST):
        said = model.predict_one(x)
        if said is not None:
            found.update(y, said)
        model.learn_one(x, y)
    return f"{found.get():.3g}" if kind == "numbers" else f"{100 * found.get():.1f}"


def main() -> None:
    """A row for each stream."""
    rows = [["stream", "River", "ten clients", "one client"]]
    for name, (stream, kind) in STREAMS.items():
        ours: Any = FederatedRegressor if kind == "numbers" else FederatedClassifier
        of: Any = compose.SelectType
        ready = (of(str) | preprocessing.OneHotEncoder()) + (
            of((int, float)) | preprocessing.StandardScaler()
        )
        models = [ready | RIVER[kind](), ours(), ours(method="fedogd", clients=1, budget=1.0)]
        rows.append([name, *(score(model, stream(), kind) for model in models)])
    print(table(rows))


if __name__ == "__main__":
    main()
