"""Certificates for mutual TLS, in a folder: one authority, and what it issues to broker, server and clients.

    certs/
      authority/   certificate.pem, key.pem                  the key signs everything: keep it off the broker
      broker/      certificate.pem, key.pem, authority.pem   for mosquitto, with its host names
      server/      the same                                  for `ofediq serve`
      pi-03/       the same                                  for one client: this folder goes to the device

The common name is what the broker calls a connection. One folder per name, so nobody has the name of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast, get_args

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ofediq.errors import InputError, refusing, require, require_choice
from ofediq.federation.names import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, require_name
from ofediq.federation.security.files import store_folder
from ofediq.federation.security.signing import (
    Authority,
    Subject,
    is_signed_by,
    new_key,
    self_signed,
    signed,
    subject_of,
)
from ofediq.storage import save_bytes

Kind = Literal["authority", "broker", "server", "client"]

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365


@dataclass(frozen=True)
class Certificate:
    """One certificate in a folder of `make_authority`.

    Attributes:
        name: its common name.
        kind: authority, broker, server or client.
        hosts: names and addresses of a broker.
        starts: when it begins to be valid, in UTC.
        expires: when it ends.
        fingerprint: SHA-256 of the certificate, in hexadecimal.
        trusted: whether the authority in the same folder signed it.
        folder: where its files are.
    """

    name: str
    kind: Kind
    hosts: tuple[str, ...]
    starts: datetime
    expires: datetime
    fingerprint: str
    trusted: bool
    folder: Path

    def days_left(self, now: datetime | None = None) -> int:
        """Whole days until it expires; negative afterwards."""
        return (self.expires - (now or datetime.now(UTC))).days


def make_authority(
    folder: str | Path,
    name: str = "ofediq",
    *,
    days: int = AUTHORITY_DAYS,
    force: bool = False,
    now: datetime | None = None,
) -> Certificate:
    """Make the authority that signs all certificates of a federation.

    Args:
        folder: for this and all other certificates.
        name: its common name; only people look at it.
        days: how long it is valid.
        force: replace an authority. Everything that the old one signed becomes useless.
        now: when it begins; the present time if left out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     authority = make_authority(folder, "greenhouse")
    ...     issue(folder, "pi-03").trusted
    True
    """
    home = Path(folder) / "authority"
    subject = Subject(require_name("name", name), "authority")
    require_free(folder, home.name, force=force)
    key = new_key()
    certificate = self_signed(key, subject, days, now)
    store_folder(home, {CERTIFICATE_FILE: _pem(certificate)}, {KEY_FILE: _key_pem(key)})
    return _facts(home, certificate, certificate)


def issue(
    folder: str | Path,
    name: str,
    kind: Literal["broker", "server", "client"] = "client",
    *,
    hosts: Sequence[str] = (),
    days: int = CERTIFICATE_DAYS,
    force: bool = False,
    now: datetime | None = None,
) -> Certificate:
    """Issue a certificate with a new key, signed by the authority in `folder`.

    Args:
        folder: of `make_authority`.
        name: common name, and the name of the folder that the files go to.
        kind: `broker` listens, `server` and `client` connect to it. Neither can be used for the other.
        hosts: of a broker: every name or address under which others reach it.
        days: how long it is valid.
        force: replace the certificate of this name, key and all.
        now: when it begins; the present time if left out.
    """
    require_choice("kind", kind, ("broker", "server", "client"))
    require_name("name", name)
    require(name != "authority", "name", "must not be that of the authority", name)
    # A client with the server's common name would have the server's rights.
    require((name, kind) != ("server", "client"), "name", "must not be that of the server", name)
    home = Path(folder) / name
    authority = _read_authority(Path(folder))
    require_free(folder, name, force=force)
    key = new_key()
    certificate = signed(authority, key.public_key(), Subject(name, kind, tuple(hosts)), days, now)
    public = {CERTIFICATE_FILE: _pem(certificate), AUTHORITY_FILE: _pem(authority.certificate)}
    store_folder(home, public, {KEY_FILE: _key_pem(key)})
    return _facts(home, certificate, authority.certificate)


def renew(
    folder: str | Path, name: str, *, days: int | None = None, now: datetime | None = None
) -> Certificate:
    """Issue the same certificate for another period. The key stays, so only one file has to be exchanged.

    A renewed authority keeps its key as well: what it signed before stays valid. The copies of its certificate in
    this folder are exchanged; those on devices have to be, before the old one expires.

    Args:
        folder: of `make_authority`.
        name: whose; `authority` renews that one.
        days: how long it is valid from now on; the default of its kind if left out.
        now: when it begins; the present time if left out.
    """
    home = Path(folder) / require_name("name", name)
    authority = _read_authority(Path(folder))
    old = _read_certificate(home)
    if name == "authority":
        period = AUTHORITY_DAYS if days is None else days
        new = self_signed(authority.key, subject_of(old), period, now)
        authority = Authority(new, authority.key)
        for other in Path(folder).glob(f"[!.]*/{AUTHORITY_FILE}"):
            _exchange(other, new)
    else:
        period = CERTIFICATE_DAYS if days is None else days
        key = cast(ec.EllipticCurvePublicKey, old.public_key())
        new = signed(authority, key, subject_of(old), period, now)
        _exchange(home / AUTHORITY_FILE, authority.certificate)  # it may be a new one
    _exchange(home / CERTIFICATE_FILE, new)
    return _facts(home, new, authority.certificate)


def describe(folder: str | Path) -> tuple[Certificate, ...]:
    """What there is in `folder`: the authority first, then the others by kind and name."""
    homes = [path.parent for path in Path(folder).glob(f"[!.]*/{CERTIFICATE_FILE}")]
    authority = _read_certificate(_authority_home(Path(folder)))
    found = [_facts(home, _read_certificate(home), authority) for home in homes]
    return tuple(sorted(found, key=lambda one: (get_args(Kind).index(one.kind), one.name)))


def require_free(folder: str | Path, name: str, *, force: bool = False) -> None:
    """Raise `InputError` if `folder` has a certificate of this name, unless it is to be replaced by `force`."""
    if not force and (Path(folder) / require_name("name", name)).exists():
        raise InputError(
            f"`name` must be new, got {name!r}, which {str(folder)!r} has already; --force replaces it"
        )


def _authority_home(folder: Path) -> Path:
    home = folder / "authority"
    if not (home / CERTIFICATE_FILE).exists():
        raise InputError(
            f"`folder` must hold an authority, got {str(folder)!r}; `ofediq certs authority` makes one"
        )
    return home


def _read_authority(folder: Path) -> Authority:
    home = _authority_home(folder)
    certificate, path = _read_certificate(home), home / KEY_FILE
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read the authority's key {path}: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InputError(f"the key {path} does not belong to the certificate beside it")
    return Authority(certificate, key)


def _read_certificate(home: Path) -> x509.Certificate:
    path = home / CERTIFICATE_FILE
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"`name` must have a certificate, got {home.name!r}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the certificate {path}: {error}") from None
    if subject_of(certificate).kind not in get_args(Kind):
        raise InputError(f"the certificate {path} was not made by `ofediq certs`")
    return certificate


def _exchange(path: Path, certificate: x509.Certificate) -> None:
    with refusing("folder", "a writable folder", path.parent):
        save_bytes(path, _pem(certificate), mode=0o644)


def _facts(home: Path, certificate: x509.Certificate, authority: x509.Certificate) -> Certificate:
    subject = subject_of(certificate)
    return Certificate(
        name=subject.name,
        kind=cast(Kind, subject.kind),
        hosts=subject.hosts,
        starts=certificate.not_valid_before_utc,
        expires=certificate.not_valid_after_utc,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        trusted=is_signed_by(certificate, authority),
        folder=home,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
