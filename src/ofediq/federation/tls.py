"""The encrypted side of a connection, from a folder that `ofediq certs` made. Needs no further package."""

from __future__ import annotations

import ssl
from pathlib import Path

from ofediq.errors import InputError

CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "key.pem"
AUTHORITY_FILE = "authority.pem"


def client_context(folder: str | Path) -> ssl.SSLContext:
    """TLS for whoever connects to the broker: shows the certificate in `folder`, and checks the broker's.

    Args:
        folder: with certificate.pem, key.pem and authority.pem. The broker must have a certificate of that authority
            for the host name that the connection is made to; authorities of the system do not count.
    """
    home = Path(folder)
    for name in (CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE):
        if not (home / name).is_file():
            raise InputError(f"`folder` must hold {name}, got {str(folder)!r}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(home / AUTHORITY_FILE)
        context.load_cert_chain(home / CERTIFICATE_FILE, home / KEY_FILE)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error.strerror or error
        raise InputError(f"cannot use the certificates in {str(folder)!r}: {reason}") from None
    return context
