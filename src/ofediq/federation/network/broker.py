"""`Broker`: where the broker is, and how to prove who we are."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote, urlsplit

from ofediq.errors import OFedIQError, require
from ofediq.federation.network.hosts import is_loopback
from ofediq.settings import FilePath, Settings, limited, setting


class BrokerError(OFedIQError):
    """The broker refuses this client or server, or cannot be reached."""


@dataclass(frozen=True)
class Broker(Settings):
    """Where the broker is and how to prove who we are: `[broker]` of federation.toml and client.toml.

    >>> Broker("mqtts://broker.example").port
    8883
    >>> Broker("mqtt://broker.example", insecure=True)
    Traceback (most recent call last):
    ofediq.errors.InputError: `address` must be mqtts:// (TLS) unless the broker is on loopback,
    got 'mqtt://broker.example'
    """

    address: str = setting(
        ..., "mqtts://host:8883 (TLS) or mqtt://host:1883, with user:password@ where the broker wants it."
    )
    ca: FilePath | None = setting(
        None, "Certificate of the authority that signed the broker's.", shown="the system's authorities"
    )
    certificate: FilePath | None = setting(None, "Our certificate, for brokers that ask for one.")
    key: FilePath | None = setting(None, "Its private key.")
    insecure: bool = setting(False, "Allow a connection without TLS, on loopback only.")
    keepalive: Annotated[int, limited(1, 65535)] = setting(
        15, "Seconds after which the broker takes a silent connection for dead."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_address()
        for name in ("ca", "certificate", "key"):
            path = getattr(self, name)
            if path is not None:
                require(os.path.isfile(path), name, "must be a file that exists", path)
        require(
            (self.certificate is None) == (self.key is None), "key", "must go with `certificate`", self.key
        )

    def _check_address(self) -> None:
        try:
            parts = urlsplit(self.address)
            known = parts.scheme in ("mqtt", "mqtts") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is none, half an IPv6 address
            known = False
        shown = re.sub(r"//[^/]*@", "//", self.address)  # no password in a message
        require(known, "address", "must look like mqtts://host:port or mqtt://host:port", shown)
        if not self.secure:
            loopback = is_loopback(self.host)
            require(loopback, "address", "must be mqtts:// (TLS) unless the broker is on loopback", shown)
            require(self.insecure, "address", "must be mqtts:// (TLS) unless `insecure` is set", shown)

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.address).scheme == "mqtts"

    @property
    def host(self) -> str:
        """The broker's host."""
        return str(urlsplit(self.address).hostname)

    @property
    def port(self) -> int:
        """Its port."""
        return urlsplit(self.address).port or (8883 if self.secure else 1883)

    @property
    def login(self) -> dict[str, str]:
        """User name and password in the address, if any."""
        parts = urlsplit(self.address)
        found = {"username": parts.username, "password": parts.password}
        return {key: unquote(value) for key, value in found.items() if value is not None}

    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings: the broker's certificate and host name are always checked."""
        if not self.secure:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (ssl.SSLError, OSError) as error:
            raise BrokerError(f"cannot use the authority's certificate {self.ca}: {error}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except (ssl.SSLError, OSError) as error:
                raise BrokerError(f"cannot use certificate {self.certificate}: {error}") from None
        return context
