"""The page in a real browser."""

from collections.abc import Iterator

import pytest

from ofediq.federation.protocol.monitor import Monitor
from tests.dashboard.harness import Page, a_round, drifting, monitor
from tests.federation.mosquitto import free_port

pytest.importorskip("playwright", reason="the browser tests need playwright")
from playwright.sync_api import Browser

from tests.dashboard.browser import CHROMIUM, Tab, chromium

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"the browser tests need {CHROMIUM}")
THIN = "\u202f"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture
def served() -> Iterator[Page]:
    one = monitor()
    one.record(a_round(1))
    with Page(one) as running:
        yield running


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    one = Tab(browser, charts=False)
    yield one
    one.context.close()


@pytest.fixture
def full(browser: Browser) -> Iterator[Tab]:
    """A tab with charts."""
    one = Tab(browser)
    yield one
    one.context.close()


def rounds(first: int, last: int, one: Monitor) -> None:
    for step in range(first, last + 1):
        one.record(a_round(step))


def test_it_loads_and_its_numbers_move(served: Page, full: Tab) -> None:
    full.page.goto(served.address)
    full.until("#connection", "Live")
    full.drawn()
    # 4,000 bits were sent where FedOGD sends 32 x 650 x 20; 4 of 10 predictions were wrong.
    assert full.text("h1") == "greenhouse"
    assert full.text("#ccr") == f"99.0{THIN}%"
    assert full.text("#score") == f"60.0{THIN}%"
    assert full.text("#present") == "20 of 20"
    assert full.text("#updates") == "2"

    served.call(lambda one: rounds(2, 30, one))
    served.call(lambda one: one.record(a_round(31, samples=500, error=50.0)))
    served.call(lambda one: one.reject("c7", "malformed"))
    full.until("#updates", "62")
    full.until("#score", f"90.0{THIN}%")
    assert full.text("#updates-note") == "0 left out, 0 missed, 1 rejected, 0 clipped"
    full.until("#rejections", "malformed\t1")
    full.page.wait_for_function("() => document.getElementById('score-chart').data[1].x.length === 31")
    assert "at step 31" in full.page.text_content("#score-text")  # type: ignore[operator]  # it is there

    full.page.hover("#score-chart .draglayer")
    full.page.wait_for_selector("#score-chart .hovertext", state="attached")
    assert full.errors == []
    assert full.addresses
    assert all(address.startswith(served.address) for address in full.addresses)


def test_the_planner_works_by_keyboard(served: Page, tab: Tab) -> None:
    tab.page.goto(served.address)
    tab.until("#plan-levels", "3")  # at the budget 0.01
    tab.page.focus("#budget")
    tab.page.keyboard.press("End")
    tab.until("#budget-text", f"100{THIN}% of FedOGD\u2019s bits")
    tab.until("#plan-rate", "1")
    for _ in range(20):  # twenty steps of a twentieth of a power of ten
        tab.page.keyboard.press("ArrowLeft")
    tab.until("#budget-text", f"10{THIN}% of FedOGD\u2019s bits")
    wanted = served.get("plan.json?budget=0.1").json
    tab.until("#plan-blocks", str(wanted["blocks"]))
    tab.until("#plan-levels", str(wanted["levels"]))
    assert tab.page.get_attribute("#budget", "aria-valuetext") == f"10{THIN}% of FedOGD\u2019s bits"
    assert tab.errors == []


def test_it_survives_a_restart_of_the_server(tab: Tab) -> None:
    port = free_port()
    before = monitor()
    rounds(1, 10, before)
    with Page(before, port) as first:
        tab.page.goto(first.address)
        tab.until("#updates", "20")
    tab.until("#connection", "Reconnecting\u2026")
    tab.until("#announcer", "Connection lost, reconnecting.")
    after = monitor()
    after.restore(before.export())
    with Page(after, port) as second:
        tab.until("#connection", "Live")
        second.call(lambda one: one.record(a_round(11)))
        tab.until("#updates", "22")
    refused = [error for error in tab.errors if "ERR_CONNECTION_REFUSED" not in error]
    assert [error for error in refused if "ERR_INCOMPLETE_CHUNKED" not in error] == []


def test_the_token_is_asked_for_once(tab: Tab) -> None:
    with Page(monitor(), token="open-sesame") as guarded:
        assert (answer := tab.page.goto(guarded.address)) is not None
        assert answer.status == 401
        tab.page.fill("#token", "wrong")
        tab.page.keyboard.press("Enter")
        tab.until("h1", "That is not the token.")
        tab.errors.clear()  # the browser notes both refusals
        tab.page.fill("#token", "open-sesame")
        tab.page.keyboard.press("Enter")
        tab.until("#connection", "Live")
        assert tab.page.url == guarded.address  # the token is not in the history
        assert tab.page.evaluate("document.cookie") == ""
        tab.page.reload()
        tab.until("#connection", "Live")
        assert tab.errors == []


