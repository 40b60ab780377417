"""Where predictions go: a file of JSON lines, a topic of the client's own, Home Assistant."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

from ofediq.errors import InputError
from ofediq.federation.protocol.messages import Publish
from ofediq.federation.protocol.predictions import Prediction

log = logging.getLogger("ofediq.federation")


def described(found: Prediction, sample: Any = None) -> dict[str, Any]:
    """A prediction as JSON has it, with the caller's id.

    >>> described(Prediction(20.5, None, (19.0, 22.0), 7), "monday")
    {'prediction': 20.5, 'id': 'monday', 'step': 7, 'interval': [19.0, 22.0]}
    """
    answer: dict[str, Any] = {"prediction": _finite(found.value)}
    answer |= {} if sample is None else {"id": sample}
    answer["step"] = found.step
    if found.probabilities is not None:
        answer["probabilities"] = {str(label): chance for label, chance in found.probabilities.items()}
    if found.interval is not None:
        answer["interval"] = [_finite(end) for end in found.interval]
    return answer


def _finite(value: Any) -> Any:
    """JSON has no word for a number of a model that has diverged."""
    return value if not isinstance(value, float) or math.isfinite(value) else None


class Outlet:
    """Tells predictions to those who want them.

    Args:
        federation: its name.
        client: this client's.
        path: file that a JSON line is added to for each. One that cannot be opened is an error; a disk that is full
            later is told once, and no reason to stop.
        publish: whether each is published to `<federation>/p/<client>`.
        discovery: Home Assistant's prefix, usually "homeassistant": makes a sensor of that topic.
    """

    def __init__(
        self,
        federation: str,
        client: str,
        *,
        path: str | Path | None = None,
        publish: bool = False,
        discovery: str | None = None,
    ) -> None:
        self.topic = f"{federation}/p/{client}"
        self.path, self.publish, self.discovery = path, publish or discovery is not None, discovery
        self._introduced = self._failed = False
        try:
            self._write("")
        except OSError as error:
            raise InputError(
                f"`path` of predictions must be a file that can be written, got {str(path)!r}: {error.strerror}"
            ) from None

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return self.publish or self.path is not None

    def __call__(self, found: Prediction, sample: Any = None) -> list[Publish]:
        """What to publish about a prediction; its line is written here."""
        text = json.dumps(described(found, sample))
        try:
            self._write(text + "\n")
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.error(
                    "client: cannot write predictions to %s: %s; it goes on without",
                    self.path,
                    error.strerror,
                )
            self._failed = True
        if not self.publish:
            return []
        first = [] if self._introduced else self._introduction(found)
        self._introduced = True
        return [*first, Publish(self.topic, text.encode())]

    def _write(self, text: str) -> None:
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(text)

    def _introduction(self, found: Prediction) -> list[Publish]:
        """Home Assistant's description of a sensor, retained."""
        if self.discovery is None:
            return []
        name = self.topic.replace("/p/", " ")
        unique = f"ofediq_{name.replace(' ', '_')}"
        content = {
            "name": f"{name} prediction",
            "unique_id": unique,
            "availability_topic": self.topic.replace("/p/", "/here/"),
            "availability_template": "{{ 'online' if value_json.online else 'offline' }}",
            "state_topic": self.topic,
            "value_template": "{{ value_json.prediction }}",
            "json_attributes_topic": self.topic,
            "device": {"identifiers": [unique], "name": name, "manufacturer": "ofediq"},
        }
        if isinstance(found.value, float):
            content["state_class"] = "measurement"  # a number, of which there are curves
        # Its topics know no dots, which names may have.
        where = f"{self.discovery}/sensor/{unique.replace('.', '__')}/config"
        return [Publish(where, json.dumps(content).encode(), retain=True)]
