"""The documentation site builds without a warning, asks no other host for anything, and misses no page or command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import ofediq
from ofediq.cli.app import app
from ofediq.experiment import Config
from ofediq.federation import Broker, FederationConfig, Rules
from ofediq.methods.registry import entries
from ofediq.settings import declared

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(?:https?:)?//|<link[^>]*\shref=\"?(?:https?:)?//"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0
    return folder


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert not [page.name for page in pages if LOADED.search(page.read_text())]
    assert not [
        sheet for sheet in site.rglob("*.css") if re.search(r"url\(\s*[\"']?https?:", sheet.read_text())
    ]


def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        address = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert f'href="{address.as_posix()}"' in home, address


def test_every_method_has_its_entry(site: Path) -> None:
    page = (site / "every-method.html").read_text()
    for name, one in entries().items():
        assert f'id="{name}"' in page
        assert all(f"<td>{parameter.name}</td>" in page for parameter in one.parameters)


def test_the_reference_has_every_command_and_option(site: Path) -> None:
    page = (site / "commands" / "index.html").read_text()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]  # it is a group
        assert f"ofediq {name}</" in page or f"ofediq {name}<a" in page
        for parameter in command.params:
            assert parameter.opts[0] in page


def test_the_reference_has_every_setting(site: Path) -> None:
    page = (site / "commands" / "settings.html").read_text()
    for kind in (Config, FederationConfig, Rules, Broker):
        assert [one.key for one in declared(kind) if f"<code>{one.key}</code>" not in page] == []


def test_the_api_has_every_public_name(site: Path) -> None:
    pages = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    for room in (ofediq.methods, ofediq.theory, ofediq.simulation, ofediq.streams, ofediq.testing):
        missing = [name for name in room.__all__ if not re.search(rf'id="ofediq\.[\w.]*\b{name}"', pages)]
        assert not missing


def test_equations_are_drawn_by_the_browser(site: Path) -> None:
    for name in ("theory", "methods", "step-size"):
        page = (site / f"{name}.html").read_text()
        assert "<math " in page
        assert "```math" not in page


def test_opened_as_files_the_search_finds_and_nothing_is_cut_off_or_wider_than_a_telephone(
    site: Path,
) -> None:
    pytest.importorskip("playwright", reason="the browser tests need playwright")
    from tests.dashboard.browser import CHROMIUM, chromium

    if not CHROMIUM.exists():
        pytest.skip(f"the browser tests need {CHROMIUM}")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto((site / "index.html").as_uri())
        assert (
            page.evaluate("""[...document.querySelectorAll("pre > code")]
            .filter((code) => code.scrollWidth > code.clientWidth).map((code) => code.innerText)""")
            == []
        )
        page.set_viewport_size({"width": 390, "height": 800})
        for name in ("index", "theory", "methods"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == 390, name
        page.set_viewport_size({"width": 1280, "height": 800})
        page.locator("input.md-search__input").click()
        page.keyboard.type("quantiser")
        page.wait_for_selector(".md-search-result__item")
