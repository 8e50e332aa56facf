"""What an agent settles before it begins, while nothing is fetched: zones and hosts come and go."""

from collections.abc import Sequence

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Batch
from gossamer.crawl.control import Orders
from gossamer.crawl.opening import Books
from gossamer.sharing.exchange import HOSTS, ZONES, Exchange
from gossamer.sharing.handover import adopt_zones, forget_delivered, release_zones
from gossamer.sharing.moving import may_take, release_hosts, take_hosts
from gossamer.sharing.owners import Place


def settle(books: Books, exchange: Exchange, orders: Orders, place: Place | None, now_s: float) -> None:
    """Take in what has come and hand over what shall go. Several commits."""
    owners = orders.owners
    while letters := arrivals(exchange, books.chain, owners, place):
        for letter in letters:
            if letter[0].kind == ZONES:
                adopt_zones(books, exchange, letter[0], now_s)
            elif place is not None:
                take_hosts(books, exchange, place, orders, letter, now_s)
    release_zones(books, exchange, owners, now_s)
    if place is not None:
        release_hosts(books, exchange, place, now_s)
        if place.placing is not None:
            place.placing.settled(books.index.hosts.rows["host"])
    forget_delivered(books, exchange, now_s)


def arrivals(exchange: Exchange, chain: Chain, owners: Sequence[str], place: Place | None) -> list[list[Batch]]:
    """Hand-overs that are next in their streams, each with all its parts."""
    found: dict[str, list[Batch]] = {}
    for batch in exchange.pending(chain.agent, chain.marks):
        parts = found.setdefault(batch.stream, [])
        if not parts or parts[0].number == batch.number:
            parts.append(batch)
    return [
        parts
        for parts in found.values()
        if parts[0].kind == ZONES or (parts[0].kind == HOSTS and place and may_take(parts[0], chain, place, owners))
    ]
