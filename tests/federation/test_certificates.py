from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from ofediq.errors import InputError
from ofediq.federation.security.certificates import describe, issue, make_authority, renew

NOW = datetime(2030, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    make_authority(tmp_path, "greenhouse", now=NOW)
    return tmp_path


def read(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "certificate.pem").read_bytes())


def extension(folder: Path, kind: type[Any]) -> Any:
    return read(folder).extensions.get_extension_for_class(kind)


def test_an_authority_signs_and_does_nothing_else(certs: Path) -> None:
    home = certs / "authority"
    constraints = extension(home, x509.BasicConstraints)
    usage = extension(home, x509.KeyUsage)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, True, False)


@pytest.mark.parametrize(
    ("kind", "hosts", "purpose"),
    [
        ("client", (), ExtendedKeyUsageOID.CLIENT_AUTH),
        ("server", (), ExtendedKeyUsageOID.CLIENT_AUTH),
        ("broker", ("localhost", "::1"), ExtendedKeyUsageOID.SERVER_AUTH),
    ],
)
def test_a_certificate_says_what_it_is_for(
    certs: Path, kind: Any, hosts: tuple[str, ...], purpose: Any
) -> None:
    issued = issue(certs, "one", kind, hosts=hosts, days=10, now=NOW)
    assert (issued.name, issued.kind, issued.hosts, issued.trusted) == ("one", kind, hosts, True)
    assert issued.starts < NOW
    assert issued.expires == NOW + timedelta(days=10)
    assert list(extension(issued.folder, x509.ExtendedKeyUsage).value) == [purpose]
    assert extension(issued.folder, x509.BasicConstraints).value.ca is False
    key = extension(certs / "authority", x509.SubjectKeyIdentifier).value.digest
    assert extension(issued.folder, x509.AuthorityKeyIdentifier).value.key_identifier == key


def test_an_independent_verifier_accepts_the_chain(certs: Path) -> None:
    """The strict profile of the web, which the broker's certificate has to meet in other libraries too."""
    issue(certs, "broker", "broker", hosts=["broker.example"], now=NOW)
    store = Store([read(certs / "authority")])
    verifier = PolicyBuilder().store(store).time(NOW).build_server_verifier(x509.DNSName("broker.example"))
    assert len(verifier.verify(read(certs / "broker"), [])) == 2


def test_everybody_gets_another_key_and_number(certs: Path) -> None:
    issued = [read(issue(certs, name, now=NOW).folder) for name in ("a", "b")]
    assert issued[0].public_key() != issued[1].public_key()
    assert issued[0].serial_number != issued[1].serial_number


def test_keys_are_for_their_owner(certs: Path) -> None:
    before = os.umask(0)
    try:
        issue(certs, "pi-1", now=NOW)
    finally:
        os.umask(before)
    for home in ("authority", "pi-1"):
        assert stat.S_IMODE((certs / home / "key.pem").stat().st_mode) == 0o600
        assert stat.S_IMODE((certs / home).stat().st_mode) == 0o700
    assert sorted(path.name for path in (certs / "pi-1").iterdir()) == [
        "authority.pem",
        "certificate.pem",
        "key.pem",
    ]


def test_nothing_is_overwritten_unasked(certs: Path) -> None:
    first = issue(certs, "pi-1", now=NOW)
    attempts: list[Callable[[], object]] = [lambda: issue(certs, "pi-1"), lambda: make_authority(certs)]
    for attempt in attempts:
        with pytest.raises(InputError, match=r"^`name` must be new, got .*; --force replaces it$"):
            attempt()
    assert describe(certs)[1] == first
    second = issue(certs, "pi-1", now=NOW, force=True)
    assert second.fingerprint != first.fingerprint
    assert len(list(certs.iterdir())) == 2  # no leftovers


def test_a_new_authority_does_not_trust_what_the_old_one_signed(certs: Path) -> None:
    issue(certs, "pi-1", now=NOW)
    make_authority(certs, now=NOW, force=True)
    assert [one.trusted for one in describe(certs)] == [True, False]
    assert renew(certs, "pi-1", now=NOW).trusted
    assert (certs / "pi-1" / "authority.pem").read_bytes() == (
        certs / "authority" / "certificate.pem"
    ).read_bytes()


def test_renewal_keeps_key_name_and_hosts(certs: Path) -> None:
    first = issue(certs, "broker", "broker", hosts=["localhost", "10.0.0.1"], days=10, now=NOW)
    key, certificate = (first.folder / "key.pem").read_bytes(), read(first.folder)
    second = renew(certs, "broker", days=20, now=NOW)
    assert second.expires - first.expires == timedelta(days=10)
    assert (second.hosts, second.kind, second.name) == (first.hosts, "broker", "broker")
    assert (first.folder / "key.pem").read_bytes() == key
    assert read(first.folder).public_key() == certificate.public_key()


