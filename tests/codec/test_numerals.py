"""The compiled decoder of the entropy code against constriction's."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.codec.stack import Stack
from ofediq.errors import WireError
from ofediq.kernels import library

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
