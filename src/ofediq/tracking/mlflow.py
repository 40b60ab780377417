"""MLflow: a database in a folder, or a tracking server."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ofediq.errors import extra
from ofediq.tracking.base import Parameter

_BATCH = 900
"""Points that are sent together; MLflow takes 1,000 at most."""

_SECONDS = 5.0
"""Points do not wait longer than this for company."""

# Before MLflow is imported, and only where the user has not decided: it reports its use to its makers otherwise, and
# tries a server that is gone for minutes.
_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}


class Mlflow:
    """Sends runs to an MLflow store.

    Args:
        place: a folder, which gets a database `mlflow.db`, or the address of a store that MLflow knows
            (`http://...`, `postgresql://...`).
        experiment: the experiment that the runs belong to; made if it is new.
    """

    def __init__(self, place: str | Path, experiment: str = "ofediq") -> None:
        self.place, self.experiment = place, experiment
        for name, value in _DEFAULTS.items():
            os.environ.setdefault(name, value)
        tracking = extra("mlflow.tracking", "mlflow")
        if not self._is_address:
            extra("sqlalchemy", "mlflow")
            extra("alembic", "mlflow")
        self._entities = extra("mlflow.entities", "mlflow")
        self._make_client = tracking.MlflowClient
        self._client: Any = None
        self._run = ""
        self._step = 0
        self._points: list[Any] = []
        self._sent = 0.0

    @property
    def address(self) -> str:
        """Where the store is, as `mlflow ui --backend-store-uri` wants it."""
        return str(self.place) if self._is_address else f"sqlite:///{Path(self.place).absolute()}/mlflow.db"

    def start(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """Make a run."""
        client = self._connect()
        self._run = client.create_run(self._experiment_id(), run_name=name).info.run_id
        self._points, self._step, self._sent = [], 0, time.monotonic()
        items = [self._entities.Param(key, str(value)) for key, value in parameters.items()]
        for begin in range(0, len(items), 100):  # as many as MLflow takes at once
            client.log_batch(self._run, params=items[begin : begin + 100])

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep points until there are enough of them, or some seconds have passed."""
        now = int(time.time() * 1000)
        self._step = step
        self._points += [self._entities.Metric(key, value, now, step) for key, value in values.items()]
        if len(self._points) >= _BATCH or time.monotonic() > self._sent + _SECONDS:
            self._send()

    def finish(self, figures: Mapping[str, float]) -> None:
        """Send what is left and the figures, and end the run."""
        self.log(self._step, {f"final/{name}": value for name, value in figures.items()})
        self._send()
        self._client.set_terminated(self._run, status="FINISHED")

    @property
    def _is_address(self) -> bool:
        return "://" in str(self.place) or str(self.place) == "databricks"

    def _connect(self) -> Any:
        if self._client is None:
            if not self._is_address:
                Path(self.place).mkdir(parents=True, exist_ok=True)
                # A new database is a long story, told line by line.
                for name in ("mlflow.store.db.utils", "alembic"):
                    logging.getLogger(name).setLevel(logging.WARNING)
            self._client = self._make_client(tracking_uri=self.address)
        return self._client

    def _experiment_id(self) -> str:
        found = self._client.get_experiment_by_name(self.experiment)
        if found is not None:
            return str(found.experiment_id)
        where = None if self._is_address else (Path(self.place).absolute() / "artifacts").as_uri()
        return str(self._client.create_experiment(self.experiment, artifact_location=where))

    def _send(self) -> None:
        while self._points:
            self._client.log_batch(self._run, metrics=self._points[:_BATCH])
            self._points = self._points[_BATCH:]
        self._sent = time.monotonic()
