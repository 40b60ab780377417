"""Names of federations and clients, which become topics, folders and common names of certificates; names of files."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from ofediq.errors import require

CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "key.pem"
AUTHORITY_FILE = "authority.pem"
"""What `ofediq certs` puts into the folder of a broker, a server or a client."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_RULE = "have 1 to 64 letters, digits or ._- and start with a letter or digit"

Name = Annotated[
    str,
    Meta(
        pattern=rf"\A{_NAME.pattern}\Z",
        extra={"rule": _RULE, "plural": f"names, each of which must {_RULE}"},
    ),
]
"""A safe name, for settings: the rule of `require_name`."""


def require_name(argument: str, value: object) -> str:
    """Return `value` if it is a safe name, or raise `InputError` about `argument`.

    A name has 1 to 64 letters, digits, dots, hyphens or underscores and starts with a letter or a digit. So it has
    no meaning of its own to a broker (`+`, `#`, `/`, `$`), a file system (`..`) or a shell.

    >>> require_name("client", "pi-03.shed")
    'pi-03.shed'
    >>> require_name("client", "shed/+")
    Traceback (most recent call last):
    ofediq.errors.InputError: `client` must have 1 to 64 letters, digits or ._- and start with a letter or digit,
    got 'shed/+'
    """
    require(is_name(value), argument, f"must {_RULE}", value)
    return str(value)


def is_name(value: object) -> bool:
    """Whether `require_name` takes it."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None
