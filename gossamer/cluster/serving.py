"""`Serving` runs the server of a site while nobody crawls there: other machines can read its archive, and order it to
give hosts away when it is run again."""

import time
from collections.abc import Callable

from gossamer.archive import places
from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import Snapshot
from gossamer.clocks import RealClock
from gossamer.cluster.federation import locked
from gossamer.cluster.federation_file import Federation, home_of
from gossamer.cluster.hub import FOLDER
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import Server
from gossamer.cluster.neighbours import Neighbours
from gossamer.cluster.orders import orders_of
from gossamer.cluster.protocol import Summary
from gossamer.cluster.site_service import Source
from gossamer.cluster.standing import Teller, publish
from gossamer.cluster.totals import Totals, committed
from gossamer.config.folders import folder_of

_STEP_S = 0.2
_UP_S = 30.0


class Serving:
    """`run` returns when `stop` was called, which a signal handler may do."""

    def __init__(self, federation: Federation, site: str) -> None:
        federation.check_site(site)
        self._federation, self._site = federation, site
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    def run(self, report: Callable[[str], None]) -> None:
        federation, site, clock = self._federation, self._site, RealClock()
        directory = federation.directory(site)
        store = places.opened(directory)
        neighbours = Neighbours(federation, site, clock)
        with locked(store, site):
            server = Server(folder_of(directory) / FOLDER, neighbours.open)
            server.start()
            wire = Wire(server.address)
            wire.keep(Source(store, [], federation.sites, orders_of(federation, site)).serve)
            teller = Teller()
            wire.keep(teller.serve)
            try:
                wire.wait_up(_UP_S)
                home = snapshots(store).get(home_of(site), Snapshot(home_of(site)))
                stats = Totals(committed(store), clock).final(committed(store), "")
                summary = Summary(
                    finished=True, left=True, stats=stats, crossed=dict(home.state.crossed), members=neighbours.members
                )
                teller.set(summary)
                publish(wire, site, summary)
                report(f"{site} can be read at {federation.sites[site].address}; Ctrl-C ends it")
                while not self._stopping:
                    server.look_at_certificate()
                    if not server.is_alive():
                        server.start()
                        publish(wire, site, summary)
                    time.sleep(_STEP_S)
            finally:
                wire.close()
                server.stop()
