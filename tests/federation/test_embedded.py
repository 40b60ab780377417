"""The embedded broker closes what it opened, however a connection ends: open sockets would fail a later test."""

import asyncio
import gc
import socket
import struct
import warnings

from ofediq.federation.network.embedded import HOST, embedded


async def _visit() -> None:
    """Connect and leave, connect and be gone, connect and stay, without a word."""
    async with embedded() as broker:
        port = int(broker.address.rsplit(":", 1)[1])
        _, leaving = await asyncio.open_connection(HOST, port)
        leaving.close()
        await leaving.wait_closed()
        _, gone = await asyncio.open_connection(HOST, port)
        peer: socket.socket = gone.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
        gone.transport.abort()
        _, staying = await asyncio.open_connection(HOST, port)
        await asyncio.sleep(0.2)
    staying.close()


def test_no_connection_is_left_open() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        asyncio.run(_visit())
        gc.collect()
    assert [str(each.message) for each in seen if each.category is ResourceWarning] == []
