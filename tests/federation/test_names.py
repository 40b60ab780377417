from __future__ import annotations

import pytest

from ofediq.errors import InputError
from ofediq.federation.names import require_name


@pytest.mark.parametrize("name", ["a", "7", "pi-03", "shed.north_2", "x" * 64])
def test_safe_names(name: str) -> None:
    assert require_name("client", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 65,
        "a/b",
        "+",
        "a#",
        "$SYS",
        "..",
        ".hidden",
        "-rf",
        "a b",
        "a\n",
        "ä",
        "²",
        "%u",
        "a\x00",
        3,
        None,
    ],
)
def test_names_that_could_mean_something_else(name: object) -> None:
    with pytest.raises(
        InputError, match=r"^`client` must have 1 to 64 letters, digits or ._- and start with"
    ):
        require_name("client", name)
