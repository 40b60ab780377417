"""River in front, ofediq behind: features are prepared online by a River pipeline, then learnt by many clients.

A River transformer learns from each sample as it passes, so nothing peeks at the future: the scaling of a sample
knows only what came before. Needs `pip install river`; the data (web pages, phishing or not) come with it.
"""

from __future__ import annotations

import numpy as np
from river import compose, datasets, linear_model, metrics, preprocessing

import ofediq


def prepared() -> tuple[list[list[float]], list[int]]:
    """River's phishing data, scaled online; the names of the features are sorted to give them an order."""
    pipeline = compose.Discard("is_popular") | preprocessing.StandardScaler()
    rows, labels = [], []
    for x, y in datasets.Phishing():
        scaled = pipeline.transform_one(x)
        pipeline.learn_one(x)
        rows.append([scaled[name] for name in sorted(scaled)])
        labels.append(int(y))
    return rows, labels


def alone() -> float:
    """Accuracy of River's own logistic regression, one learner that sees every sample."""
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    score = metrics.Accuracy()
    for x, y in datasets.Phishing():
        score.update(y, model.predict_one(x))
        model.learn_one(x, y)
    return float(score.get())


def main(clients: int = 10, budget: float = 0.2) -> ofediq.Result:
    """Deal the samples to clients in their order, and learn on a fifth of the bits."""
    rows, labels = prepared()
    data = ofediq.Dataset("phishing", np.array(rows), np.array(labels), task="classification")
    stream = ofediq.partition(data, clients=clients, kind="sequential")
    model = ofediq.models.softmax(features=len(rows[0]), classes=2)
    plan = ofediq.plan(budget=budget, dim=model.dim, clients=clients)
    result = ofediq.simulate(ofediq.methods.from_plan(plan, step_size=0.5), stream, model)
    print(
        f"{clients} clients, {stream.steps} steps: accuracy {result.accuracy[-1]:.3f}, ccr {result.ccr:.0%}"
    )
    print(f"River's logistic regression, one learner with all the data: accuracy {alone():.3f}")
    return result


if __name__ == "__main__":
    main()
