"""Methods that break a contract on purpose: the report names that contract, and no other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.codec import Encoded
from ofediq.errors import ContractError, InputError
from ofediq.methods import Method
from ofediq.methods.client import ClientRule, Hold, Ogd
from ofediq.methods.compress import Identity, Quantize
from ofediq.methods.participation import Bernoulli
from ofediq.methods.server.rule import Descend
from ofediq.randomness import Address
from ofediq.testing import CONTRACTS, check_method

PIECES = [name for name in CONTRACTS if not name.startswith("run:")]
BASE = methods.ofedavg(0.3, 0.1)


@dataclass(frozen=True)
class Rounded(Identity):
    """Rounds to a tenth, always the same way: biased."""

    def apply(self, updates: Any, address: Address, signal: Any = None) -> tuple[Any, Any]:
        return super().apply((updates * 10).round() / np.float32(10), address)

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        return super().encode((update * 10).round() / np.float32(10), address)


@dataclass(frozen=True)
class Declared(Rounded):
    unbiased = False


@dataclass(frozen=True)
class Raising(Identity):
    """Has a defect."""

    def apply(self, updates: Any, address: Address, signal: Any = None) -> tuple[Any, Any]:
        raise AttributeError("nothing here")


@dataclass(frozen=True)
class Cheap(Identity):
    """Counts half of its bits."""

    def apply(self, updates: Any, address: Address, signal: Any = None) -> tuple[Any, Any]:
        sent, bits = super().apply(updates, address)
        return sent, bits / 2


@dataclass(frozen=True)
class Boastful(Identity):
    """Promises less than it sends."""

    def formula_bits(self, dim: int) -> float:
        return 8.0 * dim


@dataclass(frozen=True)
class TwoFaced(Identity):
    """The simulator sees the update, the server a part of it."""

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        return super().encode(update * np.float32(0.9), address)


@dataclass(frozen=True)
class SameForAll(Quantize):
    """All clients share one stream of draws."""

    def apply(self, updates: Any, address: Address, signal: Any = None) -> tuple[Any, Any]:
        return super().apply(updates, address._replace(client=address.client * 0))

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        return super().encode(update, address._replace(client=0))


@dataclass(frozen=True)
class Divides(Identity):
    """Goes through the norm, and forgets that it may be 0."""

    def apply(self, updates: Any, address: Address, signal: Any = None) -> tuple[Any, Any]:
        norms = (updates * updates).sum(1)[:, None] ** 0.5
        return super().apply(updates / norms * norms, address)


@dataclass(frozen=True)
class NumpyOnly(Identity):
    def apply(self, updates: Any, address: Address, signal: Any = None) -> tuple[Any, Any]:
        return super().apply(np.array(updates), address)


@dataclass(frozen=True)
class Lying(Bernoulli):
    """Sends with its rate, but states another."""

    def rates(self, clients: int) -> Any:
        return np.full(clients, 0.4, np.float32)


@dataclass(frozen=True)
class Stubborn(Bernoulli):
    """Draws once for every ten steps."""

    def active(self, seed: Any, step: Any, ids: Any, clients: int) -> Any:
        return super().active(seed, step // 10, ids, clients)


@dataclass(frozen=True)
class ByPosition(Bernoulli):
    """Takes its draws by position in the call, not by client."""

    def active(self, seed: Any, step: Any, ids: Any, clients: int) -> Any:
        return super().active(seed, step, np.arange(len(ids)), clients)


@dataclass(frozen=True)
class Remembers(Descend):
    """Keeps a momentum where nobody can save it."""

    past: tuple[list[Any], ...] = field(default=(), compare=False)

    def apply(self, params: Any, total: Any, clients: int, state: Any) -> tuple[Any, Any]:
        self.past[0].append(total)
        return super().apply(params, total + 0.5 * self.past[0][-2], clients, state)


@dataclass(frozen=True)
class InPlace(Descend):
    def apply(self, params: Any, total: Any, clients: int, state: Any) -> tuple[Any, Any]:
        total *= np.float32(self.step_size / clients)
        return params - total, state


@dataclass(frozen=True)
class Growing(Descend):
    """A state that gets longer with every step."""

    def init(self, params: Any) -> Any:
        return (params,)

    def apply(self, params: Any, total: Any, clients: int, state: Any) -> tuple[Any, Any]:
        return super().apply(params, total, clients, ())[0], (*state, total)


@dataclass(frozen=True)
class Restless(Hold):
    """Says that it does not move."""

    def step(self, params: Any, gradients: Any) -> Any:
        return params - np.float32(0.1) * gradients


@dataclass(frozen=True)
class Mixing(Ogd):
    """Lets clients see each other's gradients."""

    def step(self, params: Any, gradients: Any) -> Any:
        return super().step(params, gradients - gradients.mean(0))


@dataclass
class Loose(ClientRule):
    """Can be changed after it was compiled."""

    moves: bool = False

    def step(self, params: Any, gradients: Any) -> Any:
        return params


def compressing(piece: Any) -> Method:
    return replace(BASE, compress=piece)


