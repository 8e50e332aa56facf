"""Machines that join a federation by a token: each is a folder, with nothing in it before."""

import contextlib
import json
import shutil
import socket
import ssl
import stat
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commands import Process, answer, complaint, running
from crawls import QUICK
from federations import write
from nats_site import eventually

from gossamer.archive.query import ask
from gossamer.clocks import Clock, RealClock, VirtualClock
from gossamer.cluster.certificates import Authority, new_key, request
from gossamer.cluster.federation_file import load
from gossamer.cluster.invitation import Admitted, Forged, Request, Token, framed, received
from gossamer.cluster.inviting import Inviting, invitations
from gossamer.cluster.keys import OPERATOR, address, make_keys, paths, take_certificate, tls_name
from gossamer.cluster.location import locate
from gossamer.cluster.nats_server import free_port, shown
from gossamer.cluster.newcomer import Newcomer
from gossamer.errors import ConfigError, SiteError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(
    seed=5, hosts=12, pages=80, page_bytes=1_500.0, links=12.0, local=0.6, errors=0.0, robots_broken=0.0,
    crawl_delays=0.0, changing=0.0,
)  # fmt: skip
VALUES: dict[str, Any] = {**QUICK, "limits.depth": 250, "limits.depth_dynamic": 250, "polite.connections": 8}
CONTACT = {"fetch.contact": "me@gossamer-tests.org"}


def tokens(process: Process, count: int) -> dict[str, str]:
    """What `federation invite --json` prints before it waits."""
    assert process.inner.stdout is not None
    rows = [json.loads(process.inner.stdout.readline()) for _ in range(count)]
    return {row["site"]: row["token"] for row in rows}


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's machine and two others, which have joined and crawled: one command each."""
    folder = tmp_path_factory.mktemp("joined")
    for name in ("laptop", "north", "east"):
        (folder / name).mkdir()
    with RunningWeb(SPEC) as web:
        values = {**VALUES, **CONTACT, "resolve.map": {"*": web.address}}
        write(folder / "laptop", {"north": free_port(), "east": free_port()}, values, 1)
        with running("federation", "invite", "sites.toml", "--json", at=folder / "laptop") as inviting:
            token = tokens(inviting, 2)
            join = ("federation", "join")
            with (
                running(*join, token["north"], *web.start_urls, "--quiet", at=folder / "north") as north,
                running(*join, token["east"], "--quiet", at=folder / "east") as east,
            ):
                assert inviting.finish()[::2] in (
                    (0, "gossamer: north has joined\ngossamer: east has joined\n"),
                    (0, "gossamer: east has joined\ngossamer: north has joined\n"),
                )
                ended = [north.finish(), east.finish()]
                assert [code for code, _, _ in ended] == [0, 0], ended
    return folder


@pytest.fixture
def machines(joined: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(joined, tmp_path / "machines"))


def test_machines_join_and_crawl_with_one_command_each(joined: Path) -> None:
    found = {name: {path.name for path in (joined / name / "keys").iterdir()} for name in ("laptop", "north", "east")}
    assert found == {
        "laptop": {"authority.key", "authority.pem", "operator.key", "operator.pem", "north.pem", "east.pem"},
        "north": {"authority.pem", "north.pem", "north.key"},
        "east": {"authority.pem", "east.pem", "east.key"},
    }, "no private key is where it was not made"
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in joined.glob("*/keys/*.key"))
    assert len({(joined / name / "sites.toml").read_text() for name in found}) == 1
    pages = [
        ask(locate(joined / name / name), "SELECT url FROM pages WHERE status = 'fetched'")
        for name in found
        if name != "laptop"
    ]
    urls = [row["url"] for rows in pages for row in rows]
    assert all(pages)
    assert len(urls) == len({*urls})


