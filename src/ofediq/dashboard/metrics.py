"""The record of a federation as Prometheus text, format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.core import SummaryMetricFamily as Summary
from prometheus_client.registry import Collector

from ofediq.federation.protocol.monitor import Monitor, skill

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STATES = ("waiting", "running", "finished")


def exposition(monitor: Monitor) -> str:
    """All metrics of a federation, as text.

    >>> monitor = Monitor("greenhouse", "classification", {})
    >>> monitor.reject("stranger", "malformed")
    >>> [line for line in exposition(monitor).splitlines() if "rejected" in line][-1]
    'ofediq_messages_rejected_total{reason="malformed"} 1.0'
    """
    registry = CollectorRegistry()
    registry.register(_Record(monitor))
    return generate_latest(registry).decode()


class _Record(Collector):
    """The metrics; counters start again at zero, or where a checkpoint left them, when the server restarts."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def collect(self) -> Iterable[Metric]:
        monitor, sums = self._monitor, self._monitor.sums()
        yield from _progress(monitor, sums)
        yield from _clients(monitor, sums)
        yield from _traffic(monitor, sums)
        yield from _learning(sums)


def _progress(monitor: Monitor, sums: Mapping[str, Any]) -> Iterator[Metric]:
    info = {"federation": monitor.federation, "task": monitor.task, "version": version("ofediq")}
    last = monitor.last
    about = Gauge("ofediq_info", "Which federation this is; always 1.", labels=list(info))
    about.add_metric(list(info.values()), 1)
    yield about
    yield Gauge("ofediq_start_time_seconds", "When the server started, in Unix time.", monitor.started)
    yield _by(
        Gauge("ofediq_state", "1 for the state that the federation is in.", labels=["state"]),
        {state: float(state == monitor.state) for state in _STATES},
    )
    yield Gauge("ofediq_problems", "Things that are wrong now; /health names them.", len(monitor.problems))
    yield Counter("ofediq_rounds", "Rounds closed.", sums["rounds"])
    yield Counter("ofediq_rollbacks", "Times that the model diverged and went back.", monitor.rollbacks)
    yield Counter("ofediq_drift_alarms", "Times that prediction errors had risen: drift.", monitor.alarms)
    yield Gauge(
        "ofediq_last_drift_step",
        "Time step of the last of these alarms; absent before the first.",
        monitor.drift[-1] if monitor.drift else None,
    )
    yield Gauge("ofediq_round_limit", "Rounds to run; absent where there is no end.", monitor.round_limit)
    yield Gauge("ofediq_step", "Time step of the last round.", monitor.step)
    yield Summary("ofediq_round_seconds", "How long rounds were open.", int(sums["rounds"]), sums["seconds"])
    yield Gauge(
        "ofediq_last_round_seconds",
        "How long the last round was open.",
        None if last is None else last.seconds,
    )
    yield Gauge(
        "ofediq_last_round_senders",
        "Updates that arrived in the last round.",
        None if last is None else last.senders,
    )


def _clients(monitor: Monitor, sums: Mapping[str, Any]) -> Iterator[Metric]:
    rows = monitor.rows()
    yield Gauge("ofediq_clients_registered", "Clients of this federation.", len(rows))
    yield Gauge("ofediq_clients_present", "Clients connected now.", sum(row.present for row in rows))
    quarantined = sum(row.quarantined for row in rows)
    yield Gauge("ofediq_clients_quarantined", "Clients whose updates are not read.", quarantined)
    yield Counter("ofediq_updates", "Updates that counted.", sums["updates"])
    yield Counter("ofediq_updates_missed", "Updates that were due and did not arrive.", sums["missed"])
    yield Counter("ofediq_updates_left_out", "Updates that arrived and did not count.", sums["left_out"])
    clipped = sum(row.clipped for row in rows)
    yield Counter("ofediq_updates_clipped", "Updates cut, or left out.", clipped)
    yield _by(
        Counter("ofediq_messages_rejected", "Messages refused, by reason.", labels=["reason"]),
        dict(sorted(monitor.rejected.items())),
    )


def _traffic(monitor: Monitor, sums: Mapping[str, Any]) -> Iterator[Metric]:
    yield _by(
        Counter(
            "ofediq_uplink_bits",
            "Uplink bits: wire as encoded, formula by the paper's formula, fedogd what FedOGD would have sent.",
            labels=["kind"],
        ),
        {kind: sums[f"bits_{kind}"] for kind in ("wire", "formula", "fedogd")},
    )
    yield Counter("ofediq_downlink_bits", "Bits of broadcasts, each counted once.", sums["bits_downlink"])
    yield _by(
        Counter(
            "ofediq_socket_bytes", "Bytes that crossed the connection, with framing.", labels=["direction"]
        ),
        monitor.socket,
    )


def _learning(sums: Mapping[str, Any]) -> Iterator[Metric]:
    for name, text in (
        (
            "error",
            "Errors of the predictions that clients reported: 0 or 1 in classification, squared in regression.",
        ),
        ("naive_error", "Errors of each client's last value for the same samples."),
    ):
        yield Summary(
            f"ofediq_prediction_{name}", text, int(sums["samples"]), sums[name.removesuffix("_error")]
        )
    yield Gauge("ofediq_skill", "1 - error / error of the last value.", skill(sums["error"], sums["naive"]))


def _by(family: Gauge | Counter, values: Mapping[str, float]) -> Metric:
    """`family` with one value for each value of its label."""
    for label, value in values.items():
        family.add_metric([label], value)
    return family
