"""The client axis over several devices: a mesh in one process, or one that spans processes.

Clients are split in equal shares; every device sums over its own and the sums are added. Draws are addressed by
the global number of a client, so the result is the same on any mesh, up to the order of additions. Processes with one
device each may also run compiled kernels on their shares, whose sums meet here outside of JAX's programs.
"""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ofediq.errors import InputError, require_integer
from ofediq.simulation.window import Feed, Slot

AXIS = "clients"


def client_mesh(devices: int | None = None) -> Mesh:
    """A mesh of the first `devices` devices (all of them by default), with one axis over the clients.

    On a CPU one process has one device unless `jax.config.update("jax_num_cpu_devices", n)` ran before JAX was
    first used; processes joined by `join_processes` pool theirs.

    >>> client_mesh(1).axis_names
    ('clients',)
    """
    found = jax.devices()
    wanted = len(found) if devices is None else require_integer("devices", devices, 1)
    if wanted > len(found):
        raise InputError(f"`devices` must be at most {len(found)}, the devices that JAX found, got {wanted}")
    return Mesh(np.asarray(found[:wanted]), (AXIS,))


def join_processes(coordinator: str, processes: int, index: int) -> None:
    """Join `processes` processes into one mesh; on CPUs they talk over gloo.

    Call it before JAX is used, in every process, with the same `coordinator` ("host:port" of process 0) and its
    own `index` from 0.
    """
    require_integer("processes", processes, 1)
    require_integer("index", index, 0, processes - 1)
    if ":" not in coordinator:
        raise InputError(f"`coordinator` must be host:port, got {coordinator!r}")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, num_processes=processes, process_id=index)
    if (
        threading.current_thread() is threading.main_thread()
    ):  # JAX takes SIGTERM for itself, and would not end
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def one_device_each(mesh: Mesh) -> bool:
    """Whether the mesh is one of several processes with a device each: they can then also meet outside of JAX."""
    owners = [device.process_index for device in mesh.devices.flat]
    return len(owners) > 1 and owners == list(range(jax.process_count()))


def spans(mesh: Mesh | None) -> bool:
    """Whether the mesh has devices of other processes."""
    return mesh is not None and any(
        device.process_index != jax.process_index() for device in mesh.devices.flat
    )


def own_share(clients: int, mesh: Mesh | None) -> slice:
    """The clients of this process, where each process sums over its own: all of them without a mesh.

    >>> own_share(10, None)
    slice(0, 10, None)
    """
    count, index = (1, 0) if mesh is None else (mesh.devices.size, jax.process_index())
    return slice(index * clients // count, (index + 1) * clients // count)


@functools.cache
def _meeting() -> tuple[NamedSharding, Callable[[jax.Array], jax.Array]]:
    """Where a row of each process lies, and the program that gives all rows to all of them.

    Made once: `multihost_utils.process_allgather` makes it anew in every call, for twice the processor time.
    """
    first = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.asarray([first[index] for index in range(jax.process_count())]), ("process",))
    whole = NamedSharding(mesh, PartitionSpec())
    return NamedSharding(mesh, PartitionSpec("process")), jax.jit(lambda rows: rows, out_shardings=whole)


def _of_all_processes(words: np.ndarray) -> np.ndarray:
    """`words` [n] of every process, [processes, n]."""
    if jax.process_count() == 1:
        return words[None]
    split, meet = _meeting()
    rows = jax.make_array_from_process_local_data(split, words[None])
    return np.asarray(meet(rows).addressable_data(0))