def test_another_machine_joins_sites_that_run(machines: Path) -> None:
    (machines / "south").mkdir()
    where = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        for site in ("north", "east"):
            serving = stack.enter_context(running("site", "serve", "--name", site, "sites.toml", at=machines / site))
            assert serving.inner.stderr is not None
            assert b"can be read at" in serving.inner.stderr.readline()
        invite = ("federation", "invite", "sites.toml", "south", where, "--json")
        inviting = stack.enter_context(running(*invite, at=machines / "laptop"))
        (token,) = tokens(inviting, 1).values()
        south = stack.enter_context(running("federation", "join", token, "--quiet", at=machines / "south"))
        assert inviting.finish()[::2] == (0, "gossamer: south has joined\n")
        names = ("laptop", "north", "east", "south")
        assert len({(machines / name / "sites.toml").read_text() for name in names}) == 1
        assert load(machines / "south" / "sites.toml").shared.version == 2

        def state() -> str:
            rows = answer("federation", "status", "sites.toml", "--json", at=machines / "laptop")
            return str(next(row["state"] for row in rows if row["site"] == "south"))

        south.wait_until(lambda: state() in ("crawling", "idle"), "answer")
    again = complaint("federation", "join", token, at=machines / "south")
    assert "to run a site that has joined, `gossamer site run --name south sites.toml`" in again
    twice = complaint("federation", "invite", "sites.toml", "south", at=machines / "laptop")
    assert "south has a certificate already" in twice


def test_a_certificate_is_renewed_without_its_key(machines: Path) -> None:
    """The operator has never had the key; the running server shows the new certificate at once."""
    keys, there = machines / "laptop" / "keys", machines / "north" / "keys"
    signer = Authority.load((keys / "authority.pem").read_bytes(), (keys / "authority.key").read_bytes())
    ending = signer.renew(
        (keys / "north.pem").read_bytes(), tls_name("north"), datetime.now(UTC) - timedelta(days=3620)
    )
    for folder in (keys, there):
        (folder / "north.pem").write_bytes(ending)
    own = (there / "north.key").read_bytes()
    made = load(machines / "laptop" / "sites.toml")
    at = address(paths(keys, OPERATOR), "north", made.sites["north"].address)
    with running("site", "serve", "--name", "north", "sites.toml", at=machines / "north") as serving:
        assert serving.inner.stderr is not None
        assert b"can be read at" in serving.inner.stderr.readline()
        assert ssl.PEM_cert_to_DER_cert(shown(at, 5.0)) == ssl.PEM_cert_to_DER_cert(ending.decode())
        done = answer("federation", "keys", "sites.toml", "--json", at=machines / "laptop")
        assert done == {"made": ["north"], "brought": {"north": ""}}
        renewed = (keys / "north.pem").read_text()
        assert renewed.encode() != ending
        assert (there / "north.pem").read_text() == renewed
        eventually(
            lambda: ssl.PEM_cert_to_DER_cert(shown(at, 5.0) or ending.decode()) == ssl.PEM_cert_to_DER_cert(renewed)
        )
        assert answer("federation", "keys", "sites.toml", "--json", at=machines / "laptop") == {
            "made": [],
            "brought": {},
        }
    assert (there / "north.key").read_bytes() == own
    assert not (keys / "north.key").exists()
    with pytest.raises(ConfigError, match="ends later"):
        take_certificate(there, "north", ending)
    with pytest.raises(ConfigError, match="not for north"):
        take_certificate(there, "north", (keys / "east.pem").read_bytes())
    make_keys(machines / "other", ["north"], datetime.now(UTC))
    with pytest.raises(ConfigError, match="another authority"):
        take_certificate(there, "north", (machines / "other" / "north.pem").read_bytes())


# Attacks, and mistakes


@dataclass
class Operator:
    """The operator's side, in threads of the test."""

    folder: Path
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.path = write(self.folder, {"north": free_port(), "east": free_port()}, CONTACT, 1)
        self.pool = ThreadPoolExecutor(8)
        self.waiting: list[Inviting] = []

    @property
    def keys(self) -> set[str]:
        return {path.name for path in (self.folder / "keys").iterdir()}

    def invite(self, site: str) -> tuple[Token, "Future[list[str]]"]:
        machines = invitations(load(self.path), [site], 10.0, RealClock())
        self.waiting.append(Inviting(self.path, machines, RealClock(), self.said.append))
        return machines[0].token, self.pool.submit(self.waiting[-1].run)

    def join(self, token: Token, name: str, clock: Clock | None = None) -> "Future[Path]":
        folder = self.folder.parent / name
        folder.mkdir(exist_ok=True)
        return self.pool.submit(Newcomer(token, folder, clock or RealClock(), self.said.append).join)

    def close(self) -> None:
        for each in self.waiting:
            each.stop()
        self.pool.shutdown()

    def hears(self, words: str) -> None:
        eventually(lambda: any(words in said for said in self.said))


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    made = Operator(tmp_path / "laptop")
    yield made
    made.close()


