"""A live federation: the simulator's methods on real clients, over MQTT.

The protocol has no I/O: `Coordinator` (server) and `Learner` (client) take messages and return messages. `Server`,
`Session` and `Client` carry them over a `Link`; `Monitor` is the record that the live page shows.

>>> from ofediq.federation import Broker
>>> Broker("mqtt://localhost:1883", insecure=True).port
1883
"""

from ofediq.federation.config import ClientConfig, FederationConfig
from ofediq.federation.network.client import Client
from ofediq.federation.network.embedded import embedded
from ofediq.federation.network.link import Broker, BrokerError
from ofediq.federation.network.server import Server
from ofediq.federation.network.session import Session
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.federation.setup import assemble, coordinate

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
