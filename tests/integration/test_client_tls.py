"""TLS on loopback: certificates are verified, for the name in the URL, and every failure has its own outcome."""

import socket
import ssl
from pathlib import Path

import pytest
from raw_server import Exchange, Loopback, RawServer

from gossamer.columns import Outcome


@pytest.fixture
def server(loopback: Loopback, certificate: Path) -> RawServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(exchange: Exchange) -> bool:
        return exchange.send_page()

    return loopback.serve(answer, wrap=lambda connection: context.wrap_socket(connection, server_side=True))


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


@pytest.mark.usefixtures("trusted")
def test_a_trusted_certificate(loopback: Loopback, server: RawServer) -> None:
    visitor = loopback.visitor(server)
    response = visitor.fetch("https://a.test/x", reuse=True)
    assert (response.outcome, response.body, response.reason) == (Outcome.OK, b"hello", "")
    assert response.request_head == server.exchanges[0].head
    assert visitor.fetch("https://a.test/y").outcome is Outcome.OK
    assert server.connections == 1


@pytest.mark.usefixtures("trusted")
def test_header_lines_that_are_no_fields(loopback: Loopback, server: RawServer) -> None:
    """What libcurl refuses is read from its connection: the certificate is checked all the same."""
    head = b"HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1;\r\npreload\r\nContent-Length: 100000\r\n\r\n"
    server.answer = lambda exchange: exchange.send(head + b"x" * 100_000)
    visitor = loopback.visitor(server)
    assert visitor.fetch("https://a.test/").outcome is Outcome.BROKEN
    response = visitor.fetch("https://a.test/")
    assert (response.outcome, response.head, response.body) == (Outcome.OK, head, b"x" * 100_000)


@pytest.mark.usefixtures("trusted")
def test_the_wrong_host(loopback: Loopback, server: RawServer) -> None:
    response = loopback.visitor(server).fetch("https://b.test/")
    assert response.outcome is Outcome.TLS_FAILED
    assert not server.exchanges


def test_an_unknown_authority(loopback: Loopback, server: RawServer) -> None:
    response = loopback.visitor(server).fetch("https://a.test/")
    assert (response.outcome, response.http_status) == (Outcome.TLS_FAILED, 0)
    assert response.reason
    assert not server.exchanges, "not a byte of the request was sent"


def test_certificates_need_not_be_checked(loopback: Loopback, server: RawServer) -> None:
    response = loopback.visitor(server, fetch__verify_tls=False).fetch("https://b.test/")
    assert response.outcome is Outcome.OK


def test_plain_http_where_tls_is_expected(loopback: Loopback) -> None:
    def shout(connection: socket.socket) -> socket.socket:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        return connection

    server = loopback.serve(lambda exchange: False, wrap=shout)
    assert loopback.visitor(server).fetch("https://a.test/").outcome is Outcome.TLS_FAILED


def test_tls_where_plain_http_is_expected(loopback: Loopback, server: RawServer) -> None:
    assert loopback.visitor(server).fetch("http://a.test/").outcome is Outcome.BROKEN


def test_a_handshake_that_stalls(loopback: Loopback) -> None:
    def stall(connection: object) -> object:
        server.pause(60)
        return connection

    server = loopback.serve(lambda exchange: False, wrap=stall)
    response = loopback.visitor(server, fetch__connect_timeout_s=0.5).fetch("https://a.test/")
    assert response.outcome is Outcome.TLS_FAILED