@contextlib.contextmanager
def at_the_address(token: Token) -> Iterator[socket.socket]:
    """Whoever is at the address of the new machine in its place, when the operator has come."""
    host, _, port = token.listen.rpartition(":")
    with socket.create_server((host, int(port))) as listener:
        connection, _ = listener.accept()
        with connection:
            yield connection


def test_a_stranger_at_the_address_gets_nothing(operator: Operator) -> None:
    token, done = operator.invite("north")
    csr = request(new_key(), tls_name("north")).decode()
    stranger = msgspec.structs.replace(token, secret=b"\0" * 32)
    for data in (b"INFO {}\r\n", framed(b"x" * 99), framed(stranger.seal(Request(csr=csr))), framed(b"")):
        operator.said.clear()
        operator.waiting[0].machines[0].trouble = ""
        with at_the_address(token) as connection:
            connection.sendall(data)
            with contextlib.suppress(OSError):  # the operator may have left already
                connection.shutdown(socket.SHUT_WR)
            operator.hears("is not the machine that has the token of north")
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""
    assert "north.pem" not in operator.keys
    operator.join(token, "north").result()
    assert done.result() == ["north"]


def test_a_token_is_for_one_name(operator: Operator) -> None:
    """Whoever changes the name in a token opens nothing; whoever has the token, and asks for another, is refused."""
    token, _ = operator.invite("north")
    changed = msgspec.structs.replace(token, site="east")
    assert Token.of_text(changed.as_text()) == changed
    with at_the_address(token) as connection:
        connection.sendall(framed(changed.seal(Request(csr=request(new_key(), tls_name("east")).decode()))))
        operator.hears("it does not know the token")
    with at_the_address(token) as connection:
        asked = token.seal(Request(csr=request(new_key(), tls_name("east")).decode()))
        connection.sendall(framed(asked))
        refused = token.opened(Admitted, received(connection, 60.0), asked)
        assert (refused.refused, refused.certificate) == (
            "the request is for another name than north.gossamer.internal",
            "",
        )
    operator.hears("north cannot join: the request is for another name")
    for csr in ("", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"):
        with at_the_address(token) as connection:
            asked = token.seal(Request(csr=csr))
            connection.sendall(framed(asked))
            assert token.opened(Admitted, received(connection, 60.0), asked).refused
    assert not {"north.pem", "east.pem"} & operator.keys


def test_a_token_serves_one_key(operator: Operator) -> None:
    """A machine may ask again, if the answer was lost; another one may not."""
    token, done = operator.invite("north")
    csr = request(new_key(), tls_name("north")).decode()
    answers = []
    for _ in range(2):
        with at_the_address(token) as connection:
            asked = token.seal(Request(csr=csr))
            connection.sendall(framed(asked))
            sealed = received(connection, 60.0)
            answers.append(token.opened(Admitted, sealed, asked))
    assert answers[0] == answers[1]
    assert answers[0].certificate
    with pytest.raises(ConfigError, match="does not let north join: the token has been used"):
        operator.join(token, "second").result()
    assert list((operator.folder.parent / "second").iterdir()) == []
    assert not done.done()


def test_an_answer_belongs_to_its_request(operator: Operator) -> None:
    """What was recorded on its way to one machine means nothing to another, nor as another kind of message."""
    token, _ = operator.invite("north")
    first, second = (token.seal(Request(csr=request(new_key(), tls_name("north")).decode())) for _ in range(2))
    sealed = token.seal(Admitted(text="x"), first)
    assert token.opened(Admitted, sealed, first).text == "x"
    for kind, about in ((Admitted, second), (Request, first), (Admitted, b"")):
        with pytest.raises(Forged):
            token.opened(kind, sealed, about)


def test_a_used_token_is_worth_nothing(operator: Operator) -> None:
    token, done = operator.invite("north")
    operator.join(token, "north").result()
    assert done.result() == ["north"]
    with pytest.raises(SiteError, match=r"nobody came before the token ended.* a token serves once"):
        operator.join(token, "second", VirtualClock(token.ends_s - 1.0)).result()
    assert list((operator.folder.parent / "second").iterdir()) == []


def test_strangers_do_not_keep_the_operator_from_a_new_machine(operator: Operator) -> None:
    machines = invitations(load(operator.path), ["north"], 10.0, RealClock())
    token = machines[0].token
    newcomer = operator.join(token, "north")
    operator.hears("waiting for the operator")
    host, _, port = token.listen.rpartition(":")
    with contextlib.ExitStack() as stack:
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 99, framed(b"x" * 50), framed(b"")):
            stranger = stack.enter_context(socket.create_connection((host, int(port)), 60.0))
            stranger.sendall(data)
        operator.waiting.append(Inviting(operator.path, machines, RealClock(), operator.said.append))
        assert operator.pool.submit(operator.waiting[-1].run).result() == ["north"]
    assert newcomer.result().name == "sites.toml"


