"""Clients for devices too small for Python: the C sources lie in `device/`, here is what is generated for them."""

from ofediq.device.configuration import header

__all__ = ["header"]
