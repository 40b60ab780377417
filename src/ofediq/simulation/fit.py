"""Whether method, model, stream and machine fit together, before anything runs."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import Mesh

from ofediq.arrays import Vector
from ofediq.errors import InputError, told
from ofediq.machine import memory
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.streams import Stream


def check_method(method: Method, model: Model, clients: int, mesh: Mesh | None) -> None:
    """Refuse a method whose pieces do not fit the model, the clients or the devices."""
    method.participation.rates(clients)  # one rate per client, or an error that says so
    method.broadcast.check(model.dim)
    for name, size in method.client.sends(model.dim).items():
        method.compressor(name).check(size)
    if mesh is not None and method.topology != "federated":
        raise InputError(f"`mesh` must be None for the {method.topology} reference {method.name!r}")
    if mesh is not None and not method.combine.adds:
        raise InputError(f"`mesh` must be None for {method.name!r}, whose server looks at every message")


def check_memory(method: Method, params: Vector, clients: int, mesh: Mesh | None) -> None:
    """Refuse what the clients remember if it does not fit, with the number of bytes."""
    each = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(method.client.memory(params)))
    room = memory_bytes() * (1 if mesh is None else mesh.devices.size)
    if 2 * each * clients > room:  # the old and the new one, while a block runs
        raise InputError(
            f"`clients` must be fewer for {method.name!r}: {clients:,} memories of {each:,} bytes are "
            f"{each * clients:,} bytes, and {room // 2:,} fit, got {clients}"
        )


def memory_bytes() -> int:
    """Memory of the first device, or of the machine."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    return memory()


def check_fit(model: Model, stream: Stream) -> None:
    """Refuse a model that is of another task than the stream, or does not take its samples."""
    if model.task != stream.task:
        raise InputError(
            f"`model` must be for a {stream.task} task like the stream, got a {model.task} model"
        )
    sample = stream.x[:1]
    try:
        model.evaluate(model.initial(0), sample, stream.y[:1])
    except InputError:
        raise
    except (ValueError, TypeError) as error:
        shape = list(sample.shape[1:])
        raise InputError(
            f"`model` must take samples of shape {shape}, got {model.name!r}: {told(error)}"
        ) from error
    if stream.classes is not None:
        scores = model.scores(sample.shape[1:])
        if scores is not None and scores < stream.classes:
            raise InputError(f"`model` must score {stream.classes} classes like the stream, got {scores}")
