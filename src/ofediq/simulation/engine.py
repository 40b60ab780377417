"""`simulate`: K clients, T steps, one method, fast.

The loop over time runs in compiled blocks of windows; between blocks the host records, reports progress, saves
checkpoints, and can be interrupted without losing what is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh

from ofediq.arrays import Floats, Vector
from ofediq.errors import (
    InputError,
    OFedIQError,
    require,
    require_integer,
    require_kind,
    require_path,
    shown,
)
from ofediq.methods import Method
from ofediq.methods.round import formula_bits
from ofediq.models import Model
from ofediq.models.layers import spelled
from ofediq.simulation import checkpoint as saved
from ofediq.simulation.baselines import REFERENCES, first_learnt
from ofediq.simulation.blocks import (
    Block,
    Records,
    Runner,
    compiled_sums,
    first_carry,
    loop_block,
    scan_block,
)
from ofediq.simulation.fit import check_fit, check_memory, check_method
from ofediq.simulation.interrupt import deferred_interrupt
from ofediq.simulation.meeting import anyone, over_processes
from ofediq.simulation.mesh import own_share, place, shares, spans
from ofediq.simulation.native import descends, native_model, native_sums
from ofediq.simulation.result import Result
from ofediq.simulation.window import Feed, SamplePool, Setting
from ofediq.streams import Stream

Progress = Callable[[int, int], None]
Watch = Callable[[Floats, Floats], None]
"""Called with (steps done, steps in all) after every block."""

_BLOCK_WORK = 5e8  # clients x parameters x steps per block: a block takes a second or so on a laptop
_BLOCK_STEPS = 64


class InterruptedRunError(OFedIQError, KeyboardInterrupt):
    """The run was interrupted; `result` holds what was done until then."""

    def __init__(self, result: Result | None) -> None:
        super().__init__("interrupted")
        self.result = result


def simulate(
    method: Method,
    stream: Stream,
    model: Model,
    seed: int = 0,
    *,
    initial: npt.ArrayLike | None = None,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
    watch: Watch | None = None,
) -> Result:
    """Run `method` on `stream` with `model`, predict-then-learn at every step.

    Args:
        method: what to run, from `ofediq.methods`.
        stream: who sees what when, from `ofediq.streams`.
        model: what is learnt, from `ofediq.models`.
        seed: of every draw, and of the model's start.
        initial: start from these parameters instead of `model.initial(seed)`.
        progress: called with (steps done, steps in all).
        checkpoint: a file to save the state of the run to, and to resume from; of several processes the first one's.
        checkpoint_every: save about every so many steps; by default only when interrupted.
        resume: continue from `checkpoint` if it exists; the result is bit-identical to an uninterrupted run.
        mesh: devices to split the clients over, from `client_mesh`.
        watch: called with the losses and errors of the steps just done, sums over the clients; a resumed run begins
            with those before.

    >>> from ofediq import methods, models, streams
    >>> stream = streams.partition(streams.load("digits"), clients=10, steps=100)
    >>> result = simulate(methods.fedogd(step_size=0.1), stream, models.softmax(64, 10))
    >>> bool(result.accuracy[-1] > 0.5)
    True
    """
    for kind, name, value in (
        (Method, "method", method),
        (Stream, "stream", stream),
        (Model, "model", model),
    ):
        require_kind(kind, name, value)
    for name, listener in (("progress", progress), ("watch", watch)):
        require(listener is None or callable(listener), name, "must be a function", listener)
    if checkpoint_every is not None:
        require_integer("checkpoint_every", checkpoint_every, 1)
    path = None if checkpoint is None else require_path("checkpoint", checkpoint)
    run = _Run.prepare(method, stream, model, seed, initial, mesh)
    started = time.perf_counter()
    if path is not None:
        run.resume(path, resume)
    last_saved, watched = run.done, 0
    try:
        with deferred_interrupt(lambda: None) as check:  # a block is never left half done
            while run.done < stream.steps:
                run.advance()
                if progress is not None:
                    progress(run.done, stream.steps)
                if watch is not None:
                    watch(*run.curves(watched))
                    watched = run.done
                due = checkpoint_every is not None and run.done - last_saved >= checkpoint_every
                if path is not None and (anyone(due) if run.joined else due):
                    run.save(path)
                    last_saved = run.done
                check()
    except KeyboardInterrupt:
        if path is not None and run.done:
            run.save(path)
        raise InterruptedRunError(run.result(started) if run.done else None) from None
    return run.result(started)


@dataclass
class _Run:
    """The state of one simulation between blocks."""

    setting: Setting
    model: Model  # the user's; the setting's may be the layers that it is made of
    stream: Stream
    seed: int
    run_block: Runner
    engine: str
    feed: Feed
    share: slice  # the clients that this process feeds
    joined: bool  # whether other processes have clients too
    devices: int  # between all processes
    carry: Any
    blocks: list[Records]
    initial: Vector | None = None
    done: int = 0

    @classmethod
    def prepare(
        cls,
        method: Method,
        stream: Stream,
        model: Model,
        seed: int,
        initial: npt.ArrayLike | None,
        mesh: Mesh | None,
    ) -> _Run:
        """Check that the parts fit, and put data and first model in place."""
        require_integer("seed", seed, 0, 2**32 - 1)
        if mesh is not None:
            require_kind(Mesh, "mesh", mesh)
        check_fit(model, stream)
        check_method(method, model, stream.clients, mesh)
        try:
            params = model.initial(seed) if initial is None else np.asarray(initial, np.float32)
        except (TypeError, ValueError):
            raise InputError(f"`initial` must be {model.dim} finite numbers, got {shown(initial)}") from None
        if params.shape != (model.dim,) or not np.isfinite(params).all():
            raise InputError(f"`initial` must be {model.dim} finite numbers, got shape {list(params.shape)}")
        computes, layers = _computing(model, stream.x.shape[1:])
        setting, run_block, engine = _runner(Setting(method, computes, stream.clients, mesh), layers)
        devices, joined = shares(mesh), spans(mesh)
        if setting.mesh is None:
            share, mesh = own_share(stream.clients, mesh), None
        else:
            share = slice(0, -(-stream.clients // devices) * devices)  # with some that fill up the mesh
        padded = share.stop - share.start
        pool = place(SamplePool(stream.x, stream.y), mesh)  # type: ignore[arg-type]  # NumPy in, JAX out
        feed = Feed(pool, place(np.arange(share.start, share.stop, dtype=np.int32), mesh, 0), np.uint32(seed))
        carry: Any
        if method.topology == "federated":
            check_memory(method, params, padded, mesh)
            carry = first_carry(setting, jnp.asarray(params), padded)
            carry = carry._replace(round=place(carry.round, mesh), memory=place(carry.memory, mesh, 0))
        else:
            carry = first_learnt(setting, jnp.asarray(params))
        start = None if initial is None else params
        return cls(
            setting, model, stream, seed, run_block, engine, feed, share, joined, devices, carry, [], start
        )

    @property
    def method(self) -> Method:
        """What runs."""
        return self.setting.method

    def advance(self) -> None:
        """Run one block."""
        length = self.method.window(self.done)
        windows = self._block_windows(length)
        block = self._block(self.done, windows, length)
        self.carry, records = self.run_block(self.setting, self.carry, self.feed, block)
        found = jax.tree.map(np.asarray, records)
        self.blocks.append(found._replace(loss=found.loss[:, :length], error=found.error[:, :length]))
        self.done = min(self.done + windows * length, self.stream.steps)

    def records(self) -> Records:
        """Everything recorded so far."""
        return Records(*(np.concatenate([*map(np.ravel, field)]) for field in zip(*self.blocks, strict=True)))  # type: ignore[arg-type]  # NumPy for JAX

    def curves(self, begin: int) -> tuple[Floats, Floats]:
        """Losses and errors of the steps after `begin`, which is 0 or where a block began."""
        blocks = self.blocks[-1:] if begin else self.blocks
        losses, errors = (
            np.concatenate([np.ravel(getattr(block, name)) for block in blocks]) for name in ("loss", "error")
        )
        length = self.done - begin
        return losses[:length].astype(np.float64), errors[:length].astype(np.float64)

    def save(self, path: Path) -> None:
        """Write the state to `path`."""
        saved.save(path, self.identity, self.carry, self.records(), self.done, self.joined)

    def resume(self, path: Path, wanted: bool) -> None:
        """Continue from a checkpoint if that is `wanted` and there is one."""
        found = saved.load(path, self.identity, self.carry, self.joined, wanted)
        if found is None:
            return
        carry, records, done = found
        mesh = self.setting.mesh
        if self.joined and mesh is None:
            carry = carry._replace(memory=jax.tree.map(lambda rows: rows[self.share], carry.memory))
        if self.method.topology == "federated":
            carry = carry._replace(round=place(carry.round, mesh), memory=place(carry.memory, mesh, 0))
            state, memory = jax.tree.map(jnp.asarray, (carry.round, carry.memory))
            carry = carry._replace(round=state, memory=memory)
        else:
            carry = jax.tree.map(jnp.asarray, carry)
        self.carry, self.blocks, self.done = carry, [records], done

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to be continued."""
        return {
            "method": self.method.describe(),
            "model": self.model.describe(),
            "stream": self.stream.fingerprint(),
            "seed": self.seed,
            "devices": self.devices,
            "initial": saved.digest_of(self.initial),
        }

    def result(self, started: float) -> Result:
        """The steps done so far as a `Result`."""
        steps, dim = self.done, self.model.dim
        records = self.records()
        present = self.stream.present[:steps].sum(1).astype(np.float64)
        ends = self.method.ends(steps)
        senders, wire, downlink = np.zeros((3, steps))
        for curve, found in zip((senders, wire, downlink), records[2:], strict=True):
            curve[ends - 1] = found[: len(ends)]
        formula = wire
        if self.method.topology == "federated":
            each = formula_bits(self.method, dim)
            formula = wire if np.isnan(each) else senders * each
        return Result(
            method=self.method,
            model=self.model,
            stream=self.stream if steps == self.stream.steps else self.stream.head(steps),
            seed=self.seed,
            loss=np.asarray(records.loss, np.float64)[:steps],
            error=np.asarray(records.error, np.float64)[:steps],
            present=present,
            senders=senders,
            bits_formula=formula,
            bits_wire=wire,
            bits_downlink=downlink,
            params=np.asarray(self.carry.params),
            engine=self.engine,
            seconds=time.perf_counter() - started,
            initial=self.initial,
        )

    def _room(self, length: int) -> int:
        """Rows of a window of `length` steps: as many as the longest has, so that one program suits all.

        Those that stay empty are skipped. No window has more than the stream, however long it would go on.
        """
        if self.method.windows is not None:
            begun = [0, *self.method.ends(self.stream.steps).tolist()]
            length = max(self.method.window(step) for step in begun if step < self.stream.steps)
        return min(length, self.stream.steps)

    def _block_windows(self, length: int) -> int:
        """Windows per block: a resumed run repeats the same compiled blocks. All of a block have one length."""
        steps = int(np.clip(_BLOCK_WORK // (self.stream.clients * self.model.dim), 1, _BLOCK_STEPS))
        most = max(1, min(steps, self.stream.steps) // length)
        if self.method.windows is None:
            return most
        if self.setting.mesh is not None:  # one program for each number of windows
            return 1
        ends = self.method.ends(self.done + most * length)
        lengths = np.diff(ends[ends > self.done], prepend=self.done)
        return int(np.cumprod(lengths == length).sum())

    def _block(self, begin: int, windows: int, length: int) -> Block:
        """Windows after the step `begin`; beyond the end of the stream everyone is absent."""
        steps = self.stream.steps
        seen = min(length, steps)  # a window that is longer than the stream comes alone
        order = np.full((windows * seen, self.feed.ids.shape[0]), -1, np.int32)
        taken = self.stream.order[begin : begin + windows * seen, self.share]
        order[: len(taken), : taken.shape[1]] = taken
        empty = self._room(length) - seen
        rows = np.pad(order.reshape(windows, seen, -1), ((0, 0), (0, empty), (0, 0)), constant_values=-1)
        ends = begin + np.arange(1, windows + 1, dtype=np.int32) * np.int32(length)
        return Block(
            order=place(rows, self.setting.mesh, 2),
            step=place(ends, self.setting.mesh),
            transmit=place(ends <= steps, self.setting.mesh),
        )


def _computing(model: Model, shape: tuple[int, ...]) -> tuple[Model, str]:
    """What computes: the layers that `model` is made of, or itself; and a remark about it."""
    found = model.stack(shape)
    if isinstance(found, str):
        return model, found
    return found, "" if found is model else f"{model.name!r} as {spelled(found.layers)}"


def _runner(setting: Setting, layers: str) -> tuple[Setting, Runner, str]:
    """What runs a block of windows, and why: compiled kernels alone, JAX with kernels for the model, or JAX alone."""
    topology = setting.method.topology
    if topology != "federated":
        return setting, REFERENCES[topology], "JAX: a reference without a federation"
    sums_of = native_sums(setting)
    if not isinstance(sums_of, str):
        alone = sums_of.block if descends(setting) else loop_block(over_processes(sums_of, setting.mesh))
        return replace(setting, mesh=None), alone, ": ".join(filter(None, ("compiled kernels", layers)))
    model = native_model(setting)
    # Windows of many lengths would compile the whole round for each; what a server remembers is no JAX.
    whole = setting.method.windows is None and not setting.method.combine.remembers
    in_jax = scan_block if whole or setting.mesh is not None else loop_block(compiled_sums)
    reasons = "; ".join(filter(None, (sums_of, layers)))
    if isinstance(model, str):
        return setting, in_jax, f"JAX: {reasons}"
    return replace(setting, model=model), in_jax, f"compiled kernels in JAX: {reasons}"
