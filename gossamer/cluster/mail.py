"""`Mail` gives other sites what our server has for them, and `FromSite` fetches what theirs has for us.

The two do not trust each other. A site reads through a reader that the other one makes for it, of its own messages and
no others. All that it writes there is its receipts. What its server gives us counts only if it comes from the agent
that speaks for that site.
"""

from collections.abc import Mapping, Sequence

from gossamer.cluster.jetstream import Link
from gossamer.cluster.nats_connection import Job, Wire
from gossamer.cluster.nats_exchange import BUFFER_BYTES, NatsExchange
from gossamer.cluster.site_service import MAIL
from gossamer.crawl.inbox import Aside
from gossamer.errors import Unreadable
from gossamer.sharing.envelope import Piece, ends, opened

_READERS = 3  # of one site at a time: an agent's process and its successor may both have one
_ASK_S = 5.0
_PIECES = 8  # of a message from another site, at most: each is a megabyte


class Mail:
    """`Mail` makes readers. `home` is the agent that writes to other sites."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._readers: dict[str, list[str]] = {}

    async def serve(self, link: Link) -> None:
        self._readers = {}

        async def reader(site: str, _: bytes) -> bytes:
            names = self._readers.setdefault(site, [])
            names.append(await link.reader("links", [f"links.{site}.{self._home}"], newest=False))
            while len(names) > _READERS:
                await link.forget("links", names.pop(0))
            return names[-1].encode()

        await link.answer(MAIL, reader)


class FromSite(NatsExchange):
    """`FromSite` receives what one other site has for ours; `sender` is the agent that speaks for that site."""

    def __init__(
        self, wire: Wire, site: str, sender: str, aside: Aside | None = None, buffer_bytes: int = BUFFER_BYTES
    ) -> None:
        self._sender = sender
        super().__init__(wire, site, buffer_bytes, aside)

    def _jobs(self) -> Sequence[Job]:
        return (self._receive, self._answer)

    async def _prepare(self, link: Link) -> None:
        """The server is not ours: its site prepares it."""

    async def _prepare_receipts(self, link: Link) -> None:
        """The same."""

    async def _read(self, link: Link) -> None:
        reader = await link.ask(f"{MAIL}.{self._agent}", b"", _ASK_S)
        await link.follow("links", reader.decode(), self._take, self._room)

    def _opened(self, subject: str, headers: Mapping[str, str], data: bytes) -> Piece:
        sender, to = ends(subject)
        if (sender, to) != (self._sender, self._agent):
            raise Unreadable(f"it is from {sender!r} to {to!r}, and came from the server of {self._sender!r}")
        found = opened(subject, headers, data)
        if found.pieces > _PIECES:
            raise Unreadable(f"it has {found.pieces} pieces")
        return found

    async def _remove(self, link: Link, messages: Sequence[int]) -> None:
        """What is set aside is the sender's to remove."""

    async def _forget(self, link: Link, needless: Mapping[str, int]) -> None:
        """So is what we have received."""

    async def _confirm(self, link: Link, stream: str, number: int) -> None:  # noqa: ARG002  there is one
        await link.send(f"$KV.receipts.{self._agent}.{self._sender}", b"%d" % number)