def test_another_authority_than_the_token_names_is_refused(operator: Operator) -> None:
    token, _ = operator.invite("north")
    shutil.rmtree(operator.folder / "keys")
    make_keys(operator.folder / "keys", [OPERATOR], datetime.now(UTC))
    with pytest.raises(ConfigError, match="north does not join: the authority is another one than the token names"):
        operator.join(token, "north").result()
    operator.hears("north cannot join: north does not join: the authority is another one")
    assert list((operator.folder.parent / "north").iterdir()) == []
    assert "north.pem" not in operator.keys


def test_what_is_there_is_not_overwritten(operator: Operator, tmp_path: Path) -> None:
    token, done = operator.invite("north")
    keys = tmp_path / "north" / "keys"
    make_keys(keys, ["north"], datetime.now(UTC))
    before = {path.name: path.read_bytes() for path in keys.iterdir()}
    with pytest.raises(ConfigError, match=r"authority\.pem is of another federation"):
        operator.join(token, "north").result()
    assert {path.name: path.read_bytes() for path in keys.iterdir()} == before
    operator.join(token, "empty").result()
    assert done.result() == ["north"], "what was refused there may be tried elsewhere with the same token"
    with pytest.raises(ConfigError, match="is here already"):
        operator.join(token, "empty").result()


def test_mistakes_with_tokens_are_said(tmp_path: Path) -> None:
    token = Token.new("north", "127.0.0.1:1", "127.0.0.1:1", "sites.toml", 1_000_000_000, b"\0" * 32)
    text = token.as_text()
    assert Token.of_text(f"  {text}\n") == token
    assert "the token has ended" in complaint("federation", "join", text, at=tmp_path)
    for wrong in (text[:-3], text.replace("A", "B", 1), "hello", "gossamer-", "grüße"):
        with pytest.raises(ConfigError, match="no whole token"):
            Token.of_text(wrong)
    assert "this is no whole token" in complaint("federation", "join", "paris", at=tmp_path)
    outside = Token.new("north", "127.0.0.1:1", "127.0.0.1:1", "../sites.toml", 1e10, b"\0" * 32)
    assert "a file in another directory" in complaint("federation", "join", outside.as_text(), at=tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        busy = Token.new("north", where, where, "sites.toml", 1e10, b"\0" * 32)
        assert f"this machine cannot listen at {where}" in complaint("federation", "join", busy.as_text(), at=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_mistakes_with_invitations_are_said(tmp_path: Path) -> None:
    path = write(tmp_path, {"north": 1, "east": 2}, CONTACT, 1)

    def invite(*words: str) -> str:
        with pytest.raises(ConfigError) as raised:
            invitations(load(path), words, 60.0, RealClock())
        return str(raised.value)

    assert "has no site lima" in invite("lima")
    assert "there is a site north already" in invite("north", "127.0.0.1:9")
    assert "write it like" in invite("lima", "nowhere")
    assert "[SITE [HOST:PORT]]" in invite("lima", "127.0.0.1:9", "more")
    make_keys(tmp_path / "keys", ["north", "east"], datetime.now(UTC))
    assert "all sites of sites.toml have certificates" in invite()
    (tmp_path / "keys" / "authority.key").unlink()
    (tmp_path / "keys" / "north.pem").unlink()
    assert "north cannot get a certificate here" in invite("north")
