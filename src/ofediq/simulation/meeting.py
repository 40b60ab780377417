"""What the processes of one run tell each other between windows; all of them must ask at the same places.

Small questions go by JAX's own collectives. The sums of every window go over a connection from each process to the
first one, and the total comes back: JAX's transport on CPUs (gloo) keeps a core busy while it waits for a process
that is late, and that core belongs to the kernels.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import signal
import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Listener
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ofediq.errors import InputError, LostProcessError, require_integer

_host: str | None = None  # where the others reach the first process; None where somebody else has joined them

_PATIENCE = 10  # seconds that a process has to come, and to say who it is
_SECRET = 16  # bytes

Words = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]


def join_processes(coordinator: str, processes: int, index: int) -> None:
    """Join `processes` processes into one mesh; on CPUs they talk over gloo, sums of kernels have a way of their own.

    Call it before JAX is used, in every process, with the same `coordinator` ("host:port" of process 0) and its
    own `index` from 0.
    """
    require_integer("processes", processes, 1)
    require_integer("index", index, 0, processes - 1)
    if ":" not in coordinator:
        raise InputError(f"`coordinator` must be host:port, got {coordinator!r}")
    global _host
    _host = coordinator.rpartition(":")[0]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, num_processes=processes, process_id=index)
    if (
        threading.current_thread() is threading.main_thread()
    ):  # JAX takes SIGTERM for itself, and would not end
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


@functools.cache
def _shelf() -> tuple[NamedSharding, Callable[[jax.Array], jax.Array]]:
    """Where a row of each process lies, and the program that gives all rows to all of them.

    Made once: `multihost_utils.process_allgather` makes it anew in every call, for twice the processor time.
    """
    first = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.asarray([first[index] for index in range(jax.process_count())]), ("process",))
    whole = NamedSharding(mesh, PartitionSpec())
    return NamedSharding(mesh, PartitionSpec("process")), jax.jit(lambda rows: rows, out_shardings=whole)


def _of_all_processes(words: Words) -> Words:
    """`words` [n] of every process, [processes, n]."""
    if jax.process_count() == 1:
        return words[None]
    split, meet = _shelf()
    rows = jax.make_array_from_process_local_data(split, words[None])
    return np.asarray(meet(rows).addressable_data(0))


def _packed(leaves: list[Any]) -> bytes:
    return b"".join(leaf.tobytes() for leaf in leaves)


def _unpacked(content: bytes, like: list[Any]) -> list[Any]:
    """Arrays of the same kinds as `like`, whose bytes follow each other in `content`."""
    starts = np.cumsum([0, *(leaf.nbytes for leaf in like)])
    pairs = zip(like, starts[:-1].tolist(), strict=True)
    return [np.frombuffer(content, leaf.dtype, leaf.size, start).reshape(leaf.shape) for leaf, start in pairs]


def gathered(tree: Any) -> list[Any]:
    """The same arrays of every process, in the order of their indices; bit for bit, also where JAX has no float64."""
    leaves, shape = jax.tree.flatten(jax.tree.map(np.asarray, tree))
    content = _packed(leaves)
    words = np.frombuffer(content + bytes(-len(content) % 4), np.uint32)
    return [jax.tree.unflatten(shape, _unpacked(row.tobytes(), leaves)) for row in _of_all_processes(words)]


@functools.cache
def _connections() -> list[Connection] | None:
    """To all others in the first process, to the first one in all others.

    None where one of them cannot reach it: no port may be open but the coordinator's.
    """
    if _host is None:
        return None
    first, link, secret, listener = jax.process_index() == 0, None, b"", None
    try:
        if first:
            listener, secret = (
                Listener(("", 0), backlog=2 * jax.process_count()),
                secrets.token_bytes(_SECRET),
            )
        said = np.frombuffer(secret.ljust(_SECRET, b"\0"), np.uint8)
        port = np.int32(listener.address[1] if listener else 0)
        (port, said), *_ = gathered((port, said))
        if not first:
            with contextlib.suppress(OSError):
                link = _reached(_host, int(port))
        if anyone(not first and link is None):
            return None
        if link is not None:
            link.send_bytes(said.tobytes() + jax.process_index().to_bytes(4, "little"))
            return [link]
        return _accepted(listener, said.tobytes())
    finally:
        if listener is not None:
            listener.close()


def _reached(host: str, port: int) -> Connection:
    reached = socket.create_connection((host, port), _PATIENCE)
    reached.settimeout(None)
    return Connection(reached.detach())


def _accepted(listener: Any, secret: bytes) -> list[Connection]:
    """Connections of all other processes, in the order of their indices; strangers are sent away."""
    found: dict[int, Connection] = {}
    while len(found) < jax.process_count() - 1:
        link = listener.accept()
        word = link.recv_bytes(_SECRET + 4) if link.poll(_PATIENCE) else b""
        if secrets.compare_digest(word[:_SECRET], secret):
            found[int.from_bytes(word[_SECRET:], "little")] = link
        else:
            link.close()
    return [found[index] for index in sorted(found)]


def _total(links: list[Connection], tree: Any) -> Any:
    """The sum over all processes, in the order of their indices."""
    leaves, shape = jax.tree.flatten(jax.tree.map(np.asarray, tree))
    try:
        if jax.process_index():
            links[0].send_bytes(_packed(leaves))
            return jax.tree.unflatten(shape, _unpacked(links[0].recv_bytes(), leaves))
        for link in links:
            leaves = [
                one + other for one, other in zip(leaves, _unpacked(link.recv_bytes(), leaves), strict=True)
            ]
        for link in links:
            link.send_bytes(_packed(leaves))
    except (EOFError, OSError):
        raise LostProcessError(
            "another process of the run is gone; resuming continues from the last saved state"
        ) from None
    return jax.tree.unflatten(shape, leaves)


def over_processes(sums_of: Callable[..., Any], mesh: Mesh | None) -> Callable[..., Any]:
    """`sums_of(setting, down, memory, feed, slot)`, added up over the processes of `mesh`, in their order."""
    if mesh is None:
        return sums_of

    def total(*arguments: Any) -> Any:
        sums, memory = sums_of(*arguments)
        links = _connections()
        if links is not None:
            return _total(links, sums), memory
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
