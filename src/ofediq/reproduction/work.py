"""Run what is missing, keep what is done."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from ofediq.experiment import Listener
from ofediq.models import Model, build
from ofediq.report import value_text
from ofediq.reproduction.store import Record, Store
from ofediq.reproduction.units import Data, Unit
from ofediq.simulation import InterruptedRunError, Result, simulate
from ofediq.simulation.interrupt import deferred_interrupt
from ofediq.streams import Dataset, Stream, load, naive_references, partition


def run_units(units: Sequence[Unit], store: Store, listener: Listener, *, force: bool = False) -> bool:
    """Run the units that `store` does not hold; with `force` all of them. Returns whether all came to their end.

    An interruption keeps every finished unit, and the state of the one at hand.
    """
    missing = [unit for unit in units if force or store.load(unit) is None]
    try:
        for count, unit in enumerate(missing, 1):
            _run_one(unit, store, listener, f"{count}/{len(missing)}", force)
    except KeyboardInterrupt:
        return False
    return True


def deal(data: Data) -> Stream:
    """The stream of `data`; the last one is kept, since units that share it follow each other."""
    return _deal(data)


def model_for(stream: Stream) -> Model:
    """The paper's model for this stream."""
    return build("auto", stream.x.shape[1:], stream.task, stream.classes)


@lru_cache(maxsize=1)
def _deal(data: Data) -> Stream:
    kind = cast(Any, data.partition)  # checked by `partition`
    return partition(_load(data.dataset, data.options), data.clients, data.steps, kind, data.seed)


@lru_cache(maxsize=4)
def _load(dataset: str, options: tuple[tuple[str, str], ...]) -> Dataset:
    chosen: dict[str, Any] = dict(options)
    return load(dataset, "authors", **chosen)


def _run_one(unit: Unit, store: Store, listener: Listener, place: str, force: bool) -> None:
    stream = deal(unit.data)
    if store.load_naive(unit.data) is None:
        store.save_naive(unit.data, naive_references(stream))
    listener.started(
        f"[{place}] {unit.data.dataset} {unit.recipe.parameters} seed {unit.data.seed}", stream.steps
    )
    try:
        result = _simulate(unit, stream, store, listener, resume=not force)
    except InterruptedRunError as error:
        if error.result is not None and error.result.steps == stream.steps:
            store.save(unit, _record(error.result))
        raise KeyboardInterrupt from None
    store.save(unit, _record(result))
    listener.finished(f"{value_text(float(result.curve[-1]), result.metric)}, {result.seconds:.0f} s")


def _simulate(unit: Unit, stream: Stream, store: Store, listener: Listener, resume: bool) -> Result:
    with deferred_interrupt(listener.stopping) as check:

        def progress(done: int, steps: int) -> None:
            listener.advanced(done)
            check()

        return simulate(
            unit.recipe.build(unit.preset),
            stream,
            model_for(stream),
            unit.data.seed,
            progress=progress,
            checkpoint=store.checkpoint(unit),
            resume=resume,
        )


def _record(result: Result) -> Record:
    return Record(
        curve=result.curve,
        loss=result.loss,
        senders=result.senders,
        bits_formula=result.bits_formula,
        bits_wire=result.bits_wire,
        seconds=result.seconds,
        seed=result.seed,
    )
