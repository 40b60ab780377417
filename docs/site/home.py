"""The first page of the site is the README: written once."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as `index.md`."""
    readme = Path(config.config_file_path).with_name("README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=inside(readme)))
    return files


def inside(text: str) -> str:
    """Links as they are inside `docs/`; what lies elsewhere in the repository stays a word without a link.

    >>> inside("[Concepts](docs/concepts.md), [licence](LICENSE), [web](https://example.org)")
    '[Concepts](concepts.md), licence, [web](https://example.org)'
    """

    def moved(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if target.startswith("docs/"):
            return f"{picture}[{words}]({target.removeprefix('docs/')})"
        return match[0] if target.startswith(("http://", "https://", "#")) else words

    return _LINK.sub(moved, text)
