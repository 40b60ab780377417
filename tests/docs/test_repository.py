"""What stands beside the code for people: its links and paths lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ofediq

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(page.name for page in ROOT.glob("*.md")), "paper/paper.md"]
FOLDERS = (
    "src",
    "tests",
    "docs",
    "benchmarks",
    "examples",
    "device",
    "deploy",
    "methods",
    "models",
    "codec",
    "simulation",
)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    targets = re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8"))
    assert [one for one in targets if "://" not in one and not (page.parent / one).exists()] == []


def test_the_paper_cites_what_is_in_its_bibliography() -> None:
    cited = set(re.findall(r"@(\w+)", (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")))
    listed = re.findall(
        r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(cited) == sorted(listed)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_paths_are_there(name: str) -> None:
    words = re.findall(r"`([\w./]+/[\w./]*)`", (ROOT / name).read_text(encoding="utf-8"))
    paths = [word for word in words if word.split("/")[0] in FOLDERS and "NAME" not in word]
    places = (ROOT, ROOT / "src" / "ofediq")
    assert [path for path in paths if not any((place / path).exists() for place in places)] == []


def test_the_citation_is_of_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == ofediq.__version__
    assert {"cff-version", "title", "message", "authors"} <= set(citation)


@pytest.mark.parametrize("template", ["defect", "method", "question"])
def test_issue_templates_are_forms(template: str) -> None:
    yaml = pytest.importorskip("yaml")
    form = yaml.safe_load(
        (ROOT / ".github" / "ISSUE_TEMPLATE" / f"{template}.yml").read_text(encoding="utf-8")
    )
    assert {"name", "description", "body"} <= set(form)
    for field in form["body"]:
        assert field["type"] in ("checkboxes", "dropdown", "input", "markdown", "textarea")
        assert field["attributes"].get("label")
    names = [field["id"] for field in form["body"]]
    assert len(set(names)) == len(names)
