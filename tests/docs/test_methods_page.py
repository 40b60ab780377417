"""The page about methods lists every method, as the registry describes it."""

from __future__ import annotations

from pathlib import Path

from ofediq.cli.methods import table

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def test_the_page_lists_every_method() -> None:
    listed = PAGE.read_text("utf-8").partition("<!-- made by `ofediq methods --markdown` -->\n")[2]
    assert listed.partition("\n<!-- end -->")[0] == table(), (
        "put the output of `ofediq methods --markdown` there"
    )