CASES: dict[str, tuple[Method, dict[str, str]]] = {
    "biased": (compressing(Rounded()), {"compress: unbiased": "the mean of 4096 messages is off by"}),
    "half the bits": (
        compressing(Cheap()),
        {"compress: bits = bytes": "counts 144,016 bits .* where 288,032 are"},
    ),
    "formula": (
        compressing(Boastful()),
        {"compress: bits <= formula": "at most 5,200 bits, and 20,800 are sent"},
    ),
    "two faces": (compressing(TwoFaced()), {"compress: apply = encode": "`apply` and `encode` differ"}),
    "one stream": (
        compressing(SameForAll(3, 14)),
        {"compress: unbiased": "is off by", "compress: addressed draws": "do not depend on the client"},
    ),
    "zero norm": (
        compressing(Divides()),
        {"compress: zeros and extremes": "zeros does not come out as zeros"},
    ),
    "NumPy only": (compressing(NumpyOnly()), {"compress: NumPy = JAX": "fails inside jax.jit: TracerArray"}),
    "lying rates": (
        replace(BASE, participation=Lying(0.3)),
        {"participation: rates match draws": "client 0 sends with rate 0.4 by `rates`, but at 0.2"},
    ),
    "dependent draws": (
        replace(BASE, participation=Stubborn(0.3)),
        {"participation: rates match draws": "where independent draws would do so"},
    ),
    "draws by position": (
        replace(BASE, participation=ByPosition(0.3)),
        {"participation: addressed draws": "depends on the order in which clients are asked"},
    ),
    "hidden state": (
        replace(BASE, server=Remembers(0.1, past=([0.0],))),
        {
            "server: no hidden state": "the same call gives another result later",
            "server: NumPy = JAX": "raises UnexpectedTracerError: Encountered an unexpected tracer.$",
        },
    ),
    "in place": (
        replace(BASE, server=InPlace(0.1)),
        {"server: no hidden state": "changes its arguments in place"},
    ),
    "growing state": (replace(BASE, server=Growing(0.1)), {"server: NumPy = JAX": "shapes and types"}),
    "moves": (replace(BASE, client=Restless()), {"client: row by row": "`client.moves` is False, but"}),
    "mixing": (
        replace(BASE, client=Mixing(0.1)),
        {"client: row by row": "differently when it is treated alone"},
    ),
    "not frozen": (replace(BASE, client=Loose()), {"pieces: frozen": "`client` must be a frozen dataclass"}),
    "not JSON": (replace(BASE, name=b"bytes"), {"describe: JSON": "must be JSON"}),  # type: ignore[arg-type]  # on purpose
}


@pytest.mark.parametrize("key", CASES)
def test_the_right_contract_is_named(key: str) -> None:
    method, expected = CASES[key]
    report = check_method(method, contracts=PIECES, strict=False)
    assert {one.contract for one in report.broken} == set(expected), str(report)
    for finding in report.broken:
        assert re.search(expected[finding.contract], finding.sentence), finding.sentence


def test_a_declared_bias_is_no_bias() -> None:
    assert check_method(compressing(Declared()), contracts=["compress: unbiased"]).ok


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (compressing(TwoFaced()), r"^from step \d+ on the engine's losses are not those of the plain loop.$"),
        (replace(BASE, period=3, client=Restless()), "^it raises TypeError: scan body function carry"),
    ],
)
def test_a_run_shows_it_as_well(method: Method, sentence: str) -> None:
    report = check_method(method, contracts=["run: engine = plain loop"], strict=False)
    assert re.search(sentence, report.broken[0].sentence)


def test_all_sentences_are_in_the_error() -> None:
    names = ["compress: bits = bytes", "participation: rates", "compress: NumPy = JAX"]
    with pytest.raises(
        ContractError, match=r"^OFedAvg breaks a contract:\n  compress: bits = bytes: `apply` counts"
    ):
        check_method(compressing(Cheap()), contracts=names)


def test_a_piece_that_raises_is_told_and_not_hidden() -> None:
    report = check_method(compressing(Raising()), contracts=["compress: unbiased"], strict=False)
    assert report.broken[0].sentence == "it raises AttributeError: nothing here"


def test_the_report_lists_every_contract() -> None:
    names = ["participation: rates", "compress: unbiased"]
    lines = str(check_method(compressing(Rounded()), contracts=names, strict=False)).splitlines()
    assert lines[0] == "OFedAvg: 1 contracts kept, 1 broken, 0 skipped"
    assert lines[1].split()[:3] == ["kept", "participation:", "rates"]
    assert lines[2].split()[:3] == ["broken", "compress:", "unbiased"]


def test_own_stream_and_model() -> None:
    stream = streams.synthetic(clients=5, steps=10, features=4)
    report = check_method(methods.ofediq([0.5] * 5, 3, 2, step_size=0.01), stream, models.linear(4))
    skipped = [one.contract for one in report.findings if one.verdict == "skipped"]
    memories = [name for name in CONTRACTS if name.startswith("memory:")]
    # Nothing is remembered; nobody is absent; one block.
    assert skipped == [*memories, "run: absent clients", "run: resumed = uninterrupted"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (methods.ofediq(0.5, 3, 777),),
            "which is checked with 12 clients and 650 parameters: `blocks` must be",
        ),
        ((methods.ofedavg([0.5, 0.5]),), r"`rate` must have one entry per client \(12\), got 2"),
        ((BASE, streams.synthetic(clients=3, steps=5)), "`stream` and `model` must be given together"),
        (("fedogd",), "`method` must be a Method, got 'fedogd'"),
    ],
)
def test_bad_input(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_method(*arguments)


def test_an_unknown_contract_is_refused() -> None:
    with pytest.raises(InputError, match="`contracts` must be one of pieces: frozen, "):
        check_method(BASE, contracts=["speed"])
