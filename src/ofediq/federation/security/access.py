"""Configuration of a mosquitto broker: who may connect, and who may read and write what.

Nobody connects without a certificate of the federation's authority. Its common name is the user name, and decides:

                     reads                          writes
    client NAME      task, model, d, welcome/NAME, whole/NAME      u/NAME, here/NAME
    server           u/+, here/+, leader, task                         task, model, d, welcome/+, whole/+, leader

and for secure aggregation

    client NAME      cohort, shares/NAME                               s/NAME
    server           s/+                                               cohort, shares/+

each below the federation's name. What is not allowed is dropped by mosquitto, and the sender is not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ofediq.errors import InputError, refusing, require, require_integer
from ofediq.federation.names import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, require_name
from ofediq.storage import save_bytes

CONFIGURATION_FILE = "mosquitto.conf"
ACCESS_FILE = "access.acl"
PORT = 8883
"""The registered port of MQTT over TLS."""

_CLIENT = (
    ("read", "task"),
    ("read", "model"),
    ("read", "welcome/{name}"),
    ("read", "d"),
    ("read", "whole/{name}"),
    ("read", "cohort"),
    ("read", "shares/{name}"),
    ("write", "u/{name}"),
    ("write", "here/{name}"),
    ("write", "p/{name}"),
    ("write", "s/{name}"),
)
_SERVER = (
    ("read", "u/+"),
    ("read", "here/+"),
    ("read", "s/+"),
    ("read", "leader"),
    ("read", "task"),
    ("write", "leader"),
    ("write", "task"),
    ("write", "model"),
    ("write", "welcome/+"),
    ("write", "d"),
    ("write", "whole/+"),
    ("write", "cohort"),
    ("write", "shares/+"),
)


@dataclass(frozen=True)
class BrokerSettings:
    """What a mosquitto broker of one federation needs to know.

    Args:
        federation: its name, the first part of all topics.
        clients: who may take part. None: everyone with a certificate of the authority.
        folder: where certificate.pem, key.pem, authority.pem and access.acl are on the broker's machine.
        server: common name of the server's certificate.
        port: to listen on.
        bind: address to listen on; all of the machine's if None.
        message_bytes: largest message. An update or a model with D parameters has at most about 4 D bytes.
        storage: folder for retained messages. None leaves it to the rest of the configuration: Debian's names one.
    """

    federation: str
    clients: tuple[str, ...] | None
    folder: PurePosixPath
    server: str = "server"
    port: int = PORT
    bind: str | None = None
    message_bytes: int = 2**24
    storage: PurePosixPath | None = None

    def __post_init__(self) -> None:
        require_name("federation", self.federation)
        require_name("server", self.server)
        for name in self.clients or ():
            require_name("clients", name)
            require(name != self.server, "clients", "must not have the server's name", name)
        require_integer("port", self.port, 1, 65535)
        # MQTT counts the rest of a packet in 28 bits.
        require_integer("message_bytes", self.message_bytes, 1024, 2**28 - 1)
        for argument, text in (("folder", self.folder), ("bind", self.bind), ("storage", self.storage)):
            require(not set("\r\n") & set(str(text)), argument, "must be one line", str(text))

    def access(self) -> str:
        r"""The ACL file.

        With a list of clients, somebody who has a certificate but is not on the list reads and writes nothing; that
        is how a lost device is shut out. Without, the file is the same for any number of clients.

        >>> print(BrokerSettings("greenhouse", None, PurePosixPath("/etc/mosquitto/ofediq")).access())
        # Written by `ofediq certs broker-config`; changes made here are lost.
        user server
        topic read greenhouse/u/+
        topic read greenhouse/here/+
        topic read greenhouse/s/+
        topic read greenhouse/leader
        topic read greenhouse/task
        topic write greenhouse/leader
        topic write greenhouse/task
        topic write greenhouse/model
        topic write greenhouse/welcome/+
        topic write greenhouse/d
        topic write greenhouse/whole/+
        topic write greenhouse/cohort
        topic write greenhouse/shares/+
        <BLANKLINE>
        # Everyone, with %u for the own name.
        pattern read greenhouse/task
        pattern read greenhouse/model
        pattern read greenhouse/welcome/%u
        pattern read greenhouse/d
        pattern read greenhouse/whole/%u
        pattern read greenhouse/cohort
        pattern read greenhouse/shares/%u
        pattern write greenhouse/u/%u
        pattern write greenhouse/here/%u
        pattern write greenhouse/p/%u
        pattern write greenhouse/s/%u
        <BLANKLINE>
        """
        parts = [_HEADER, f"user {self.server}\n", self._rules("topic", _SERVER, self.server)]
        if self.clients is None:
            parts += ["\n# Everyone, with %u for the own name.\n", self._rules("pattern", _CLIENT, "%u")]
        for name in self.clients or ():
            parts += [f"\nuser {name}\n", self._rules("topic", _CLIENT, name)]
        return "".join(parts)

    def configuration(self) -> str:
        """The text of mosquitto.conf."""
        listener = f"listener {self.port}" + (f" {self.bind}" if self.bind else "")
        storage = "" if self.storage is None else f"persistence_location {self.storage}/\n"
        return f"""{_HEADER}
{listener}
cafile {self.folder / AUTHORITY_FILE}
certfile {self.folder / CERTIFICATE_FILE}
keyfile {self.folder / KEY_FILE}
tls_version tlsv1.2
require_certificate true
# The certificate says who somebody is: user name and client id are its common name, whatever the connection claims.
# So nobody can speak for another, or push another out by connecting under the same client id.
use_identity_as_username true
use_username_as_clientid true
allow_anonymous false
acl_file {self.folder / ACCESS_FILE}

# A round waits for small messages.
set_tcp_nodelay true

# Retained messages (task, model, presence) survive a restart, and are saved every minute.
persistence true
autosave_interval 60
{storage}persistent_client_expiration 1d

# A larger message costs its sender the connection.
max_packet_size {self.message_bytes + 1024}
# All clients may answer at once, and mosquitto drops silently what does not fit into the server's queue.
max_inflight_messages 1000
max_queued_messages 100000
max_queued_bytes {max(2**28, 4 * self.message_bytes)}
"""

    def _rules(self, keyword: str, rules: Sequence[tuple[str, str]], name: str) -> str:
        return "".join(
            f"{keyword} {access} {self.federation}/{topic.format(name=name)}\n" for access, topic in rules
        )


_HEADER = "# Written by `ofediq certs broker-config`; changes made here are lost.\n"


def write_settings(folder: str | Path, settings: BrokerSettings) -> tuple[Path, Path]:
    """Write mosquitto.conf and access.acl beside the broker's certificate; returns their paths."""
    home = Path(folder)
    if not (home / CERTIFICATE_FILE).is_file():
        raise InputError(
            f"`folder` must hold the broker's certificate, got {str(folder)!r}; `ofediq certs broker` makes one"
        )
    texts = {CONFIGURATION_FILE: settings.configuration(), ACCESS_FILE: settings.access()}
    for name, text in texts.items():
        with refusing("folder", "a writable folder", home):
            save_bytes(home / name, text.encode(), mode=0o644)
    return home / CONFIGURATION_FILE, home / ACCESS_FILE