def test_two_hundred_clients_can_be_sorted_and_found_by_keyboard(tab: Tab) -> None:
    one = monitor(clients=250)
    one.client("c123", 123).sent = 9
    one.client("c7", 7).present, one.client("c7", 7).last_seen = False, None
    with Page(one) as served:
        tab.page.goto(served.address)
        tab.until("#clients-count", "250 registered, 249 present")
        assert tab.page.locator("#clients tbody tr").count() == 250
        tab.page.focus("th[data-by=sent] button")
        tab.page.keyboard.press("Enter")
        tab.until("#clients tbody tr th", "c123")
        assert tab.page.get_attribute("th[data-by=sent]", "aria-sort") == "descending"
        tab.page.keyboard.press("Enter")
        tab.until("#clients tbody tr th", "c0")
        tab.page.select_option("#show", "absent")
        tab.until("#clients tbody", "c7\tabsent\tnever\t0\t0\t0\t\u2013")
        tab.page.select_option("#show", "all")
        tab.page.fill("#find", "C24")
        tab.page.wait_for_function(
            "document.querySelectorAll('#clients tbody tr').length === 11"
        )  # c24, c240-c249
        tab.page.fill("#find", "nobody")
        tab.until("#clients-more", "No client fits.")
        assert tab.errors == []


def test_problems_and_states_are_shown_and_said(served: Page, tab: Tab) -> None:
    tab.page.goto(served.address)
    tab.until("#state", "Running")
    assert not tab.page.is_visible("#problems")
    served.call(lambda one: one.problem("disk", "The disk is <full>."))
    tab.until("#problem-list", "The disk is <full>.")
    tab.until("#announcer", "Needs attention: The disk is <full>.")
    served.call(lambda one: one.problem("disk", None))
    tab.page.wait_for_selector("#problems", state="hidden")

    def finish(one: Monitor) -> None:
        one.state = "finished"
        one.touch()

    served.call(finish)
    tab.until("#state", "Finished")
    tab.until("#announcer", "Finished.")
    assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(browser: Browser, served: Page, scheme: str) -> None:
    phone = Tab(
        browser, charts=scheme == "light", viewport={"width": 360, "height": 740}, color_scheme=scheme
    )
    phone.page.goto(served.address)
    phone.until("#connection", "Live")
    if scheme == "light":
        phone.drawn()
    problem = f"cannot write {'x' * 200}"
    served.call(lambda one: one.problem("disk", problem))
    phone.until("#problem-list", problem)
    width = phone.page.evaluate("document.querySelector('#problems').scrollWidth")
    assert width <= phone.page.evaluate("document.querySelector('#problems').clientWidth")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 360
    ground = phone.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 3 * 128) == (scheme == "dark")
    assert phone.errors == []
    phone.context.close()


def test_everything_has_a_name_for_screen_readers(served: Page, tab: Tab) -> None:
    tab.page.goto(served.address)
    tab.until("#connection", "Live")
    nameless = tab.page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, [role=img], [role=region], progress")]
        .filter((node) => !(node.labels?.length || node.getAttribute("aria-label")
          || document.getElementById(node.getAttribute("aria-labelledby")) || node.textContent.trim()))
        .map((node) => node.outerHTML)"""
    )
    assert nameless == []
    for landmark in ("header", "main", "footer"):
        assert tab.page.locator(f"body > {landmark}").count() == 1
    assert tab.page.locator("h1").count() == 1
    assert tab.page.locator("#clients th:not([scope])").count() == 0
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the numbers"
    assert tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_drift_is_marked_on_the_curve_and_said(served: Page, full: Tab) -> None:
    full.page.goto(served.address)
    full.until("#connection", "Live")
    full.drawn()
    assert not full.page.is_visible("#drift-key")
    alarm = served.call(lambda one: drifting(one, 2))
    full.page.wait_for_selector("#drift-key", state="visible")
    full.page.wait_for_function(
        "(step) => document.getElementById('score-chart').layout.shapes[0]?.x0 === step", arg=alarm
    )
    assert f"errors rose at step {alarm}" in full.text("#score-note")
    assert f"Errors rose at step {alarm}." in full.page.text_content("#score-text")  # type: ignore[operator]  # it is there
    assert served.get("health").json["last_drift"] == alarm
    assert full.errors == []


def test_a_regression_is_shown_by_its_error(tab: Tab) -> None:
    one = Monitor("weather", "regression", {"dim": 26})
    one.record(a_round(1, samples=4, error=0.5))
    with Page(one) as served:
        tab.page.goto(served.address)
        tab.until("#score-name", "Mean squared error")
        assert tab.text("#score") == "0.125"
        assert tab.errors == []


def test_errors_of_any_size_are_drawn_and_fit(full: Tab) -> None:
    one = Monitor("wild", "regression", {"dim": 26})
    for step, error in enumerate((1e-3, 1e2, 1e16, 1e31), 1):
        one.record(a_round(step, samples=4, error=4 * error, naive=4.0))
    with Page(one) as served:
        full.page.goto(served.address)
        full.until("#score-name", "Mean squared error")
        full.drawn()
        full.page.wait_for_selector("#score-chart .ytick text", state="attached")
        assert "skill below \u22121,000\u202f%" in full.text("#score-note")
        assert full.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert full.errors == []


def test_before_the_first_client_nothing_is_broken(full: Tab) -> None:
    with Page(Monitor("empty", "classification", {})) as served:
        full.page.goto(served.address)
        full.until("#state", "Waiting for clients")
        assert full.text("#ccr") == "\u2013"
        full.drawn()
        full.until("#plan-note", "`dim` must be an integer >= 1, got None")
        refused = [
            error for error in full.errors if "400" not in error
        ]  # the browser notes the planner's answer
        assert refused == []