def test_a_renewed_authority_still_trusts_what_it_signed(certs: Path) -> None:
    issue(certs, "pi-1", now=NOW)
    later = renew(certs, "authority", now=NOW + timedelta(days=3000))
    assert later.name == "greenhouse"
    assert all(one.trusted for one in describe(certs))
    assert (certs / "pi-1" / "authority.pem").read_bytes() == (
        certs / "authority" / "certificate.pem"
    ).read_bytes()


def test_the_list_is_in_order_and_counts_the_days(certs: Path) -> None:
    for name in ("pi-2", "pi-1"):
        issue(certs, name, days=30, now=NOW)
    issue(certs, "server", "server", now=NOW)
    issue(certs, "broker", "broker", hosts=["localhost"], now=NOW)
    found = describe(certs)
    assert [(one.kind, one.name) for one in found] == [
        ("authority", "greenhouse"),
        ("broker", "broker"),
        ("server", "server"),
        ("client", "pi-1"),
        ("client", "pi-2"),
    ]
    assert found[-1].days_left(NOW) == 30
    assert found[-1].days_left(NOW + timedelta(days=31)) == -1


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"name": "../x"}, "`name` must have 1 to 64 letters"),
        ({"name": "authority"}, "`name` must not be that of the authority, got 'authority'"),
        ({"name": "server"}, "`name` must not be that of the server, got 'server'"),
        ({"kind": "king"}, "`kind` must be one of broker, server, client, got 'king'"),
        ({"days": 0}, "`days` must be an integer from 1 to 36500, got 0"),
        ({"days": 3651}, "`days` must end before the authority does, on 2040-04-28, got 3651"),
        ({"kind": "broker"}, "`hosts` must be given for a broker, and only then, got ()"),
        ({"hosts": ("localhost",)}, "`hosts` must be given for a broker, and only then, got ('localhost',)"),
        ({"kind": "broker", "hosts": ("a b",)}, "`hosts` must be host names or IP addresses, got 'a b'"),
        ({"kind": "broker", "hosts": ("-a.example",)}, "`hosts` must be host names or IP addresses"),
        ({"kind": "broker", "hosts": ("*",)}, "`hosts` must be host names or IP addresses"),
        ({"kind": "broker", "hosts": ("mqtts://a",)}, "`hosts` must be host names or IP addresses"),
    ],
)
def test_wrong_choices_are_one_sentence(certs: Path, choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        issue(certs, **{"name": "one", "now": NOW, **choices})
    assert str(caught.value).startswith(sentence)
    assert [path.name for path in certs.iterdir()] == ["authority"]


@pytest.mark.parametrize(
    "action", [describe, lambda folder: issue(folder, "a"), lambda folder: renew(folder, "a")]
)
def test_a_folder_without_authority(tmp_path: Path, action: Callable[[Path], object]) -> None:
    with pytest.raises(
        InputError, match=r"^`folder` must hold an authority, got .*`ofediq certs authority` makes"
    ):
        action(tmp_path)


def test_broken_files_are_one_sentence(certs: Path) -> None:
    issue(certs, "pi-1", now=NOW)
    with pytest.raises(InputError, match=r"^`name` must have a certificate, got 'pi-2'$"):
        renew(certs, "pi-2")
    (certs / "authority" / "key.pem").write_bytes((certs / "pi-1" / "key.pem").read_bytes())
    with pytest.raises(InputError, match=r"^the key .*key.pem does not belong to the certificate beside it$"):
        issue(certs, "pi-2", now=NOW)
    (certs / "authority" / "key.pem").unlink()
    with pytest.raises(InputError, match=r"^cannot read the authority's key "):
        issue(certs, "pi-2", now=NOW)
    (certs / "pi-1" / "certificate.pem").write_text("nothing")
    with pytest.raises(InputError, match=r"^cannot read the certificate .*pi-1"):
        describe(certs)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"^`folder` must be a writable folder, got .*/file' \(.*\)$"):
        make_authority(tmp_path / "file")


def test_a_full_disk_leaves_everything_as_it_was(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = issue(certs, "pi-1", now=NOW)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    attempts: list[Callable[[], object]] = [
        lambda: issue(certs, "pi-1", now=NOW, force=True),
        lambda: issue(certs, "pi-2", now=NOW),
        lambda: renew(certs, "pi-1", now=NOW),
    ]
    for attempt in attempts:
        with pytest.raises(InputError, match=r"\(No space left on device\)$"):
            attempt()
    assert describe(certs)[1:] == (first,)
    assert sorted(path.name for path in certs.rglob("*") if path.name.startswith(".")) == []
