"""A link of the lab lets only so many bytes pass."""

import socket
from contextlib import closing

from experiments.proxy import Proxy


def test_bytes_queue_up_by_direction() -> None:
    with closing(Proxy(1, bytes_per_s=1e-3)) as proxy:
        first_s = proxy._passed_s(1, True)
        assert proxy._passed_s(3, True) == first_s + 3000.0, "three bytes behind one, at one in a thousand seconds"
        assert proxy._passed_s(1, False) < first_s + 1000.0, "the other way is free"


def test_whatever_is_sent_arrives() -> None:
    sent = bytes(range(256)) * 400
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(Proxy(server.getsockname()[1], 0.001, 100e6)) as proxy,
    ):
        with socket.create_connection(("127.0.0.1", proxy.port)) as near, server.accept()[0] as far:
            near.sendall(sent)
            near.shutdown(socket.SHUT_WR)
            assert far.makefile("rb").read() == sent
        assert proxy.sent == len(sent)
