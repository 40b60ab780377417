"""Compiled kernels for the built-in models: the federated window near the machine's limit.

The C source is part of the package. It is compiled when first needed, with the C compiler that the machine has,
and kept in the user's cache. Without a compiler, and with `OFEDIQ_NATIVE=0`, the simulator runs the same methods
in JAX: same results up to rounding, only slower. `native_status()` says which of the two it is.
"""

from ofediq.kernels.library import native_status
from ofediq.simulation.native import convolutions as convolutions  # own models find it by name
from ofediq.simulation.native.sums import descends, native_model, native_sums

__all__ = ["descends", "native_model", "native_status", "native_sums"]
