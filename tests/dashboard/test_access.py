import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ofediq.dashboard import page
from ofediq.errors import InputError
from tests.dashboard.harness import Page, monitor

TOKEN = "open-sesame-42"
GUARDED = [
    "",
    "events",
    "snapshot.json",
    "metrics",
    "plan.json?budget=0.1",
    "static/page.js",
    "static/plotly.js",
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Page]:
    with Page(monitor(), token=TOKEN) as one:
        yield one


@pytest.fixture(scope="module")
def local() -> Iterator[Page]:
    with Page(monitor()) as one:
        yield one


@pytest.mark.parametrize("path", [*GUARDED, "nowhere"])
def test_without_the_token_nothing_is_told(guarded: Page, path: str) -> None:
    answer = guarded.get(path)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert b"greenhouse" not in answer.body


@pytest.mark.parametrize("path", sorted(set(GUARDED) - {"events"}))
def test_the_token_in_the_header_opens(guarded: Page, path: str) -> None:
    assert guarded.get(path, Authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.parametrize(
    "said", ["Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer {TOKEN}x", "Bearer \xe9"]
)
def test_anything_else_in_the_header_does_not(guarded: Page, said: str) -> None:
    assert guarded.get("metrics", Authorization=said).status == 401


def test_the_token_in_the_address_becomes_a_cookie(guarded: Page) -> None:
    answer = guarded.get(f"snapshot.json?token={TOKEN}")
    assert (answer.status, answer.headers["Location"]) == (303, "./snapshot.json")
    cookie, *flags = answer.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=lax"} <= set(flags)
    assert TOKEN not in cookie
    assert guarded.get("snapshot.json", Cookie=cookie).status == 200
    assert guarded.get("snapshot.json", Cookie=cookie + "0").status == 401


@pytest.mark.parametrize("offered", ["wrong", "", "%C3%A9", "%FF"])
def test_a_wrong_token_in_the_address_gets_no_cookie(guarded: Page, offered: str) -> None:
    answer = guarded.get(f"?token={offered}")
    assert answer.status == 401
    assert answer.headers["Set-Cookie"] is None


def test_a_browser_is_asked_for_the_token(guarded: Page) -> None:
    assert 'name="token"' in guarded.get("", Accept="text/html").text
    assert "not the token" in guarded.get("?token=wrong", Accept="text/html").text


def test_health_is_open_but_names_only_the_kind_of_problem(guarded: Page) -> None:
    guarded.call(lambda one: one.problem("checkpoint", "The disk of /srv/state is full."))
    answer = guarded.get("health")
    assert (answer.status, answer.json["problems"]) == (503, ["checkpoint"])
    told = guarded.get("health", Authorization=f"Bearer {TOKEN}")
    assert told.json["problems"] == ["The disk of /srv/state is full."]
    guarded.call(lambda one: one.problem("checkpoint", None))
    assert guarded.get("health").status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:8080", "[::1]:80", "127.1.2.3"])
def test_without_a_token_the_names_of_loopback_are_answered(local: Page, host: str) -> None:
    assert local.get("snapshot.json", Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::1"]
)
def test_and_no_others(local: Page, host: str) -> None:
    assert local.get("snapshot.json", Host=host).status == 421


@pytest.mark.parametrize("path", ["", "snapshot.json", "static/page.js", "nowhere", "health", "plan.json"])
def test_every_answer_is_locked_down_and_sets_no_cookie(local: Page, path: str) -> None:
    headers = local.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Set-Cookie"] is None


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "naïve"])
def test_a_token_is_a_word(token: str) -> None:
    with pytest.raises(
        InputError, match=r"^`token` must be a word of printable ASCII characters, got another$"
    ):
        page(monitor(), token=token)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("metrics?token=wrong", {}, 401),
        ("metrics", {"Authorization": "Bearer wrong"}, 401),
        ("metrics", {"Cookie": "ofediq_01234567=" + "0" * 64}, 401),  # as it would follow from a token
        ("health", {"Authorization": "Bearer wrong"}, 200),  # it says more to who knows the token
    ],
)
def test_guesses_wait_for_each_other(
    guarded: Page, path: str, headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ofediq.dashboard.access._GUESS", 0.1)
    start = time.monotonic()
    with ThreadPoolExecutor(5) as guessers:
        answers = list(guessers.map(lambda _: guarded.get(path, **headers).status, range(5)))
    assert answers == [status] * 5
    assert time.monotonic() - start >= 5 * 0.1
    start = time.monotonic()
    assert guarded.get("metrics", Authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.get("health").status == 200
    assert time.monotonic() - start < 5 * 0.1
