"""The client axis over several devices: a mesh in one process, or one that spans processes.

Clients are split in equal shares; every device sums over its own and the sums are added. Draws are addressed by
the global number of a client, so the result is the same on any mesh, up to the order of additions. Processes with one
device each may also run compiled kernels on their shares, whose sums meet outside of JAX's programs (`meeting`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
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
