import gzip
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.dashboard.harness import Page, a_round, monitor


@pytest.fixture(scope="module")
def served() -> Iterator[Page]:
    one = monitor()
    for step in range(1, 4):
        one.record(a_round(step))
    with Page(one) as running:
        yield running


def test_the_page_is_html_without_inline_scripts_or_foreign_addresses(served: Page) -> None:
    answer = served.get("")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<script>" not in answer.text
    assert "style=" not in answer.text
    assert "://" not in answer.text


def test_the_snapshot_is_the_monitors(served: Page) -> None:
    snapshot = served.get("snapshot.json").json
    assert snapshot["federation"] == "greenhouse"
    assert [point["step"] for point in snapshot["history"]] == [1, 2, 3]
    assert snapshot["totals"]["ccr"] == pytest.approx(1 - 4000 / (32 * 650 * 20))


def test_metrics_have_prometheus_content_type(served: Page) -> None:
    answer = served.get("metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "\nofediq_rounds_total 3.0\n" in answer.text


def test_health_follows_the_problems(served: Page) -> None:
    well = {"healthy": True, "state": "running", "step": 3, "problems": []}
    assert served.get("health").json == {**well, "drift_alarms": 0, "last_drift": None}
    served.call(lambda one: one.problem("broker", "The broker at 10.0.0.5 does not answer."))
    sick = served.get("health")
    assert (sick.status, sick.json["problems"]) == (503, ["The broker at 10.0.0.5 does not answer."])
    served.call(lambda one: one.problem("broker", None))
    assert served.get("health").status == 200


def test_a_plan_is_that_of_the_paper() -> None:
    # The paper's example: budget 0.1, D = 34826, K = 1000 gives s = 17, b = 1134, p = 0.5151, alpha = 4.536.
    with Page(monitor(clients=1000, dim=34826)) as one:
        plan = one.get("plan.json?budget=0.1&method=paper").json
    assert (plan["levels"], plan["blocks"]) == (17, 1134)
    assert plan["rate"] == pytest.approx(0.5151, abs=5e-5)
    assert plan["regret_constant"] == pytest.approx(4.536, abs=5e-4)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("", "`budget` must be given, in (0, 1]"),
        ("?budget=2", "`budget` must lie in (0, 1], got '2'"),
        ("?budget=nan", "`budget` must lie in (0, 1], got 'nan'"),
        ("?budget=much", "`budget` must lie in (0, 1], got 'much'"),
        ("?budget=0.1&method=best", "`method` must be one of exact, paper, measured, got 'best'"),
    ],
)
def test_a_plan_for_nonsense_is_one_sentence(served: Page, query: str, sentence: str) -> None:
    answer = served.get(f"plan.json{query}")
    assert (answer.status, answer.json) == (400, {"error": sentence})


def test_a_plan_needs_the_size_of_the_model() -> None:
    with Page(monitor(dim=None)) as one:
        answer = one.get("plan.json?budget=0.1")
    assert (answer.status, answer.json["error"]) == (400, "`dim` must be an integer >= 1, got None")


def test_files_come_compressed_and_only_once(served: Page) -> None:
    plain = served.get("static/page.css")
    packed = served.get("static/page.css", **{"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert plain.headers["Content-Type"] == "text/css; charset=utf-8"
    assert served.get("static/page.css", **{"If-None-Match": plain.headers["ETag"]}).status == 304


def test_the_chart_script_comes_from_the_plotly_package(served: Page) -> None:
    answer = served.get("static/plotly.js")
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert answer.body[:40].startswith(b"/**\n* plotly.js v")


@pytest.mark.parametrize(
    "name", ["page.html", "token.html", "nothing.js", "..%2Fapp.py", "%2e%2e/app.py", "../app.py"]
)
def test_no_other_file_is_served(served: Page, name: str) -> None:
    assert served.get(f"static/{name}").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["", "snapshot.json", "events", "plan.json"])
def test_nothing_can_be_written(served: Page, path: str, method: str) -> None:
    assert served.get(path, method).status == 405


def test_the_head_of_the_events_ends(served: Page) -> None:
    answer = served.get("events", "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"


def test_events_arrive_while_they_happen(served: Page) -> None:
    where = urlsplit(served.address)
    with (
        socket.create_connection((where.hostname, where.port), timeout=10) as line,
        line.makefile("rb") as said,
    ):
        line.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        heard = iter(lambda: said.readline().decode(), "")
        names = (text.split()[1] for text in heard if text.startswith("event: "))
        assert next(names) == "snapshot"
        served.call(lambda one: one.record(a_round(4)))
        assert next(names) == "update"
        data = next(text for text in heard if text.startswith("data: "))
        assert json.loads(data.removeprefix("data: "))["step"] == 4
