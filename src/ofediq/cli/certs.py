"""`ofediq certs`: certificates for a live federation, and the broker's configuration."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ofediq.cli.answers import JsonOption
from ofediq.errors import InputError, extra, require

if TYPE_CHECKING:
    from ofediq.federation.security.certificates import Certificate

certs = typer.Typer(
    help="Make certificates for a live federation, and the broker's configuration.",
    epilog="Start with: ofediq certs authority",
    no_args_is_help=True,
)

FolderOption = Annotated[Path, typer.Option(help="Folder of the authority and all it signs.")]
DaysOption = Annotated[int | None, typer.Option(help="How long it is valid.", show_default="365")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there, with a new key.")]
_FOLDER = Path("certs")


@certs.command()
def authority(
    name: Annotated[str, typer.Option(help="What people call it.")] = "ofediq",
    folder: FolderOption = _FOLDER,
    days: Annotated[int | None, typer.Option(help="How long it is valid.", show_default="3650")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the authority that signs all certificates.

    Its key can let anybody in: keep it on a machine of your own, not on
    the broker's and not on a device.

    Examples:
      ofediq certs authority
      ofediq certs authority --name greenhouse --folder greenhouse/certs
    """
    _require_extra()
    from ofediq.federation.security.certificates import AUTHORITY_DAYS, make_authority

    made = make_authority(folder, name, days=AUTHORITY_DAYS if days is None else days, force=force)
    _show((made,), as_json)


@certs.command()
def broker(
    hosts: Annotated[list[str], typer.Argument(help="Every name and address it is reached under.")],
    name: Annotated[str, typer.Option(help="Name of its folder.")] = "broker",
    folder: FolderOption = _FOLDER,
    days: DaysOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Issue the broker's certificate.

    Clients connect only if the address in their file is among the HOSTS.

    Examples:
      ofediq certs broker broker.example 192.168.1.20
      ofediq certs broker localhost 127.0.0.1 --force
    """
    _issue([name], "broker", hosts, folder, days, force, as_json)


@certs.command()
def server(
    name: Annotated[str, typer.Option(help="Its common name.")] = "server",
    folder: FolderOption = _FOLDER,
    days: DaysOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Issue the certificate with which `ofediq serve` connects to the broker.

    Examples:
      ofediq certs server
    """
    _issue([name], "server", (), folder, days, force, as_json)


@certs.command()
def client(
    names: Annotated[list[str], typer.Argument(help="Names of the clients.")],
    folder: FolderOption = _FOLDER,
    days: DaysOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Issue a certificate for each client; its folder goes to the device.

    Examples:
      ofediq certs client pi-01 pi-02 pi-03
      ofediq certs client pi-03 --force
    """
    _issue(names, "client", (), folder, days, force, as_json)


@certs.command()
def renew(
    names: Annotated[list[str], typer.Argument(help="Whose: names of folders, also `authority`.")],
    folder: FolderOption = _FOLDER,
    days: Annotated[
        int | None, typer.Option(help="How long, from now.", show_default="365; authority 3650")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Issue the same certificates for another period; the keys stay.

    Examples:
      ofediq certs renew broker server
      ofediq certs renew authority
    """
    _require_extra()
    from ofediq.federation.security.certificates import renew as make

    _show(tuple(make(folder, name, days=days) for name in names), as_json)


@certs.command("list")
def list_(folder: FolderOption = _FOLDER, as_json: JsonOption = False) -> None:
    """List what there is, and when it expires.

    Examples:
      ofediq certs list
      ofediq certs list --json | jq '.certificates[] | select(.days_left < 30)'
    """
    _require_extra()
    from ofediq.federation.security.certificates import describe

    _show(describe(folder), as_json)


@certs.command("broker-config")
def broker_config(
    federation: Annotated[str, typer.Option(help="Its name: the first part of all topics.")],
    folder: FolderOption = _FOLDER,
    broker: Annotated[str, typer.Option(help="Folder of the broker's certificate.")] = "broker",
    clients: Annotated[
        str | None,
        typer.Option(
            "--only", help="Who may take part, names with commas.", show_default="all clients in the folder"
        ),
    ] = None,
    any_client: Annotated[
        bool, typer.Option("--any-client", help="Let in every client that the authority signed.")
    ] = False,
    server: Annotated[str, typer.Option(help="Common name of the server's certificate.")] = "server",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8883,
    bind: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="all")] = None,
    at: Annotated[
        Path | None,
        typer.Option(help="Where the folder will be on the broker's machine.", show_default="where it is"),
    ] = None,
    storage: Annotated[
        Path | None,
        typer.Option(help="Folder for retained messages.", show_default="left to Debian's mosquitto.conf"),
    ] = None,
    message_bytes: Annotated[
        int, typer.Option(help="Largest message; a model with D parameters has about 4 D bytes.")
    ] = 2**24,
    as_json: JsonOption = False,
) -> None:
    """Write mosquitto.conf and access.acl beside the broker's certificate.

    TLS only, nobody without a certificate, and everybody reads and writes
    under the own name only. To shut out a lost device, remove its folder
    and write the files again.

    Examples:
      ofediq certs broker-config --federation greenhouse
      ofediq certs broker-config --federation greenhouse --at /etc/mosquitto/ofediq
    """
    _require_extra()
    from ofediq.federation.security.access import BrokerSettings, write_settings

    home = folder / broker
    settings = BrokerSettings(
        federation,
        _clients(folder, clients, any_client),
        PurePosixPath(at or home.absolute()),
        server=server,
        port=port,
        bind=bind,
        message_bytes=message_bytes,
        storage=None if storage is None else PurePosixPath(storage),
    )
    configuration, access = write_settings(home, settings)
    listed = None if settings.clients is None else list(settings.clients)
    if as_json:
        facts = {"configuration": str(configuration), "access": str(access), "clients": listed}
        typer.echo(json.dumps(facts, indent=2))
        return
    who = "every client of the authority" if listed is None else f"{len(listed)} clients"
    typer.echo(f"{configuration}: TLS on port {port}\n{access}: {who}, server {server}")


