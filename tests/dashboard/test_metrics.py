from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ofediq.dashboard.metrics import exposition
from ofediq.federation.protocol.monitor import Monitor
from tests.dashboard.harness import a_round, drifting, monitor


def values(one: Monitor) -> dict[tuple[str, ...], float]:
    """Every sample by its name and label values, read by Prometheus' own parser."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(exposition(one))
        for sample in family.samples
    }


@pytest.fixture
def busy() -> Monitor:
    """Three rounds of twenty clients, one of them gone."""
    one = monitor()
    one.client("c3", 3).present = False
    one.client("c4", 4).clipped = 2
    one.record(a_round(1))
    one.record(a_round(2, senders=1, counted=1, error=1.5, seconds=0.25))
    one.record(a_round(3))
    one.reject("c1", "malformed")
    one.reject("stranger", "malformed")
    one.reject("c1", "late")
    one.socket.update({"in": 1500, "out": 90_000})
    return one


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (("ofediq_rounds_total",), 3),
        (("ofediq_round_limit",), 1000),
        (("ofediq_step",), 3),
        (("ofediq_state", "running"), 1),
        (("ofediq_state", "waiting"), 0),
        (("ofediq_problems",), 0),
        (("ofediq_clients_registered",), 20),
        (("ofediq_clients_present",), 19),
        (("ofediq_updates_total",), 5),
        (("ofediq_updates_missed_total",), 1),
        (("ofediq_updates_clipped_total",), 2),
        (("ofediq_messages_rejected_total", "malformed"), 2),
        (("ofediq_messages_rejected_total", "late"), 1),
        (("ofediq_uplink_bits_total", "wire"), 3 * 4000),
        (("ofediq_uplink_bits_total", "formula"), 3 * 4300),
        (("ofediq_uplink_bits_total", "fedogd"), 3 * 32 * 650 * 20),
        (("ofediq_downlink_bits_total",), 3 * 32 * 650),
        (("ofediq_socket_bytes_total", "in"), 1500),
        (("ofediq_socket_bytes_total", "out"), 90_000),
        (("ofediq_prediction_naive_error_sum",), 15.0),
        (("ofediq_prediction_naive_error_count",), 30),
        (("ofediq_skill",), 1 - 9.5 / 15.0),
        (("ofediq_prediction_error_sum",), 9.5),
        (("ofediq_round_seconds_sum",), 0.26),
        (("ofediq_round_seconds_count",), 3),
        (("ofediq_last_round_seconds",), 0.005),
        (("ofediq_last_round_senders",), 2),
    ],
)
def test_values(busy: Monitor, name: tuple[str, ...], value: float) -> None:
    assert values(busy)[name] == pytest.approx(value)


def test_every_family_says_what_it_is(busy: Monitor) -> None:
    families = list(text_string_to_metric_families(exposition(busy)))
    assert len(families) == len({family.name for family in families}) > 20
    for family in families:
        assert family.name.startswith("ofediq_")
        assert family.documentation.endswith(".")
        assert family.type in ("counter", "gauge", "summary")


def test_a_federation_without_rounds_leaves_out_what_it_does_not_know() -> None:
    found = values(Monitor("f", "regression", {}))
    assert found["ofediq_rounds_total",] == 0
    assert ("ofediq_round_limit",) not in found
    assert ("ofediq_last_round_seconds",) not in found


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "two\nlines", "naïve"])
def test_names_of_any_letters(name: str) -> None:
    one = Monitor(name, "regression", {})
    one.reject("c0", name)
    [info] = [key for key in values(one) if key[0] == "ofediq_info"]
    assert info[1] == name
    assert values(one)["ofediq_messages_rejected_total", name] == 1


@pytest.mark.parametrize("error", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none(error: float) -> None:
    one = monitor()
    one.record(a_round(1, error=error))
    assert values(one)["ofediq_prediction_error_sum",] == pytest.approx(error, nan_ok=True)


def test_sums_never_fall() -> None:
    one = monitor()
    before: dict[Any, float] = {}
    for step in range(1, 200):
        one.record(a_round(step, samples=7, error=0.1 * (step % 3 == 0)))
        now = values(one)
        counters = [key for key in now if key[0].endswith(("_total", "_sum", "_count"))]
        assert all(now[key] >= before.get(key, 0) for key in counters)
        before = now


def test_drift_is_counted_and_outlives_the_server() -> None:
    one = monitor()
    assert ("ofediq_last_drift_step",) not in values(one)
    alarm = drifting(one)
    assert 100 < alarm < 130
    again = monitor()
    again.restore(one.export())
    for each in (one, again):
        found = values(each)
        assert found[("ofediq_drift_alarms_total",)] == 1
        assert found[("ofediq_last_drift_step",)] == alarm
