"""A live federation: the simulator's methods on real clients, over MQTT.

The protocol has no I/O: `Coordinator` (server) and `Learner` (client) take messages and return messages. `Server`,
`Session` and `Client` carry them over a `Link`; `Monitor` is the record that the live page shows.

>>> from ofediq.federation import Broker
>>> Broker("mqtt://localhost:1883", insecure=True).port
1883

Names are looked up when they are first used: the command line reads the settings without loading the codec.
"""

from typing import TYPE_CHECKING

from ofediq.lazy import attach

if TYPE_CHECKING:
    from ofediq.federation.config import ClientConfig as ClientConfig
    from ofediq.federation.config import FederationConfig as FederationConfig
    from ofediq.federation.model_file import LearntModel as LearntModel
    from ofediq.federation.model_file import load_model as load_model
    from ofediq.federation.model_file import save_model as save_model
    from ofediq.federation.network.broker import Broker as Broker
    from ofediq.federation.network.broker import BrokerError as BrokerError
    from ofediq.federation.network.client import Client as Client
    from ofediq.federation.network.embedded import embedded as embedded
    from ofediq.federation.network.server import Server as Server
    from ofediq.federation.network.session import Session as Session
    from ofediq.federation.protocol.coordinator import Coordinator as Coordinator
    from ofediq.federation.protocol.learner import Learner as Learner
    from ofediq.federation.protocol.monitor import Monitor as Monitor
    from ofediq.federation.protocol.rules import Rules as Rules
    from ofediq.federation.protocol.task import ModelSpec as ModelSpec
    from ofediq.federation.setup import assemble as assemble
    from ofediq.federation.setup import coordinate as coordinate

_HOMES = {
    "Broker": "network.broker",
    "BrokerError": "network.broker",
    "Client": "network.client",
    "ClientConfig": "config",
    "Coordinator": "protocol.coordinator",
    "FederationConfig": "config",
    "Learner": "protocol.learner",
    "LearntModel": "model_file",
    "ModelSpec": "protocol.task",
    "Monitor": "protocol.monitor",
    "Rules": "protocol.rules",
    "Server": "network.server",
    "Session": "network.session",
    "assemble": "setup",
    "coordinate": "setup",
    "embedded": "network.embedded",
    "load_model": "model_file",
    "save_model": "model_file",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a type checker reads the imports above
    __getattr__ = attach(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
