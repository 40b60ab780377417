import asyncio
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from ofediq.dashboard import page, serve_page
from ofediq.errors import InputError
from tests.dashboard.harness import Page, monitor
from tests.federation.mosquitto import free_port


def serve(host: str, port: int, token: str | None = None) -> str:
    async def scene() -> str:
        async with serve_page(page(monitor(), token=token), host, port) as address:
            return address

    return asyncio.run(scene())


def test_port_zero_gives_a_real_address() -> None:
    where = urlsplit(serve("localhost", 0))
    assert where.hostname == "127.0.0.1"
    assert where.port


def test_a_taken_port_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError) as caught:
            serve("127.0.0.1", port)
    assert str(caught.value) == f"`port` must be free, got {port}, which another program uses on 127.0.0.1"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_no_exposure_without_a_token(host: str) -> None:
    rule = "must be a loopback address when the page has no token"
    with pytest.raises(InputError, match=f"^`host` {rule}, got {host!r}$"):
        serve(host, 0)


def test_exposure_with_a_token() -> None:
    assert serve("0.0.0.0", 0, "open-sesame").startswith("http://127.0.0.1:")


def test_an_address_of_another_machine() -> None:
    with pytest.raises(
        InputError, match=r"^`host` and `port` must be free for this user to listen on, got '192"
    ):
        serve("192.0.2.1", 0, "open-sesame")  # an address reserved for documentation


@pytest.mark.parametrize("port", [-1, 65536, "http"])
def test_a_port_that_is_none(port: int) -> None:
    with pytest.raises(InputError, match=r"^`port` must be an integer from 0 to 65535, got"):
        serve("127.0.0.1", port)


def test_a_reader_does_not_hold_up_the_end_and_the_port_is_free_again() -> None:
    port = free_port()
    with Page(monitor(), port) as first:
        reader = socket.create_connection(("127.0.0.1", port), timeout=10)
        reader.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert reader.recv(12) == b"HTTP/1.1 200"
        address = first.address
    with reader, reader.makefile("rb") as rest:
        assert rest.read().endswith(b"\r\n0\r\n\r\n")  # a proper end, not a cut
    with Page(monitor(), port) as second:
        assert second.address == address
        assert second.get("health").status == 200


def test_a_reader_who_does_not_read_is_left_behind() -> None:
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with Page(monitor(clients=60_000)) as served:  # more than the system keeps for a reader: 8 MB
            reader.settimeout(10)
            reader.connect(("127.0.0.1", urlsplit(served.address).port))
            reader.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert reader.recv(12) == b"HTTP/1.1 200"
        with reader.makefile("rb") as rest:
            assert not rest.read().endswith(b"\r\n0\r\n\r\n")  # cut off


def test_more_readers_than_a_page_has_room_for_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ofediq.dashboard.serving.READERS", 5)

    async def scene() -> list[bytes]:
        async with serve_page(page(monitor())) as address:
            where = ("127.0.0.1", urlsplit(address).port)
            lines = [await asyncio.open_connection(*where) for _ in range(8)]
            heard = []
            for reader, writer in lines:
                writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                heard.append((await asyncio.wait_for(reader.readuntil(b"\r\n"), 10))[9:12])
            for _, writer in lines:
                writer.close()
            return heard

    heard = asyncio.run(scene())
    assert {b"200", b"503"} == set(heard)
    assert heard.count(b"200") <= 5


@pytest.mark.parametrize("drop", [b"", b"GET /health HTTP/1.1\r\nX: "])
def test_who_never_ends_a_request_makes_room(drop: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that send a byte now and then took all places, for as long as they liked."""
    monkeypatch.setattr("ofediq.dashboard.serving.READERS", 4)
    monkeypatch.setattr("ofediq.dashboard.serving.PATIENCE", 0.5)

    async def health(where: tuple[str, int | None]) -> bytes:
        reader, writer = await asyncio.open_connection(*where)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        heard = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return heard[9:12]

    async def scene() -> tuple[bytes, bytes]:
        async with serve_page(page(monitor())) as address:
            where = ("127.0.0.1", urlsplit(address).port)
            follower, writer = await asyncio.open_connection(*where)
            writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.wait_for(follower.readuntil(b"event: snapshot"), 10)
            slow = [await asyncio.open_connection(*where) for _ in range(4)]
            for _, one in slow:
                one.write(drop)
            first = await health(where)
            for _ in range(30):
                await asyncio.sleep(0.1)
                for _, one in slow if drop else ():
                    one.write(b"x")
            last = await health(where)
            assert not follower.at_eof()  # who reads along stays
            for _, one in [*slow, (follower, writer)]:
                one.close()
            return first, last

    assert asyncio.run(scene()) == (b"503", b"200")


def test_one_application_can_be_served_again() -> None:
    async def scene() -> list[bytes]:
        app = page(monitor())
        heard = []
        for _ in range(2):
            async with serve_page(app) as address:
                reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(address).port)
                writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                heard.append(await asyncio.wait_for(reader.readuntil(b"event: snapshot"), 10))
                writer.close()
                await writer.wait_closed()
        return heard

    assert len(asyncio.run(scene())) == 2


def test_an_error_inside_the_block_comes_through() -> None:
    async def scene() -> None:
        async with serve_page(page(monitor())):
            raise RuntimeError("the federation broke")

    with pytest.raises(RuntimeError, match="the federation broke"):
        asyncio.run(scene())


def test_a_missing_extra_is_named() -> None:
    code = """
import sys
sys.modules["starlette"] = None
try:
    import ofediq.dashboard
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "starlette is not installed: it comes with `pip install 'ofediq[server]'`\n", (
        done.stderr
    )
