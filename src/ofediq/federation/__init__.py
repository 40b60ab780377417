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
else:  # a type checker reads the imports above
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "config": "ClientConfig FederationConfig",
            "model_file": "LearntModel load_model save_model",
            "network.broker": "Broker BrokerError",
            "network.client": "Client",
            "network.embedded": "embedded",
            "network.server": "Server",
            "network.session": "Session",
            "protocol.coordinator": "Coordinator",
            "protocol.learner": "Learner",
            "protocol.monitor": "Monitor",
            "protocol.rules": "Rules",
            "protocol.task": "ModelSpec",
            "setup": "assemble coordinate",
        },
    )