def _clients(folder: Path, given: str | None, everyone: bool) -> tuple[str, ...] | None:
    from ofediq.federation.security.certificates import describe

    if given is not None:
        require(not everyone, "only", "must not be given together with --any-client", given)
        return tuple(name.strip() for name in given.split(","))
    if everyone:
        return None
    found = tuple(one.name for one in describe(folder) if one.kind == "client" and one.trusted)
    if not found:
        raise InputError(
            f"no client has a certificate in {str(folder)!r}: `ofediq certs client` makes some, "
            "or say --only or --any-client"
        )
    return found


def _issue(
    names: list[str],
    kind: Any,
    hosts: list[str] | tuple[()],
    folder: Path,
    days: int | None,
    force: bool,
    as_json: bool,
) -> None:
    _require_extra()
    from ofediq.federation.security.certificates import CERTIFICATE_DAYS, issue, require_free

    period = CERTIFICATE_DAYS if days is None else days
    for name in names:  # all or none
        require_free(folder, name, force=force)
    made = tuple(issue(folder, name, kind, hosts=hosts, days=period, force=force) for name in names)
    _show(made, as_json)


def _require_extra() -> None:
    extra("cryptography", "federation")


def _show(found: tuple[Certificate, ...], as_json: bool) -> None:
    from ofediq.cli import render

    if as_json:
        typer.echo(json.dumps({"certificates": [_plain(one) for one in found]}, indent=2))
        return
    rows = [
        (one.folder.name, one.kind, f"{one.expires:%Y-%m-%d}", _state(one), ", ".join(one.hosts))
        for one in found
    ]
    render.show(render.table(("folder", "kind", "expires", "", "hosts"), rows))


def _plain(one: Certificate) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "hosts": list(one.hosts),
        "starts": one.starts.isoformat(),
        "expires": one.expires.isoformat(),
        "days_left": one.days_left(),
        "trusted": one.trusted,
        "fingerprint": one.fingerprint,
        "folder": str(one.folder),
    }


def _state(one: Certificate) -> str:
    if not one.trusted:
        return "of another authority"
    days = one.days_left()
    return "expired" if days < 0 else f"in {days} days"
