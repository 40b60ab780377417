"""The record of a federation as Prometheus text, format 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

from ofediq.federation.protocol.monitor import Monitor

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STATES = ("waiting", "running", "finished")

Kind = Literal["counter", "gauge", "summary"]


class Sample(NamedTuple):
    """One line: a value with its labels. A summary's lines differ by the end of their names."""

    value: float | None
    labels: Mapping[str, str] = {}
    suffix: str = ""


class Family(NamedTuple):
    """A metric: all lines with one name."""

    name: str
    kind: Kind
    help: str
    samples: list[Sample]


def exposition(monitor: Monitor) -> str:
    """All metrics of a federation, as text.

    >>> monitor = Monitor("greenhouse", "classification", {})
    >>> monitor.reject("stranger", "malformed")
    >>> [line for line in exposition(monitor).splitlines() if "rejected" in line][-1]
    'ofediq_messages_rejected_total{reason="malformed"} 1'
    """
    return "".join(line + "\n" for family in families(monitor) for line in _lines(family))


def families(monitor: Monitor) -> list[Family]:
    """The metrics; counters start again at zero, or where a checkpoint left them, when the server restarts."""
    sums = monitor.sums()
    return [*_progress(monitor, sums), *_clients(monitor, sums), *_traffic(monitor, sums), *_learning(sums)]


def _progress(monitor: Monitor, sums: Mapping[str, Any]) -> Iterator[Family]:
    info = {"federation": monitor.federation, "task": monitor.task, "version": version("ofediq")}
    states = [Sample(float(state == monitor.state), {"state": state}) for state in _STATES]
    seconds = [Sample(sums["seconds"], suffix="_sum"), Sample(sums["rounds"], suffix="_count")]
    last = monitor.last
    yield Family("ofediq_info", "gauge", "Which federation this is; always 1.", [Sample(1, info)])
    yield _gauge("ofediq_start_time_seconds", "When the server started, in Unix time.", monitor.started)
    yield Family("ofediq_state", "gauge", "1 for the state that the federation is in.", states)
    yield _gauge("ofediq_problems", "Things that are wrong now; /health names them.", len(monitor.problems))
    yield _counter("ofediq_rounds_total", "Rounds closed.", sums["rounds"])
    yield _gauge("ofediq_round_limit", "Rounds to run; absent where there is no end.", monitor.round_limit)
    yield _gauge("ofediq_step", "Time step of the last round.", monitor.step)
    yield Family("ofediq_round_seconds", "summary", "How long rounds were open.", seconds)
    yield _gauge(
        "ofediq_last_round_seconds",
        "How long the last round was open.",
        None if last is None else last.seconds,
    )
    yield _gauge(
        "ofediq_last_round_senders",
        "Accepted updates in the last round.",
        None if last is None else last.senders,
    )


def _clients(monitor: Monitor, sums: Mapping[str, Any]) -> Iterator[Family]:
    rows = monitor.rows()
    reasons = [Sample(count, {"reason": reason}) for reason, count in sorted(monitor.rejected.items())]
    yield _gauge("ofediq_clients_registered", "Clients of this federation.", len(rows))
    yield _gauge("ofediq_clients_present", "Clients connected now.", sum(row.present for row in rows))
    yield _counter("ofediq_updates_total", "Updates accepted.", sums["updates"])
    yield _counter("ofediq_updates_missed_total", "Updates that were due and did not arrive.", sums["missed"])
    clipped = sum(row.clipped for row in rows)
    yield _counter("ofediq_updates_clipped_total", "Updates cut to the largest norm allowed.", clipped)
    yield Family("ofediq_messages_rejected_total", "counter", "Messages refused, by reason.", reasons)


def _traffic(monitor: Monitor, sums: Mapping[str, Any]) -> Iterator[Family]:
    uplink = [Sample(sums[f"bits_{kind}"], {"kind": kind}) for kind in ("wire", "formula", "fedogd")]
    socket = [Sample(count, {"direction": way}) for way, count in monitor.socket.items()]
    yield Family(
        "ofediq_uplink_bits_total",
        "counter",
        "Uplink bits: wire as encoded, formula by the paper's formula, fedogd what FedOGD would have sent.",
        uplink,
    )
    yield _counter(
        "ofediq_downlink_bits_total", "Bits of broadcasts, each counted once.", sums["bits_downlink"]
    )
    yield Family(
        "ofediq_socket_bytes_total", "counter", "Bytes that crossed the connection, with framing.", socket
    )


def _learning(sums: Mapping[str, Any]) -> Iterator[Family]:
    for name, text in (
        ("loss", "Losses of the predictions that clients reported."),
        ("error", "Errors of these predictions: 0 or 1 in classification, squared in regression."),
    ):
        samples = [Sample(sums[name], suffix="_sum"), Sample(sums["samples"], suffix="_count")]
        yield Family(f"ofediq_prediction_{name}", "summary", text, samples)


def _gauge(name: str, text: str, value: float | None) -> Family:
    return Family(name, "gauge", text, [Sample(value)])


def _counter(name: str, text: str, value: float) -> Family:
    return Family(name, "counter", text, [Sample(value)])


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {_escape(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    for value, labels, suffix in family.samples:
        if value is not None:
            yield f"{family.name}{suffix}{_labels(labels)} {_number(value)}"


def _labels(labels: Mapping[str, str]) -> str:
    quoted = (
        f'{name}="{_escape(value).replace(chr(34), chr(92) + chr(34))}"' for name, value in labels.items()
    )
    return "{" + ",".join(quoted) + "}" if labels else ""


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return str(int(value)) if value == int(value) else repr(float(value))
