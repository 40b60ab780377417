"""A live federation: the simulator's methods on real clients, over MQTT.

The protocol has no I/O: `Coordinator` (server) and `Learner` (client) take messages and return messages. `Server`,
`Session` and `Client` carry them over a `Link`; `Monitor` is the record that the live page shows.

>>> from ofediq.federation import Broker
>>> Broker("mqtt://localhost:1883", insecure=True).port
1883
"""

from ofediq.federation.assembly import assemble, coordinate
from ofediq.federation.broker import embedded
from ofediq.federation.client import Client
from ofediq.federation.config import ClientConfig, FederationConfig
from ofediq.federation.coordinator import Coordinator
from ofediq.federation.learner import Learner
from ofediq.federation.link import Broker, BrokerError
from ofediq.federation.monitor import Monitor
from ofediq.federation.rules import Rules
from ofediq.federation.server import Server
from ofediq.federation.session import Session
from ofediq.federation.task import ModelSpec

__all__ = [
    "Broker",
    "BrokerError",
    "Client",
    "ClientConfig",
    "Coordinator",
    "FederationConfig",
    "Learner",
    "ModelSpec",
    "Monitor",
    "Rules",
    "Server",
    "Session",
    "assemble",
    "coordinate",
    "embedded",
]
