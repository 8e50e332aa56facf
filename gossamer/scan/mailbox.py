"""`Mailbox` carries messages between a scan's coordinator and clients on other machines, through the Exchange that also
carries a crawl's links: in order, each once, whatever breaks meanwhile."""

from collections import deque
from collections.abc import Iterator

from gossamer.archive.manifest import Message
from gossamer.crawl.inbox import PART_BYTES
from gossamer.sharing.exchange import Exchange

_KIND = "scan"


class Mailbox:
    """A mailbox serves one end, which has a name that was never used before: its streams begin with 1."""

    def __init__(self, exchange: Exchange, me: str) -> None:
        self._exchange, self._me = exchange, me
        self._last: dict[str, int] = {}  # by receiver
        self._marks: dict[str, int] = {}  # by stream: what has been handled
        self._waiting: deque[Message] = deque()  # until they can be published, and
        self._sent: deque[Message] = deque()  # until they are confirmed

    def send(self, to: str, line: bytes, data: bytes = b"") -> None:
        """Sends a line. `data` goes with it, in as many parts as it takes."""
        number = self._last[to] = self._last.get(to, 0) + 1
        content = line + b"\n" + data
        pieces = [content[i : i + PART_BYTES] for i in range(0, len(content), PART_BYTES)]
        for part, piece in enumerate(pieces):
            self._waiting.append(Message(self._me, number, part, to, piece, _KIND, len(pieces), number - 1))
        self.flush()

    def flush(self) -> None:
        """Sends again what could not be sent, or was lost; to be called once in a while."""
        while self._sent and self._sent[0].number <= self._exchange.confirmed(self._sent[0].stream):
            self._sent.popleft()
        if self._exchange.lost():
            self._waiting.extendleft(reversed(self._sent))
            self._sent.clear()
        while self._waiting and self._exchange.publish(self._waiting[0]):
            self._sent.append(self._waiting.popleft())

    def receive(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yields the sender, the line, and the data. A message counts as handled when the next one is asked for."""
        parts: list[Message] = []
        for message in self._exchange.pending(self._me, dict(self._marks)):
            parts.append(message)
            if len(parts) < message.parts:
                continue
            line, _, data = b"".join(part.data for part in parts).partition(b"\n")
            parts = []
            yield message.sender, line, data
            self._marks[message.stream] = message.number
            self._exchange.acknowledge(message.stream, message.number)

    def forget(self, to: str) -> None:
        """Forgets a receiver that is gone, and will not read its messages."""
        self._waiting = deque(message for message in self._waiting if message.to != to)
        self._sent = deque(message for message in self._sent if message.to != to)