def gathered(tree: Any) -> list[Any]:
    """The same arrays of every process, in the order of their indices; bit for bit, also where JAX has no float64."""
    leaves, shape = jax.tree.flatten(jax.tree.map(np.asarray, tree))
    sizes = [leaf.nbytes for leaf in leaves]
    padding = -sum(sizes) % 4
    words = np.frombuffer(b"".join(leaf.tobytes() for leaf in leaves) + bytes(padding), np.uint32)
    everyone = _of_all_processes(words)
    found = []
    for row in everyone:
        content, start = row.tobytes(), 0
        parts: list[Any] = []
        for leaf, size in zip(leaves, sizes, strict=True):
            part = np.frombuffer(content, leaf.dtype, leaf.size, start).reshape(leaf.shape)
            parts.append(part)
            start += size
        found.append(jax.tree.unflatten(shape, parts))
    return found


def over_processes(sums_of: Callable[..., Any], mesh: Mesh | None) -> Callable[..., Any]:
    """`sums_of(setting, down, memory, feed, slot)`, added up over the processes of `mesh`, in their order."""
    if mesh is None:
        return sums_of

    def total(*arguments: Any) -> Any:
        sums, memory = sums_of(*arguments)
        first, *others = gathered(sums)
        for other in others:
            first = jax.tree.map(np.add, first, other)
        return first, memory

    return total


def of_the_first(content: bytes) -> bytes:
    """What process 0 has; all processes must ask at the same places."""
    size = int(multihost_utils.broadcast_one_to_all(np.uint32(len(content))))
    given = np.frombuffer(content[:size].ljust(size, b"\0"), np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(given), np.uint8).tobytes() if size else b""


def all_rows(tree: Any) -> Any:
    """Arrays of which each process has some rows, whole in all of them."""

    def whole(rows: Any) -> Any:
        if isinstance(rows, jax.Array) and not rows.is_fully_addressable:
            return multihost_utils.process_allgather(rows, tiled=True)
        own = np.asarray(rows)
        counts = [int(count) for count in gathered(np.int32(len(own)))]
        parts = gathered(np.pad(own, [(0, max(counts) - len(own)), *[(0, 0)] * (own.ndim - 1)]))
        return np.concatenate([part[:count] for part, count in zip(parts, counts, strict=True)])

    return jax.tree.map(whole, tree)


def anyone(wish: bool) -> bool:
    """Whether this or another process wishes; all processes must ask at the same places."""
    return wish if jax.process_count() == 1 else any(bool(one) for one in gathered(np.uint8(wish)))


def shares(mesh: Mesh | None) -> int:
    """Into how many equal shares the clients are split."""
    return 1 if mesh is None else mesh.devices.size


def place(tree: Any, mesh: Mesh | None, clients_axis: int | None = None) -> Any:
    """Arrays on the mesh: split along `clients_axis`, or whole on every device."""
    if mesh is None:
        return jax.tree.map(jax.numpy.asarray, tree)
    spec = PartitionSpec() if clients_axis is None else PartitionSpec(*([None] * clients_axis), AXIS)
    return jax.device_put(tree, NamedSharding(mesh, spec))


def over_clients(sums_of: Callable[..., Any], mesh: Mesh | None) -> Callable[..., Any]:
    """`sums_of(down, memory, feed, slot)` on every share of the clients: sums added up, memories left in place."""
    if mesh is None:
        return sums_of
    whole, by_step, by_client = PartitionSpec(), PartitionSpec(None, AXIS), PartitionSpec(AXIS)

    def share(
        down: Any, memory: Any, pool: Any, ids: Any, seed: Any, order: Any, step: Any, send: Any
    ) -> Any:
        sums, memory = sums_of(down, memory, Feed(pool, ids, seed), Slot(order, step, send))
        return jax.lax.psum(sums, AXIS), memory

    specs = (whole, by_client, whole, by_client, whole, by_step, whole, whole)
    # The loops inside carry sums that start at replicated zeros and become different on every device; the
    # checker of replication wants that spelled out at each of them.
    split = jax.shard_map(share, mesh=mesh, in_specs=specs, out_specs=(whole, by_client), check_vma=False)
    return lambda down, memory, feed, slot: split(down, memory, *feed, *slot)
