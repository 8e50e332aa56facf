"""Names to addresses: against a real name server on loopback, and without one."""

import select
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from name_server import AAAA, NameServer, Reply
from name_server import A as A_

from gossamer.clocks import Clock, RealClock, VirtualClock
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.fetch.resolver import Answer, Resolver

PUBLIC, OTHER = "93.184.216.34", "151.101.1.69"


class Asker:
    """A resolver and its name server, closed at the test's end."""

    def __init__(
        self, server: NameServer | None, timeout_s: float = 10.0, clock: Clock | None = None, **changes: Any
    ) -> None:
        options = {f"resolve.{name}": value for name, value in changes.items()}
        if server is not None:
            options["resolve.nameservers"] = [server.address]
        self.clock: Any = clock or RealClock()
        self.resolver = Resolver(Config().replace(options).resolve, self.clock, timeout_s)

    def ask(self, name: str, port: int = 80) -> Answer:
        return self.ask_all([name], port)[name]

    def ask_all(self, names: Sequence[str], port: int = 80) -> dict[str, Answer]:
        """All at the same time."""
        answers: dict[str, Answer] = {}
        for name in names:
            self.resolver.look_up(name, port, lambda answer, name=name: answers.update({name: answer}))  # type: ignore[misc]
        poll = select.epoll()
        poll.register(self.resolver.fileno(), select.EPOLLIN)
        for _ in range(1000):
            if len(answers) == len(names):
                break
            timeout_s = self.resolver.timeout_s()
            assert timeout_s is not None
            poll.poll(timeout_s)
            self.resolver.process()
        poll.close()
        return answers


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[NameServer, Asker]]]:
    made: list[Any] = []

    def start(reply: Callable[[str, int], Reply], **options: Any) -> tuple[NameServer, Asker]:
        server = NameServer(reply)
        made.append(server)
        asker = Asker(server, **options)
        made.append(asker.resolver)
        return server, asker

    yield start
    for thing in made:
        thing.close()


def test_a_name(serve: Any) -> None:
    server, asker = serve(lambda name, kind: (0, [(A_, PUBLIC)] if kind == A_ else []))
    assert asker.ask("example.test", 8080) == Answer(PUBLIC, 8080)
    assert asker.ask("example.test", 81) == Answer(PUBLIC, 81)
    assert sorted(server.questions) == [("example.test", A_), ("example.test", AAAA)], "asked once"


def test_several_addresses(serve: Any) -> None:
    _, asker = serve(lambda name, kind: (0, [(A_, PUBLIC), (A_, OTHER)] if kind == A_ else []))
    answer = asker.ask("example.test")
    assert {answer.address, *answer.others} == {PUBLIC, OTHER}


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [((3, []), Outcome.NO_NAME), ((0, []), Outcome.NO_NAME), ((2, []), Outcome.DNS_FAILED),
     ((5, []), Outcome.DNS_FAILED), (None, Outcome.DNS_FAILED)],
)  # fmt: skip
def test_failures_are_told_apart_and_remembered(serve: Any, reply: Reply, outcome: Outcome) -> None:
    server, asker = serve(lambda name, kind: reply, timeout_s=5.0 if reply else 0.4)
    answer = asker.ask("example.test")
    assert answer.outcome is outcome
    assert answer.reason
    asked = len(server.questions)
    assert asker.ask("example.test").outcome is outcome
    assert len(server.questions) == asked


MALFORMED = b"\x81\x80\x00\x01\x00\x01"  # flags, one question, one answer, and then nothing


@pytest.mark.parametrize("broken", [1, 5])
def test_a_malformed_reply_is_the_problem_of_its_name_only(serve: Any, broken: int) -> None:
    """c-ares closes the socket that a reply came on which it cannot parse, and fails all names that wait there."""

    def reply(name: str, kind: int) -> Reply:
        if name.startswith("broken"):
            return MALFORMED
        return (0, [(A_, PUBLIC)] if kind == A_ else [])

    _, asker = serve(reply)
    sound = [f"h{number}.test" for number in range(20)]
    bad = [f"broken{number}.test" for number in range(broken)]
    answers = asker.ask_all([*sound[:10], *bad, *sound[10:]])
    assert {name: answers[name] for name in sound} == dict.fromkeys(sound, Answer(PUBLIC, 80))
    assert {answers[name].outcome for name in bad} == {Outcome.DNS_FAILED}
    assert asker.ask("later.test") == Answer(PUBLIC, 80)


