"""This module is what a site answers to other machines through its server: pieces of its archive's files, and orders to
give hosts away.

The server lets in only those whose certificates the federation's authority has signed, and gives each of them the
services that `services` names: its own mail, its own receipts, files of the archive. A name must be one that the
archive itself gives (`is_served`). Only the operator gives orders.
"""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from msgspec import field
from xxhash import xxh3_64

from gossamer.archive.checksums import Checksum
from gossamer.archive.labels import label_of
from gossamer.archive.manifest import MOVES, Snapshot, chains, file_names, number_of, site_of
from gossamer.archive.mark import MARK
from gossamer.archive.store import Store, checked
from gossamer.cluster.jetstream import Link
from gossamer.cluster.keys import OPERATOR
from gossamer.cluster.protocol import Versioned, decode, encode
from gossamer.crawl.inbox import Inbox
from gossamer.errors import GossamerError, SiteError

FILES = "gossamer.files"
ORDERS = "gossamer.moves"
MAIL = "gossamer.mail"
LIST = "gossamer.list"
CERTIFICATE = "gossamer.certificate"
ADOPT = "gossamer.adopt"
STANDING = "gossamer.standing"
PIECE_BYTES = 1 << 20
MANIFEST_BYTES = 64 << 20  # of one manifest, at most
_MANIFEST = re.compile(r"manifest/\w{1,64}/\d{8,12}\.json")

Numbers = dict[str, int]  # of commits, by agent


class Request(Versioned, frozen=True, kw_only=True):
    """`Request` asks for a piece of a file; or, without a name, for the names of all manifests."""

    name: str = ""
    offset: int = 0
    have: Numbers = field(default_factory=dict)  # what the asker has, if it keeps a replica


class HandOver(Versioned, frozen=True, kw_only=True):
    """`HandOver` orders a site to give hosts away: by host, the site that gets it."""

    hosts: dict[str, str]


class NewList(Versioned, frozen=True, kw_only=True):
    """`NewList` is the next text of a federation's file; `before` is the version that it must follow, if it must."""

    text: str
    before: int = 0


class NewCertificate(Versioned, frozen=True, kw_only=True):
    """`NewCertificate` is a site's certificate, renewed; its key has never left its machine."""

    certificate: str


class Adopt(Versioned, frozen=True, kw_only=True):
    """`Adopt` orders a site to run a lost one on its machine, from its replica: with the certificate that was made for
    the request which it answers to the same order without one."""

    site: str
    certificate: str = ""


class Taken(Versioned, frozen=True, kw_only=True):
    """`Taken` answers an order; `refused` says why it was not taken."""

    hosts: int = 0
    refused: str = ""
    commits: Numbers = field(default_factory=dict)  # of the replica of a site that shall be adopted
    csr: str = ""


Ask = Callable[[Request], bytes]
Order = Callable[[bytes], Taken]


def services(site: str, others: Collection[str], gone: Collection[str] = ()) -> dict[str, list[str]]:
    """Returns the subjects that each other site, and the operator, may use in the server of this one. A site that is
    gone may read the list of sites: if it comes back, it learns that from it."""
    standing = "$JS.API.DIRECT.GET.KV_standing"
    found = {
        other: [
            standing,
            f"$KV.standing.{other}",
            f"{MAIL}.{other}",
            f"{FILES}.{other}",
            f"{STANDING}.{other}",
        ]
        for other in others
        if other != site
    }
    found |= {name: [standing] for name in gone if name != site}
    return {
        **found,
        OPERATOR: [standing, *(f"{each}.{OPERATOR}" for each in (FILES, ORDERS, LIST, CERTIFICATE, ADOPT))],
    }


def is_served(name: str) -> bool:
    """Returns whether it is the name of a manifest, of a file that manifests name, or of the mark."""
    return name == MARK or bool(_MANIFEST.fullmatch(name)) or label_of(name) is not None


class Source:
    """`Source` is a site's side: it answers, and remembers how far each holder of a replica is."""

    def __init__(
        self,
        store: Store,
        holders: Sequence[str],
        sites: Collection[str] = (),
        orders: Mapping[str, Order] | None = None,
    ) -> None:
        """`orders` are those of the operator that are not for the archive, by subject."""
        self._store, self._sites = store, sites
        self._orders = {ORDERS: self.take_moves, **(orders or {})}
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
        """Answers, in threads, as a disk may have to be waited for."""
        await asyncio.gather(
            link.answer(FILES, lambda asker, data: asyncio.to_thread(self.answer, asker, data)),
            *(link.answer(subject, partial(carried_out, order)) for subject, order in self._orders.items()),
        )

    def answer(self, asker: str, data: bytes) -> bytes:
        """Answers a request for files. If that cannot be, it returns nothing: whoever wants it asks again."""
        try:
            asked = decode(Request, data)
            if asked.name:
                return self._piece(asked.name, asked.offset)
            if asker in self._have:
                self._have[asker] = asked.have
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

    def take_moves(self, data: bytes) -> Taken:
        """Puts an order to give hosts away into the inbox, where it is durable."""
        hosts = decode(HandOver, data).hosts
        if unknown := sorted({*hosts.values()} - {*self._sites}):
            return Taken(refused=f"its list of sites has no {unknown[0]}")
        give_away(self._store, hosts)
        return Taken(hosts=len(hosts))


async def carried_out(order: Order, _: str, data: bytes) -> bytes:
    """Carries an order out; one that cannot be is answered with the reason."""
    try:
        return encode(await asyncio.to_thread(order, data))
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


def check_own(site: str, agent: str, at: Snapshot) -> None:
    """Checks that a manifest which a site sent is one of its own, and names nothing but files of its agent."""
    if at.agent != agent or site_of(agent) != site:
        raise SiteError(f"it shows manifests of {at.agent!r}, which is no agent of that site")
    for name in at.names():
        label = label_of(checked(name))
        if label is None or label.agent != agent:
            raise SiteError(f"its manifests name {name!r}, which is no file of {agent}")


def numbers(store: Store) -> Numbers:
    return {agent: number_of(file_names(store, agent)[-1]) for agent in chains(store)}
