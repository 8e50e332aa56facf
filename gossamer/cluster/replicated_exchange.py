"""`Gate` is an Exchange that waits for the replicas: what is not there is not sent.

A site that is lost comes back as its replica has it. No site may have received what came after that, and no site may
have forgotten what it sent to us after that. So a message leaves, and another one is acknowledged, when the commit that
names them is at all replicas.
"""

from collections.abc import Callable, Mapping

from gossamer.archive.manifest import Message
from gossamer.sharing.exchange import Exchange

Acknowledged = tuple[int, str, int]  # the commit that applied it, stream, number


class Gate:
    """`Gate` is an Exchange around another one. `replicated` returns the last commit that is at all replicas."""

    def __init__(self, exchange: Exchange, begun: int, replicated: Callable[[], int]) -> None:
        self._exchange, self._replicated = exchange, replicated
        self._begun = begun  # the commit at which we begin: what it and those before it acknowledged we do not know
        self.committed: Callable[[], int] = lambda: begun  # the last commit
        self._waiting: list[Acknowledged] = []

    def publish(self, message: Message) -> bool:
        return message.number <= self._replicated() and self._exchange.publish(message)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        """Returns what has come. The exchange under us acknowledges again what comes again below the marks: it gets to
        see only marks that are at the replicas."""
        self._pass_on()
        safe = dict(marks) if self._replicated() >= self._begun else {}
        for _, stream, number in self._waiting:
            safe[stream] = min(safe.get(stream, 0), number - 1)
        found = self._exchange.pending(to, safe)
        return [message for message in found if message.number > marks.get(message.stream, 0)]

    def acknowledge(self, stream: str, number: int) -> None:
        self._waiting.append((self.committed(), stream, number))
        self._pass_on()

    def confirmed(self, stream: str) -> int:
        return self._exchange.confirmed(stream)

    def lost(self) -> bool:
        return self._exchange.lost()

    def _pass_on(self) -> None:
        safe = self._replicated()
        ready = [(stream, number) for commit, stream, number in self._waiting if commit <= safe]
        self._waiting = [each for each in self._waiting if each[0] > safe]
        for stream, number in ready:
            self._exchange.acknowledge(stream, number)
