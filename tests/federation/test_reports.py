"""Four bytes about predictions: nothing is lost by rounding, and they come as often as asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.federation.protocol.reports import REPORT_BYTES, Report
from tests.federation.network import Network
from tests.federation.test_inputs import run, sensors, server


@given(
    st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1e12)), max_size=50),
    st.booleans(),
)
def test_reports_lose_nothing(errors: list[tuple[float, float]], counted: bool) -> None:
    waiting, told = Report(), [0.0, 0.0, 0.0]
    for error, naive in errors:
        waiting = waiting.plus(float(error > 1) if counted else error, float(naive > 1) if counted else naive)
        sent, waiting = waiting.split(counted=counted)
        data = sent.encode()
        assert len(data) == REPORT_BYTES <= 4
        assert Report.decode(data) == sent
        told = [told[0] + sent.samples, told[1] + sent.error, told[2] + sent.naive]
    assert told[0] == len(errors)
    for place in (0, 1):
        total = sum(float(one[place] > 1) if counted else one[place] for one in errors)
        rest = (waiting.error, waiting.naive)[place]
        assert told[1 + place] + rest == pytest.approx(total, rel=1e-9)
        assert not counted or rest == 0


@given(st.integers(0, 10**6))
def test_any_number_of_predictions_is_told_in_the_end(samples: int) -> None:
    waiting, told, messages = Report(samples, float(samples), 0.0), 0, 0
    while waiting.samples:
        sent, waiting = waiting.split(counted=True)
        assert Report.decode(sent.encode()) == sent
        assert sent.error <= sent.samples
        told, messages = told + sent.samples, messages + 1
        assert messages < 60
    assert told == samples


@pytest.mark.parametrize(("every", "share"), [(1, 1.0), (5, 0.2), (0, 0.0)])
def test_reports_come_as_often_as_asked(every: int, share: float) -> None:
    one = server(report_every=every)
    network, reported = Network(one, sensors()), []

    def look(name: str, said: Any) -> list[Any]:
        reported.append(bool(said.payload[1] & 0x80))
        return [said]

    network.tamper = look
    run(network)
    assert np.mean(reported) <= max(share * 1.5, 0.0) + 1e-9
    assert (np.mean(reported) > 0) == (every > 0)