def test_half_an_answer_is_none(serve: Any) -> None:
    """The IPv6 address has come and the IPv4 one has not when the socket is lost: asked again, both are there."""

    def reply(name: str, kind: int) -> Reply:
        if name == "broken.test":
            return MALFORMED
        if kind == A_:
            return (0, [(A_, PUBLIC)]) if server.asked("a.test") > 2 else None
        return (0, [(AAAA, "2606:2800:220:1::1")])

    server, asker = serve(reply)
    answer = asker.ask_all(["a.test", "broken.test"])["a.test"]
    assert {answer.address, *answer.others} == {PUBLIC, "2606:2800:220:1::1"}


@pytest.mark.parametrize(
    ("reply", "after_s", "again"),
    [(MALFORMED, 10.0, True), ((2, []), 10.0, True), (MALFORMED, 1.0, False), ((3, []), 10.0, False)],
)
def test_that_a_name_server_failed_is_soon_forgotten(serve: Any, reply: Reply, after_s: float, again: bool) -> None:
    """That a name does not exist is remembered for minutes: a name server said so."""
    server, asker = serve(lambda name, kind: reply, clock=VirtualClock())
    assert asker.ask("example.test").outcome is not None
    asked = len(server.questions)
    asker.clock.advance(after_s)
    assert asker.ask("example.test").outcome is not None
    assert (len(server.questions) > asked) is again


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "0.0.0.0"])
def test_private_answers_are_refused(serve: Any, address: str) -> None:
    _, asker = serve(lambda name, kind: (0, [(A_, address)] if kind == A_ else []))
    answer = asker.ask("example.test")
    assert (answer.outcome, answer.address) == (Outcome.REFUSED_ADDRESS, "")
    assert address in answer.reason


def test_private_answers_are_allowed_on_request(serve: Any) -> None:
    _, asker = serve(lambda name, kind: (0, [(A_, "10.0.0.1")] if kind == A_ else []), private=True)
    assert asker.ask("example.test") == Answer("10.0.0.1", 80)


def test_of_mixed_answers_only_public_ones_are_used(serve: Any) -> None:
    _, asker = serve(lambda name, kind: (0, [(A_, PUBLIC)] if kind == A_ else [(AAAA, "::1")]))
    assert asker.ask("example.test") == Answer(PUBLIC, 80)


def test_rebinding_finds_the_first_answer(serve: Any) -> None:
    """Public at first, loopback at the second look-up, with a TTL of 0: there is no second look-up."""

    def reply(name: str, kind: int) -> Reply:
        first = len(server.questions) <= 2
        return (0, [(A_, PUBLIC if first else "127.0.0.1")] if kind == A_ else [])

    server, asker = serve(reply)
    assert {asker.ask("example.test").address for _ in range(5)} == {PUBLIC}


def test_questions_for_one_name_are_joined(serve: Any) -> None:
    server, asker = serve(lambda name, kind: (0, [(A_, PUBLIC)] if kind == A_ else []))
    answers: list[Answer] = []
    asker.resolver.look_up("example.test", 80, answers.append)
    asker.resolver.look_up("example.test", 81, answers.append)
    asker.ask("example.test", 82)
    assert [answer.port for answer in answers] == [80, 81]
    assert len(server.questions) == 2


def test_the_cache_is_bounded(serve: Any) -> None:
    server, asker = serve(lambda name, kind: (0, [(A_, PUBLIC)] if kind == A_ else []), cache=2)
    for name in ("a.test", "b.test", "c.test", "c.test", "b.test", "a.test"):
        asker.ask(name)
    assert [server.asked(name) for name in ("a.test", "b.test", "c.test")] == [2, 1, 1]


