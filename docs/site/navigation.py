"""Which page goes where. A page that is not named here is not lost: it is listed at the end."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("index.md", "concepts.md", "data.md", "own-data.md", "estimators.md", "flower.md", "models.md"),
    "Methods": (
        "methods.md",
        "every-method.md",
        "zoo.md",
        "own-method.md",
        "compressors.md",
        "step-size.md",
        "learning-per-bit.md",
        "planning.md",
    ),
    "Live": (
        "federation.md",
        "stations.md",
        "deploy.md",
        "device.md",
        "page.md",
        "tracking.md",
        "security.md",
        "privacy.md",
        "reliability.md",
    ),
    "Commands": ("commands/index.md",),
    "Paper": ("theory.md", "reproduction.md", "results.md"),
    "Inside": (
        "performance.md",
        "scale.md",
        "wire-format.md",
        "decisions.md",
        "decisions/core.md",
        "decisions/live.md",
        "migration.md",
    ),
    "API": ("api/index.md",),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make the navigation from the pages that there are."""
    config.nav = navigation([file.src_uri for file in files.documentation_pages()])
    return files


def navigation(pages: list[str]) -> list[dict[str, list[str]]]:
    """Sections with their pages: those named above in that order, then others of the same folder.

    >>> navigation(["concepts.md", "api/index.md", "api/codec.md", "new.md"])
    [{'Start': ['concepts.md']}, {'API': ['api/index.md', 'api/codec.md']}, {'More': ['new.md']}]
    """
    left = sorted(pages)
    found = []
    for title, wanted in SECTIONS.items():
        here = [page for page in wanted if page in left]
        folders = {page.split("/")[0] for page in wanted if "/" in page}
        here += [page for page in left if "/" in page and page.split("/")[0] in folders and page not in here]
        left = [page for page in left if page not in here]
        found.append({title: here})
    found.append({"More": left})
    return [section for section in found if any(section.values())]
