"""Messages that are read together are read as each alone: the same numbers, the same refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.codec import Encoded
from ofediq.errors import WireError
from ofediq.methods import identity, quantize, rotate
from ofediq.methods.compress import Compressor
from ofediq.randomness import Address

SCHEMES: list[Compressor] = [
    quantize(1, 1),
    quantize(17, 5, norm_bits=16),
    quantize(2**15, 3),
    quantize(3, 7, coding="entropy"),
    rotate(2),
    identity(),
]


def alone(scheme: Compressor, one: Encoded, dim: int, client: int) -> object:
    try:
        return scheme.decode(one, dim, Address(0, 5, client)).tobytes()
    except WireError as error:
        return str(error)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda one: f"{one.name}")
@given(data=st.data())
def test_together_as_alone(scheme: Compressor, data: st.DataObject) -> None:
    dim = data.draw(st.sampled_from([7, 64, 65, 500, 3001]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    vectors = rng.standard_normal((9, dim)).astype(np.float32)
    vectors[1], vectors[2, : dim // 2] = 0, 0  # blocks of norm 0
    sent = [scheme.encode(row, Address(0, 5, 3 * client)) for client, row in enumerate(vectors)]
    for place in data.draw(st.sets(st.integers(0, 8))):
        payload = bytearray(sent[place].payload)
        if payload:
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(0, 1))
        sent[place] = Encoded(bytes(payload[: len(payload) - cut]), data.draw(st.sampled_from([0, 7, 255])))
    clients = np.arange(9) * 3
    together = scheme.decode_many(sent, dim, Address(0, 5, clients))
    shown = [str(one) if isinstance(one, WireError) else one.tobytes() for one in together]
    assert shown == [alone(scheme, one, dim, int(client)) for one, client in zip(sent, clients, strict=True)]


def test_none_are_none() -> None:
    assert quantize(3, 2).decode_many([], 10, Address(0, 1, np.zeros(0, int))) == []
