"""The compiled entropy code against constriction's, byte for byte, and the compiled quantiser against NumPy's."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq.codec import Encoded, Grid, Quantized, quantize
from ofediq.codec.entropy import decode_entropy, encode_entropy
from ofediq.codec.stack import Stack
from ofediq.errors import WireError
from ofediq.kernels import library
from ofediq.randomness import Address

pytestmark = pytest.mark.skipif(
    not library.native_status().startswith("compiled"), reason=library.native_status()
)


def popped(coded: bytes, count: int, weights: list[int], switch: str) -> tuple[object, object]:
    """What comes off the stack, symbols and then bytes, or why it does not."""
    with mock.patch.dict(os.environ, {library.SWITCH: switch}):
        stack = Stack(coded)
        try:
            symbols = stack.pop(count, np.array(weights), -3)
        except WireError as error:
            return str(error), stack.to_bytes()
        return symbols.tolist(), (stack.pop_bytes(200).tolist(), stack.to_bytes())


@given(
    st.lists(st.integers(0, 10**6), min_size=2, max_size=300).filter(any),
    st.integers(128, 5000),
    st.binary(max_size=4000).filter(lambda data: not data.endswith(b"\0")),
)
def test_any_bytes_give_the_same_symbols_and_leave_the_same(
    weights: list[int], count: int, coded: bytes
) -> None:
    assert popped(coded, count, weights, "1") == popped(coded, count, weights, "0")


@given(st.integers(2, 60), st.integers(128, 5000), st.integers(0, 2**32 - 1))
def test_what_was_pushed_comes_back(size: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 1000, size) ** 3 + 1
    symbols = rng.choice(size, count, p=weights / weights.sum()).astype(np.int32)
    stack = Stack()
    stack.push(symbols, weights, first=True)
    np.testing.assert_array_equal(Stack(stack.to_bytes()).pop(count, weights, last=True), symbols)


def test_without_compiled_code_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("OFEDIQ_CACHE", str(tmp_path))
    library.forget()
    try:
        assert library.find() is None or "prebuilt" in library.find()._name  # type: ignore[union-attr]  # just seen
    finally:
        monkeypatch.undo()
        library.forget()


@given(
    st.integers(2049, 20_000),
    st.sampled_from([1, 2, 3, 7, 17, 40, 500, 2**15]),
    st.sampled_from([16, 32]),
    st.floats(0.05, 3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_messages_are_written_as_by_constriction(
    dim: int, levels: int, norm_bits: int, heavy: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(1, 9 if seed % 2 else dim // 20))
    update = np.sign(rng.standard_normal(dim)) * rng.random(dim) ** -heavy * (rng.random(dim) < rng.random())
    update[: int(rng.integers(0, dim)) if seed % 3 else 0] = 0  # blocks of norm 0
    update = np.clip(update, -1e30, 1e30).astype(np.float32)
    address, found = Address(seed, 1, 2), {}
    for switch in "01":
        with mock.patch.dict(os.environ, {library.SWITCH: switch}):
            quantised = Quantized(levels, blocks, "entropy", norm_bits).encode(update, address)
            found[switch] = quantised, Grid().encode(update, address, float(2**-heavy))
    assert found["0"] == found["1"]


def test_long_messages_are_written_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = np.random.default_rng(0).integers(-3, 4, 5000).astype(np.int32)
    monkeypatch.setattr(Stack, "push", None)  # nobody asks for it
    assert 0 < len(encode_entropy(symbols, np.ones(10, np.float32), 3, 32)) < 2000


def read(payload: bytes, shape: tuple[int, int, int, int], switch: str) -> object:
    """Symbols and norms of a payload, or what is wrong with it."""
    with mock.patch.dict(os.environ, {library.SWITCH: switch}):
        try:
            symbols, norms = decode_entropy(payload, *shape)
        except WireError as error:
            return str(error)
        return symbols.tobytes(), norms.tobytes()


@given(
    st.integers(1, 9000),
    st.sampled_from([1, 2, 3, 7, 17, 40, 2000]),
    st.sampled_from([16, 32]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_whole_messages_are_read_as_in_python(dim: int, levels: int, norm_bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(1, min(dim, 300) + 1))
    update = rng.standard_normal(dim) * 10.0 ** rng.integers(-30, 30)
    update[: int(rng.integers(0, dim + 1)) if seed % 3 else 0] = 0  # blocks of norm 0, perhaps all
    message = quantize(update, levels=levels, blocks=blocks, seed=seed, norm_bits=norm_bits)
    payload = encode_entropy(message.symbols, message.norms, levels, norm_bits)
    shape = (dim, levels, blocks, norm_bits)
    assert read(payload, shape, "1") == (message.symbols.tobytes(), message.norms.tobytes())
    damaged = [bytes(rng.integers(0, 256, len(payload), np.uint8)), payload[:-1], payload + b"\1"]
    places = rng.integers(0, max(1, len(payload)), 6 if payload else 0)
    damaged += [payload[:at] + bytes([int(rng.integers(256))]) + payload[at + 1 :] for at in places]
    for one in damaged:
        assert read(one, shape, "1") == read(one, shape, "0")


def read_grid(message: Encoded, dim: int, step: float, switch: str) -> object:
    """The numbers in a message on a common grid, or what is wrong with it."""
    with mock.patch.dict(os.environ, {library.SWITCH: switch}):
        try:
            return Grid().decode(message, dim, Address(0, 1, 2), step).tobytes()
        except WireError as error:
            return str(error)


@given(st.integers(1, 9000), st.floats(-4, 1), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_messages_on_a_grid_are_read_as_in_python(dim: int, coarse: float, seed: int) -> None:
    rng, step = np.random.default_rng(seed), 10.0**coarse
    update = rng.standard_normal(dim) * (rng.random(dim) < rng.random())
    made = Grid().encode(update.astype(np.float32), Address(0, 1, 2), step)
    payload = made.payload
    places = rng.integers(0, max(1, len(payload)), 6 if payload else 0)
    damaged = [payload[:at] + bytes([int(rng.integers(256))]) + payload[at + 1 :] for at in places]
    for one in (payload, payload[:-1], payload + b"\1", *damaged):
        found = [read_grid(Encoded(one, made.tail), dim, step, switch) for switch in "01"]
        assert found[0] == found[1]


@given(st.integers(1, 3000), st.sampled_from([1, 3, 17, 2**15]), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_the_quantiser_rounds_as_in_python(dim: int, levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(1, dim + 1))
    updates = (rng.standard_normal((3, dim)) * 10.0 ** rng.integers(-45, 38, (3, dim))).astype(np.float32)
    updates[1] = 0
    scheme, address = Quantized(levels, blocks), Address(seed, 3, np.arange(3))
    found = {}
    for switch in "01":
        with mock.patch.dict(os.environ, {library.SWITCH: switch}):
            symbols, norms = scheme.quantise(updates, address)
            found[switch] = symbols.tobytes(), norms.tobytes()
    assert found["0"] == found["1"]
