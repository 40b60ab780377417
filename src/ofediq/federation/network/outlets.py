"""Where predictions go: a file of JSON lines, a topic of the client's own, Home Assistant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ofediq.errors import DataError
from ofediq.federation.protocol.messages import Publish
from ofediq.federation.protocol.predictions import Prediction


def described(found: Prediction, sample: Any = None) -> dict[str, Any]:
    """A prediction as JSON has it, with the caller's id.

    >>> described(Prediction(20.5, None, (19.0, 22.0), 7), "monday")
    {'prediction': 20.5, 'id': 'monday', 'step': 7, 'interval': [19.0, 22.0]}
    """
    answer: dict[str, Any] = {"prediction": found.value}
    answer |= {} if sample is None else {"id": sample}
    answer["step"] = found.step
    if found.probabilities is not None:
        answer["probabilities"] = {str(label): chance for label, chance in found.probabilities.items()}
    if found.interval is not None:
        answer["interval"] = list(found.interval)
    return answer


class Outlet:
    """Tells predictions to those who want them.

    Args:
        federation: its name.
        client: this client's.
        path: file that a JSON line is added to for each.
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
        self._introduced = False

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return self.publish or self.path is not None

    def __call__(self, found: Prediction, sample: Any = None) -> list[Publish]:
        """What to publish about a prediction; its line is written here."""
        text = json.dumps(described(found, sample))
        if self.path is not None:
            try:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(text + "\n")
            except OSError as error:
                raise DataError(f"cannot write predictions to {self.path}: {error.strerror}") from None
        if not self.publish:
            return []
        first = [] if self._introduced else self._introduction()
        self._introduced = True
        return [*first, Publish(self.topic, text.encode())]

    def _introduction(self) -> list[Publish]:
        """Home Assistant's description of a sensor, retained."""
        if self.discovery is None:
            return []
        name = self.topic.replace("/p/", " ")
        content = {
            "name": f"{name} prediction",
            "unique_id": f"ofediq_{name.replace(' ', '_')}",
            "state_topic": self.topic,
            "value_template": "{{ value_json.prediction }}",
            "json_attributes_topic": self.topic,
            "device": {
                "identifiers": [f"ofediq_{name.replace(' ', '_')}"],
                "name": name,
                "manufacturer": "ofediq",
            },
        }
        where = f"{self.discovery}/sensor/{content['unique_id']}/config"
        return [Publish(where, json.dumps(content).encode(), retain=True)]
