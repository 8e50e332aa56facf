"""Turns what sites, links and pages cost into what the partitioners weigh: closeness of parts, and tolls in links.

Costs are in money for the same span of time. A link that crosses costs the bytes that its record takes on the wire, and
the wait for it; a page costs its site CPU time, and the connection the wait for the host. All arguments are what is
measured or asked for now: when prices or networks change, the same functions give other closeness and tolls, and a
rebalance with those finds what should move.
"""

import numpy as np

from gossamer.arrays import F64, I64
from gossamer.errors import ConfigError

LINK_BYTES = 12.0  # a link to another site, in compressed batches
PAGE_BYTES = 12_000.0


def link_cost(egress_per_gb: F64, round_trip_s: F64, per_second: float, link_bytes: float = LINK_BYTES) -> F64:
    """Of a link between site i and site j: sent from either end, so the mean of both."""
    sent = link_bytes / 1e9 * egress_per_gb
    waiting = per_second * (round_trip_s + round_trip_s.T) / 2
    cost = (sent[:, None] + sent[None, :]) / 2 + waiting
    np.fill_diagonal(cost, 0.0)
    return cost


def page_cost(
    cpu_per_page: F64, round_trip_s: F64, bytes_per_s: F64, per_second: float, page_bytes: float = PAGE_BYTES
) -> F64:
    """Of a page of host h crawled by site i, a row for each host: `round_trip_s` and `bytes_per_s` are such tables."""
    return cpu_per_page[None, :] + per_second * (round_trip_s + page_bytes / bytes_per_s)


def closeness(cost: F64) -> F64:
    """What a link between two parts saves, in proportion to the dearest: 1 within a part, 0 between the dearest two."""
    dearest = float(cost.max(initial=0.0))
    if not 0 < dearest < np.inf or cost.min() < 0:
        raise ConfigError("costs of links must not be negative, and some must be above 0")
    near: F64 = 1 - cost / dearest
    return near


def tolls(cost_per_page: F64, pages: I64, dearest_link: float) -> F64:
    """What each site costs each host more than its cheapest, for all its pages, in links of the dearest kind."""
    more = cost_per_page - cost_per_page.min(axis=1, keepdims=True)
    toll: F64 = more * pages[:, None] / dearest_link
    return toll
