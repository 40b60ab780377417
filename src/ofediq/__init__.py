"""Online federated learning that counts every bit: plan, simulate, federate."""

__version__ = "0.1.0"
