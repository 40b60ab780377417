"""What is written into certificates, and their signatures. No files here.

Keys are ECDSA on P-256: small, quick to make on a small board, and known to every TLS library.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ofediq.errors import InputError, require, require_integer

# A board without a battery for its clock wakes up in the past.
_BACKDATED = timedelta(days=1)
_LABEL = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


@dataclass(frozen=True)
class Subject:
    """Who a certificate is about.

    Attributes:
        name: the common name: what the broker calls the other side.
        kind: authority, broker, server or client; written as the organisational unit, for people and `describe`.
        hosts: of a broker, the names and addresses under which it is reached.
    """

    name: str
    kind: str
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Authority:
    """A certificate that signs others, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh private key."""
    return ec.generate_private_key(ec.SECP256R1())


def self_signed(
    key: ec.EllipticCurvePrivateKey, subject: Subject, days: int, now: datetime | None
) -> x509.Certificate:
    """The certificate of an authority. It signs what connects, and no further authorities."""
    public = key.public_key()
    name = _name(subject)
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    return (
        _builder(name, name, public, identifier, _period(days, now))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def signed(
    authority: Authority,
    key: ec.EllipticCurvePublicKey,
    subject: Subject,
    days: int,
    now: datetime | None,
) -> x509.Certificate:
    """The certificate of somebody else. A broker's is good for listening only, all others for connecting only."""
    listens = subject.kind == "broker"
    require(
        bool(subject.hosts) == listens, "hosts", "must be given for a broker, and only then", subject.hosts
    )
    hosts = [_host(each) for each in subject.hosts]
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if listens else ExtendedKeyUsageOID.CLIENT_AUTH
    issuer = authority.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_name(subject), issuer.subject, key, identifier, _period(days, now, issuer))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return builder.sign(authority.key, hashes.SHA256())


def subject_of(certificate: x509.Certificate) -> Subject:
    """Who `certificate` is about."""

    def text(kind: x509.ObjectIdentifier) -> str:
        return "".join(str(one.value) for one in certificate.subject.get_attributes_for_oid(kind))

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = tuple(str(one.value) for one in names)
    except x509.ExtensionNotFound:
        hosts = ()
    return Subject(text(NameOID.COMMON_NAME), text(NameOID.ORGANIZATIONAL_UNIT_NAME), hosts)


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the key of `authority` signed `certificate`."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: x509.SubjectKeyIdentifier,
    period: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    authority_key = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(period[0])
        .not_valid_after(period[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(authority_key, critical=False)
    )


def _name(subject: Subject) -> x509.Name:
    pairs = ((NameOID.ORGANIZATIONAL_UNIT_NAME, subject.kind), (NameOID.COMMON_NAME, subject.name))
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in pairs])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        valid = len(host) <= 253 and _HOST.fullmatch(host) is not None
        require(valid, "hosts", "must be host names or IP addresses", host)
        return x509.DNSName(host)


def _period(
    days: int, now: datetime | None, authority: x509.Certificate | None = None
) -> tuple[datetime, datetime]:
    require_integer("days", days, 1, 36500)
    start = now or datetime.now(UTC)
    end = start + timedelta(days=days)
    if authority is not None and end > authority.not_valid_after_utc:
        raise InputError(
            f"`days` must end before the authority does, on {authority.not_valid_after_utc:%Y-%m-%d}, got {days}"
        )
    return start - _BACKDATED, end
