"""The reference of all methods, made from what the registry knows of them."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ofediq.cli.methods import page
from ofediq.methods.registry import entries

PAGE = "every-method.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    files.append(File.generated(config, PAGE, content=reference()))
    return files


def reference() -> str:
    """All methods of this package on one page: equations, bits, memory, parameters, source.

    >>> "## scaffold" in reference()
    True
    """
    own = [one for one in entries().values() if one.build.__module__.startswith("ofediq.")]
    first = (
        "# Every method\n\nEquations, bits, memory and parameters of each, what it is good for, what its online form "
        "changes, and what public code of the originals gets wrong. `ofediq methods NAME` prints the same."
    )
    return "\n\n".join([first, *map(page, own)])
