"""Certificates that have ended: both sides say so, and what to do."""

import contextlib
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))

from federations import write

from experiments.proxy import Proxy
from gossamer.clocks import VirtualClock
from gossamer.cluster.federation import opened, prepare, status
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.keys import OPERATOR, address, make_keys, paths
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import Server, free_port, why_refused
from gossamer.cluster.neighbours import Neighbours
from gossamer.errors import ConfigError

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=3651)


@pytest.fixture
def made(tmp_path: Path) -> Federation:
    """East's certificate has ended; the machine has no key of the authority, so that nothing is renewed here."""
    ports = {name: free_port() for name in ("north", "east")}
    made = load(write(tmp_path, ports, {"fetch.contact": "me@gossamer-tests.org"}, 1))
    make_keys(made.keys, ["north", OPERATOR], NOW)
    make_keys(made.keys, ["east"], LONG_AGO)
    (made.keys / "authority.key").rename(tmp_path / "away.key")
    return made


@contextlib.contextmanager
def listening(made: Federation, site: str) -> Iterator[None]:
    """What a server does that was started before its certificate ended."""
    files = paths(made.keys, site)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["cert"], files["key"])
    where = made.sites[site].address.rpartition(":")

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                context.wrap_socket(connection, server_side=True).close()

    with socket.create_server((where[0], int(where[2]))) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_an_ended_certificate_is_said_on_both_sides(made: Federation) -> None:
    with pytest.raises(ConfigError, match=r"east\.pem was valid until .* run `gossamer federation keys` where"):
        opened(made, "east", []).__enter__()
    clock = VirtualClock()
    north = Neighbours(made, "north", clock)
    server = Server(made.directory("north") / "site", north.open)
    server.start()
    own = Wire(server.address)
    try:
        assert own.wait_up(30.0)
        there = address(paths(made.keys, "east"), "north", made.sites["north"].address)
        assert "east.pem, which has ended: `gossamer federation keys` makes a new one" in why_refused(there, 5.0)
        with listening(made, "east"):
            north.begin(own)
            clock.advance(60.0)
            north.ask()
            assert "certificate has expired; `gossamer federation keys` makes a new one" in north.trouble["east"]
            (row,) = status(made, ["east"])
            assert (row["state"], "certificate has expired" in row["behind"]) == ("not reached", True)
        clock.advance(60.0)
        north.ask()
        assert north.trouble == {}, "that nobody is there is no news"
    finally:
        north.close()
        own.close()
        server.stop()


def test_a_link_that_is_cut_is_no_certificate_that_is_refused(made: Federation) -> None:
    """A forwarded port with nobody behind it takes connections, and closes them."""
    with contextlib.closing(Proxy(free_port())) as proxy, socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            connection, _ = listener.accept()
            connection.recv(1)  # what is not read when it is closed makes of the end a reset
            connection.close()

        threading.Thread(target=reset, daemon=True).start()
        for port in (proxy.port, listener.getsockname()[1]):
            there = address(paths(made.keys, "east"), "north", f"127.0.0.1:{port}")
            assert "closes the connection at once" in why_refused(there, 5.0)


def test_certificates_are_renewed_before_they_end(tmp_path: Path) -> None:
    made = load(write(tmp_path, {"north": 1, "east": 2}, {}, 1))
    prepare(made)
    before = (made.keys / "north.pem").read_bytes()
    assert make_keys(made.keys, ["north", "east"], NOW + timedelta(days=3000)) == []
    assert make_keys(made.keys, ["north", "east"], NOW + timedelta(days=3600)) == ["north", "east"]
    assert (made.keys / "north.pem").read_bytes() != before
