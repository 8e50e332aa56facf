"""What a scan's coordinator and its clients elsewhere say to each other, through any Exchange."""

from gossamer.archive.manifest import Message
from gossamer.crawl.inbox import PART_BYTES
from gossamer.scan.mailbox import Mailbox
from gossamer.sharing.exchange import InProcess


class Flaky(InProcess):
    """Sometimes nothing can be sent, and sometimes what was sent is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = self.has_lost = False

    def publish(self, message: Message) -> bool:
        return not self.is_down and super().publish(message)

    def lose(self) -> None:
        self._batches.clear()
        self.has_lost = True

    def lost(self) -> bool:
        was, self.has_lost = self.has_lost, False
        return was


def received(mailbox: Mailbox) -> list[int]:
    return [int(line) for _, line, _ in mailbox.receive()]


def test_in_order_and_each_once() -> None:
    exchange = InProcess()
    here, there = Mailbox(exchange, "scan-1"), Mailbox(exchange, "tokyo-1")
    for n in (1, 2):
        here.send("tokyo-1", b"%d" % n)
    here.send("lima-1", b"7")
    assert received(there) == [1, 2]
    assert received(there) == []
    there.send("scan-1", b"3")
    assert [(sender, line) for sender, line, _ in here.receive()] == [("tokyo-1", b"3")]


def test_what_does_not_fit_into_one_message_goes_in_several() -> None:
    exchange = InProcess()
    here, there = Mailbox(exchange, "a"), Mailbox(exchange, "b")
    data = bytes(range(256)) * (3 * PART_BYTES // 256)
    here.send("b", b"1", data)
    here.send("b", b"2", b"\n")
    assert [(line, content) for _, line, content in there.receive()] == [(b"1", data), (b"2", b"\n")]


def test_what_was_not_handled_comes_again() -> None:
    exchange = InProcess()
    here, there = Mailbox(exchange, "a"), Mailbox(exchange, "b")
    here.send("b", b"1")
    next(there.receive())  # whoever took it died before its end
    assert received(there) == [1]


def test_what_could_not_be_sent_or_was_lost_goes_later() -> None:
    exchange = Flaky()
    here, there = Mailbox(exchange, "a"), Mailbox(exchange, "b")
    exchange.is_down = True
    here.send("b", b"1")
    assert received(there) == []
    exchange.is_down = False
    here.send("b", b"2")
    exchange.lose()
    here.flush()
    assert received(there) == [1, 2]
    here.send("c", b"3")
    here.forget("c")
    exchange.lose()
    here.flush()
    assert received(Mailbox(exchange, "c")) == []
