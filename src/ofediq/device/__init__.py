"""Clients for devices too small for Python: the C sources lie in `device/`, here is what is generated for them."""

from ofediq.device.arithmetic import DeviceModel, device_model
from ofediq.device.configuration import header

__all__ = ["DeviceModel", "device_model", "header"]
