"""A network whose losses and gradients are computed by compiled kernels, inside JAX's programs.

Everything else of a window stays as it is: so any client rule, compressor, participation or memory, on any mesh,
runs on kernels, also those that nobody here has heard of.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ofediq.arrays import FASTER, Array
from ofediq.kernels.library import UnavailableError
from ofediq.models import Network
from ofediq.models.base import Around
from ofediq.simulation.native.layout import load, network_numbers, network_places
from ofediq.simulation.native.window import thread_count
from ofediq.wrapping import of_inner

_EVALUATED = 2**12  # samples that are evaluated at once
_FUNCTIONS = tuple(
    f"{name}_in_xla" for name in ("samples", "largest", "hadamard", "counts", "planes", "sums")
)
_CACHED = 2**18  # numbers of one array that stay in a core's cache between two passes over it


@functools.cache
def _targets(library: Any) -> dict[str, str]:
    """The names in XLA of what the library offers; the file's name is part of them, so that none is taken twice."""
    stem, names = Path(library._name).stem, {}
    for function in _FUNCTIONS:
        names[function] = f"{function}_{stem}"
        try:
            capsule = jax.ffi.pycapsule(getattr(library, function))
            jax.ffi.register_ffi_target(names[function], capsule, platform="cpu")
        except Exception as error:  # made for another JAX, which says so in its own ways
            raise UnavailableError(f"this JAX does not take them: {error}") from error
    return names


def target(function: str) -> str:
    """The name in XLA of what the library offers; `UnavailableError` where there is none."""
    return _targets(load())[function]


def _by_kernel(function: str, rows: Array, made: jax.ShapeDtypeStruct) -> Array | None:
    """The kernel `function` of `rows`; None where there are no kernels."""
    if jax.default_backend() != "cpu":
        return None
    try:
        name = target(function)
    except UnavailableError:
        return None
    call = jax.ffi.ffi_call(name, made, vmap_method="sequential")
    return call(rows, jnp.full(1, thread_count(), np.int32))


def largest(updates: Array, count: int) -> Array | None:
    """`codec.schemes.sparse.largest`."""
    made = jax.ShapeDtypeStruct((updates.shape[0], count), np.int32)
    return _by_kernel("largest_in_xla", updates.astype(np.float32), made)


def hadamard(rows: Array) -> Array | None:
    """The transform of `codec.rotation`, along the last axis."""
    flat = rows.astype(np.float32).reshape(-1, rows.shape[-1])
    made = _by_kernel("hadamard_in_xla", flat, jax.ShapeDtypeStruct(flat.shape, np.float32))
    return None if made is None else made.reshape(rows.shape)


def counts(symbols: Array, classes: int) -> Array | None:
    """`codec.sizes.class_counts`."""
    made = jax.ShapeDtypeStruct((symbols.shape[0], classes), np.int32)
    return _by_kernel("counts_in_xla", symbols.astype(np.int32), made)


def sums(blocks: Array) -> Array | None:
    """The sums along the middle axis of float32 [outer, count, inner]."""
    made = jax.ShapeDtypeStruct((blocks.shape[0], blocks.shape[2]), np.float32)
    return _by_kernel("sums_in_xla", blocks, made)


FASTER.update(largest=largest, hadamard=hadamard, counts=counts, sums=sums)


@dataclass(frozen=True)
class Compiled(Around):
    """What `inner` computes, by kernels where JAX asks.

    Attributes:
        inner: a network that `window.supports` accepts.
        threads: how many; the result does not depend on it.
    """

    inner: Network
    threads: int
    evaluate_chunk = _EVALUATED  # nothing is kept of a sample but two numbers
    initial = of_inner()
    predict = of_inner()
    evaluate_mixture = of_inner()

    @classmethod
    def of(cls, network: Network) -> Compiled:
        """With as many threads as this process may use. Raises `UnavailableError` without a library."""
        _targets(load())
        return cls(network, thread_count())

    def __getattr__(self, name: str) -> Any:
        """Everything that is not computed here is the network's."""
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def sender_chunk(self) -> int:  # type: ignore[override]  # derived here
        """Few enough that gradients, memories and messages stay in the cache; some for each thread."""
        return min(self.inner.chunk, max(8, 4 * self.threads, _CACHED // self.inner.dim))

    def evaluate(self, params: Array, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses and errors of each sample."""
        losses, errors, _ = self._call(params, xs, ys, jnp.zeros(0), (0,))
        return losses + self.inner._penalty(params), errors

    def client_gradients(self, params: Array, xs: Array, ys: Array) -> Array:
        """One gradient per sample."""
        return self._call(params, xs, ys, jnp.zeros(0), (len(xs), self.inner.dim))[2]

    def batch_gradient(
        self, params: Array, xs: Array, ys: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Losses, errors and the weighted sum of the gradients; of dense layers alone by matrix products."""
        if not self.inner.convolves:
            return self.inner.batch_gradient(params, xs, ys, weights)
        losses, errors, gradient = self._call(params, xs, ys, weights, (self.inner.dim,))
        return losses + self.inner._penalty(params), errors, gradient

    def _call(
        self, params: Array, xs: Array, ys: Array, weights: Array, shape: tuple[int, ...]
    ) -> tuple[Array, Array, Array]:
        """Losses, errors, and gradients of this `shape`."""
        adds = len(shape) == 1 and shape != (0,)
        network, task = self.inner, np.float32 if self.inner.task == "regression" else np.int32
        penalty = np.float32(network.l2).view(np.int32)
        head = np.array([task is np.float32, self.threads, penalty, adds], np.int32)
        numbers = np.concatenate([head, network_numbers(network).reshape(-1)])
        samples = xs if network.as_given else network.images(xs)
        each = jax.ShapeDtypeStruct((len(xs),), np.float32)
        call = jax.ffi.ffi_call(
            target("samples_in_xla"),
            (each, each, jax.ShapeDtypeStruct(shape, np.float32)),
            vmap_method="sequential",
        )
        places = network_places(network)
        losses, errors, gradients = call(
            jnp.asarray(numbers),
            jnp.asarray(np.zeros(0, np.int32) if places is None else places),
            params,
            samples,
            ys.astype(task),
            weights,
        )
        return losses, errors, gradients
