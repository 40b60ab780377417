"""Our methods inside a Flower app: a mod for its clients, a strategy for its server.

    client_app.py   app = ClientApp(mods=[method_mod])
    server_app.py   MethodStrategy("ofediq", clients=10, budget=0.1).start(grid, initial_arrays, num_rounds=100)

The app's own training, in whatever framework, is the local step: it gets arrays, returns arrays, and

    u = (arrays before) - (arrays after)

takes the gradient's place in the method, with a step size of 1: with everyone sending u as it is, that is FedAvg with
equal weights. What leaves a client is the codec's frame of u, or nothing if the method's draw says so. The first
message to a node describes method and arrays; what a client must remember lies in Flower's `Context.state`.
"""

from typing import TYPE_CHECKING

from ofediq.lazy import attach

if TYPE_CHECKING:
    from ofediq.flower.mod import method_mod as method_mod
    from ofediq.flower.records import wire_bytes as wire_bytes
    from ofediq.flower.strategy import MethodStrategy as MethodStrategy
else:
    _MODULES = {"mod": "method_mod", "records": "wire_bytes", "strategy": "MethodStrategy"}
    __getattr__, __dir__, __all__ = attach(__name__, _MODULES, "flower")