def test_a_forgotten_name_is_asked_for_again(serve: Any) -> None:
    server, asker = serve(lambda name, kind: (0, [(A_, PUBLIC)] if kind == A_ else []))
    asker.ask("a.test")
    asker.resolver.forget("a.test")
    asker.resolver.forget("b.test")
    asker.ask("a.test")
    assert server.asked("a.test") == 2


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("127.0.0.1", Outcome.REFUSED_ADDRESS), ("[::1]", Outcome.REFUSED_ADDRESS),
        ("[::ffff:7f00:1]", Outcome.REFUSED_ADDRESS), ("169.254.169.254", Outcome.REFUSED_ADDRESS),
        (PUBLIC, None), ("[2606:2800:220:1::1]", None), ("a" * 64 + ".test", Outcome.NO_NAME),
        ("a..test", Outcome.NO_NAME), (".".join(["a" * 60] * 5), Outcome.NO_NAME),
    ],
)  # fmt: skip
def test_what_needs_no_name_server(serve: Any, name: str, outcome: Outcome | None) -> None:
    server, asker = serve(lambda name, kind: (0, []))
    answer = asker.ask(name)
    assert answer.outcome is outcome
    assert answer.address == ("" if outcome else name.strip("[]"))
    assert not server.questions


def test_localhost_is_refused(serve: Any) -> None:
    _, asker = serve(lambda name, kind: (3, []))
    assert asker.ask("localhost").outcome in (Outcome.REFUSED_ADDRESS, Outcome.NO_NAME)


@pytest.mark.parametrize("port", [22, 25, 6667])
def test_bad_ports_are_refused(serve: Any, port: int) -> None:
    _, asker = serve(lambda name, kind: (0, []))
    assert asker.ask("example.test", port).outcome is Outcome.REFUSED_ADDRESS


def resolver_of(entries: dict[str, str]) -> Resolver:
    return Resolver(Config().replace({"resolve.map": entries}).resolve, VirtualClock())


def test_the_map() -> None:
    entries = {"a.test": "127.0.0.1:81", "*.b.test": "127.0.0.2:82", "*.x.b.test": "[::1]:83", "c.test": "::1"}
    resolver = resolver_of(entries)
    answers: dict[str, Answer] = {}
    for name in ("a.test", "b.test", "y.b.test", "z.y.b.test", "y.x.b.test", "c.test", "d.test", "127.0.0.1"):
        resolver.look_up(name, 80, lambda answer, name=name: answers.update({name: answer}))  # type: ignore[misc]
    resolver.close()
    refused = {name for name, answer in answers.items() if answer.outcome is Outcome.REFUSED_ADDRESS}
    assert refused == {"b.test", "d.test", "127.0.0.1"}
    assert {name: (a.address, a.port) for name, a in answers.items() if name not in refused} == {
        "a.test": ("127.0.0.1", 81), "y.b.test": ("127.0.0.2", 82), "z.y.b.test": ("127.0.0.2", 82),
        "y.x.b.test": ("::1", 83), "c.test": ("::1", 80),
    }  # fmt: skip


def test_the_map_of_everything() -> None:
    resolver = resolver_of({"*": "127.0.0.1:81", "a.test": "127.0.0.2"})
    answers: list[Answer] = []
    for name in ("a.test", "b.test", "localhost"):
        resolver.look_up(name, 80, answers.append)
    resolver.close()
    assert [(a.address, a.port) for a in answers] == [("127.0.0.2", 80), ("127.0.0.1", 81), ("127.0.0.1", 81)]


@pytest.mark.parametrize("target", ["", "example.test:80", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.256:1"])
def test_a_wrong_map_says_what_to_write(target: str) -> None:
    with pytest.raises(ConfigError, match=r"resolve\.map.*127\.0\.0\.1:8080"):
        resolver_of({"a.test": target})


def test_a_wrong_name_server_says_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"resolve\.nameservers"):
        Asker(None, nameservers=["not an address"])


def test_of_very_many_addresses_a_few_are_tried(serve: Any) -> None:
    """A hostile zone must not make us knock at thousands of doors."""
    many = [(A_, f"93.184.216.{i}") for i in range(1, 100)]
    _, asker = serve(lambda name, kind: (0, many if kind == A_ else []))
    answer = asker.ask("example.test")
    assert answer.outcome is None
    assert len(answer.others) == 7
