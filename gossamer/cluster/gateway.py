"""`Gateway` lets one agent speak for its site: messages to other sites wait in our own server, and we fetch ours from
theirs, by way of our supervisor.

The receiver pulls. A link that is down costs nothing but time: messages wait in the sender's stream, and in its outbox.
"""

import sys
from collections.abc import Collection, Mapping

from gossamer.archive.manifest import Message, site_of
from gossamer.cluster.federation_file import home_of
from gossamer.cluster.mail import RELAY, FromSite
from gossamer.cluster.nats_connection import Wire
from gossamer.crawl.inbox import Aside
from gossamer.sharing.exchange import Exchange


class Gateway:
    """`Gateway` is an Exchange: the site's own, and for each remote site what its server has for us. `wire` leads to
    our own server. Messages for sites that are gone need not be kept."""

    def __init__(
        self,
        own: Exchange,
        site: str,
        wire: Wire,
        others: Collection[str],
        gone: Collection[str] = (),
        aside: Aside | None = None,
    ) -> None:
        self._own, self._site, self._gone = own, site, gone
        self._others = {name: FromSite(wire, site, home_of(name), f"{RELAY}.{name}", aside) for name in others}

    def publish(self, message: Message) -> bool:
        return self._own.publish(message)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        remote = [message for other in self._others.values() for message in other.pending(self._site, marks)]
        return self._own.pending(to, marks) + remote

    def acknowledge(self, stream: str, number: int) -> None:
        sender, _, to = stream.partition(">")
        if to != self._site:
            self._own.acknowledge(stream, number)
        elif site_of(sender) in self._others:  # else it has left the federation
            self._others[site_of(sender)].acknowledge(stream, number)

    def confirmed(self, stream: str) -> int:
        return sys.maxsize if stream.partition(">")[2] in self._gone else self._own.confirmed(stream)

    def lost(self) -> bool:
        return self._own.lost()
