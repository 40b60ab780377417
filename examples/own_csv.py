"""Your own data: a CSV file with a column that says whose row it is, and one that says when.

The file is made here, as a fleet of sensors could have written it: each reports its temperature and vibration, and
whether the machine was fine. On the command line the same is

    ofediq run --data plant.csv --target state --client-column sensor --time-column when
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np

import ofediq


def write(path: Path, sensors: int, hours: int) -> None:
    """A reading per sensor and hour, some of them lost; a machine is hot when temperature and vibration are high."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["when", "sensor", "temperature", "vibration", "mode", "state"])
        for hour in range(hours):
            for sensor in range(sensors):
                if rng.random() < 0.1:
                    continue
                temperature, vibration = rng.normal(60, 10), rng.gamma(2, 1)
                mode = rng.choice(["eco", "full"])
                strain = (temperature - 60) / 10 + vibration - 2 + (mode == "full") + rng.normal(0, 0.3)
                state = "hot" if strain > 1.5 else "ok"
                when = f"2024-05-{1 + hour // 24:02}T{hour % 24:02}:00"
                out.writerow([when, f"S{sensor}", f"{temperature:.1f}", f"{vibration:.2f}", mode, state])


def main(sensors: int = 40, hours: int = 240, budget: float = 0.1) -> ofediq.Result:
    """Learn from the file on a tenth of the bits, and print the result beside an answer without a model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plant.csv"
        write(path, sensors, hours)
        # Scaled by its first tenth: no peek at the future.
        data = ofediq.load_file(
            path, "state", client_column="sensor", time_column="when", scaling="standard", scaling_fit=0.1
        )
    stream = ofediq.partition(data, kind="column")
    model = ofediq.models.softmax(features=len(data.feature_names), classes=2)
    plan = ofediq.plan(budget=budget, dim=model.dim, clients=stream.clients)
    method = ofediq.methods.from_plan(plan, step_size=0.5)
    result = ofediq.simulate(method, stream, model)
    naive = ofediq.naive_references(stream)["majority"][-1]
    print(f"{stream.clients} sensors, {stream.steps} hours, columns {', '.join(data.feature_names)}")
    print(
        f"accuracy {result.accuracy[-1]:.3f} (majority {naive:.3f}), {result.bits_wire.sum() / 8e3:.1f} kB sent"
    )
    return result


if __name__ == "__main__":
    main()
