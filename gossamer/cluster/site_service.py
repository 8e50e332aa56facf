"""This module is what a site answers to other machines through its server: pieces of its archive's files, and orders to
give hosts away.

The server lets in only those whose certificates the federation's authority has signed. Whoever is let in may ask for
files of the archive and for nothing else: a name must be one that the archive itself gives (`is_served`).
"""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import field
from xxhash import xxh3_64

from gossamer.archive.checksums import Checksum
from gossamer.archive.labels import label_of
from gossamer.archive.manifest import MOVES, chains, file_names, number_of
from gossamer.archive.mark import MARK
from gossamer.archive.store import Store
from gossamer.cluster.jetstream import Link
from gossamer.cluster.protocol import Versioned, decode, encode
from gossamer.crawl.inbox import Inbox
from gossamer.errors import GossamerError, SiteError

FILES = "gossamer.files"
ORDERS = "gossamer.moves"
PIECE_BYTES = 1 << 20
_MANIFEST = re.compile(r"manifest/\w{1,64}/\d{8,12}\.json")

Numbers = dict[str, int]  # of commits, by agent


class Request(Versioned, frozen=True, kw_only=True):
    """`Request` asks for a piece of a file; or, without a name, for the names of all manifests."""

    name: str = ""
    offset: int = 0
    site: str = ""  # who asks, and ...
    have: Numbers = field(default_factory=dict)  # ... what it has, if it keeps a replica


class HandOver(Versioned, frozen=True, kw_only=True):
    """`HandOver` orders a site to give hosts away: by host, the site that gets it."""

    hosts: dict[str, str]


class Taken(Versioned, frozen=True, kw_only=True):
    """`Taken` answers such an order; `refused` says why it was not taken."""

    hosts: int = 0
    refused: str = ""


Ask = Callable[[Request], bytes]


def is_served(name: str) -> bool:
    """Returns whether it is the name of a manifest, of a file that manifests name, or of the mark."""
    return name == MARK or bool(_MANIFEST.fullmatch(name)) or label_of(name) is not None


class Source:
    """`Source` is a site's side: it answers, and remembers how far each holder of a replica is."""

    def __init__(self, store: Store, holders: Sequence[str], sites: Collection[str] = ()) -> None:
        self._store, self._sites = store, sites
        self._have: dict[str, Numbers] = {name: {} for name in holders}

    @property
    def replicated(self) -> Numbers:
        """Returns the last commit of each agent that is at all holders."""
        agents = set().union(*self._have.values())
        return {agent: min(have.get(agent, 0) for have in self._have.values()) for agent in agents}

    def is_complete(self) -> bool:
        """Returns whether everything is everywhere."""
        return all(self.replicated.get(agent, 0) >= number for agent, number in numbers(self._store).items())

    async def serve(self, link: Link) -> None:
        await asyncio.gather(link.answer(FILES, self.answer), link.answer(ORDERS, self.take_orders))

    def answer(self, data: bytes) -> bytes:
        """Answers a request for files. If that cannot be, it returns nothing: whoever wants it asks again."""
        try:
            asked = decode(Request, data)
            if asked.name:
                return self._piece(asked.name, asked.offset)
            if not asked.site:
                return b""
            if asked.site in self._have:
                self._have[asked.site] = asked.have
            return encode({agent: file_names(self._store, agent) for agent in sorted(chains(self._store))})
        except (GossamerError, OSError, ValueError):
            return b""

    def _piece(self, name: str, offset: int) -> bytes:
        """Returns the file's length, and some of it."""
        if not is_served(name) or offset < 0:
            return b""
        with self._store.local(name).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(offset)
            return size.to_bytes(8, "big") + file.read(PIECE_BYTES)

    def take_orders(self, data: bytes) -> bytes:
        """Puts an order to give hosts away into the inbox, where it is durable, and says so."""
        try:
            hosts = decode(HandOver, data).hosts
            if unknown := sorted({*hosts.values()} - {*self._sites}):
                return encode(Taken(refused=f"its list of sites has no {unknown[0]}"))
            give_away(self._store, hosts)
            return encode(Taken(hosts=len(hosts)))
        except (GossamerError, OSError, ValueError) as error:
            return encode(Taken(refused=str(error)))


def give_away(store: Store, hosts: Mapping[str, str]) -> None:
    """Orders a site to hand hosts over to the sites that they are given here."""
    Inbox(store).add(json.dumps(dict(hosts)).encode(), MOVES)


def pieces(name: str, ask: Ask, most: int | None = None, known: Checksum | None = None) -> Iterator[bytes]:
    """Yields a file, piece by piece. Whoever sends more than `most`, or not what its manifest promised, is refused; so
    is one who sends crumbs: each request must bring the file on by a whole piece."""
    offset, size, digest = 0, 1, xxh3_64()
    while offset < size:
        answer = ask(Request(name=name, offset=offset))
        if len(answer) < 8:
            raise FileNotFoundError(name)
        size, piece = int.from_bytes(answer[:8], "big"), answer[8:]
        if size and not piece:
            raise FileNotFoundError(name)
        if (most is not None and size > most) or len(piece) != min(PIECE_BYTES, size - offset):
            raise SiteError(f"it sends {name} with {size:,} bytes or in crumbs, as its manifests do not promise")
        offset += len(piece)
        digest.update(piece)
        if offset == size and known is not None and Checksum(size, digest.hexdigest()) != known:
            raise SiteError(f"it sends {name} with other content than its manifests promise")
        yield piece


def numbers(store: Store) -> Numbers:
    return {agent: number_of(file_names(store, agent)[-1]) for agent in chains(store)}
