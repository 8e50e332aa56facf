"""What a scan's coordinator and its clients elsewhere say to each other, through any Exchange."""

from gossamer.scan.letters import Letters
from gossamer.sharing.exchange import PART_BYTES, Batch, InProcess


class Flaky(InProcess):
    """Sometimes nothing can be sent, and sometimes what was sent is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = self.has_lost = False

    def publish(self, batch: Batch) -> bool:
        return not self.is_down and super().publish(batch)

    def lose(self) -> None:
        self._batches.clear()
        self.has_lost = True

    def lost(self) -> bool:
        was, self.has_lost = self.has_lost, False
        return was


def heard(letters: Letters) -> list[object]:
    return [message["n"] for _, message, _ in letters.receive()]


def test_in_order_and_each_once() -> None:
    exchange = InProcess()
    here, there = Letters(exchange, "scan-1"), Letters(exchange, "tokyo-1")
    for n in (1, 2):
        here.send("tokyo-1", {"n": n})
    here.send("lima-1", {"n": 7})
    assert heard(there) == [1, 2]
    assert heard(there) == []
    there.send("scan-1", {"n": 3})
    assert [(sender, message) for sender, message, _ in here.receive()] == [("tokyo-1", {"n": 3})]


def test_what_does_not_fit_into_one_message_goes_in_several() -> None:
    exchange = InProcess()
    here, there = Letters(exchange, "a"), Letters(exchange, "b")
    data = bytes(range(256)) * (3 * PART_BYTES // 256)
    here.send("b", {"n": 1}, data)
    here.send("b", {"n": 2}, b"\n")
    assert [(message["n"], content) for _, message, content in there.receive()] == [(1, data), (2, b"\n")]


def test_what_was_not_handled_comes_again() -> None:
    exchange = InProcess()
    here, there = Letters(exchange, "a"), Letters(exchange, "b")
    here.send("b", {"n": 1})
    next(there.receive())  # whoever took it died before its end
    assert heard(there) == [1]


def test_what_could_not_be_sent_or_was_lost_goes_later() -> None:
    exchange = Flaky()
    here, there = Letters(exchange, "a"), Letters(exchange, "b")
    exchange.is_down = True
    here.send("b", {"n": 1})
    assert heard(there) == []
    exchange.is_down = False
    here.send("b", {"n": 2})
    exchange.lose()
    here.flush()
    assert heard(there) == [1, 2]
    here.send("c", {"n": 3})
    here.forget("c")
    exchange.lose()
    here.flush()
    assert heard(Letters(exchange, "c")) == []
