"""This module turns prices into what the partitioners weigh: closeness of parts, and tolls in links.

Costs are in money for the same span of time. A link that crosses costs the bytes that its record takes on the wire, and
the wait for it; a page costs its site CPU time and a wait. When prices or networks change, the same functions give
other closeness and tolls, and a rebalance with those finds what should move.
"""

import numpy as np

from gossamer.arrays import F64, I64
from gossamer.errors import ConfigError

LINK_BYTES = 12.0  # a link to another site, in compressed batches


def link_cost(egress_per_gb: F64, round_trip_s: F64, per_second: F64 | float, link_bytes: float = LINK_BYTES) -> F64:
    """Returns the cost of a link between two sites: it is sent from either end, so it is the mean of both. `per_second`
    is the price of a wait, at each site or at all."""
    sent = link_bytes / 1e9 * egress_per_gb
    one_way = sent[:, None] + round_trip_s * np.reshape(per_second, (-1, 1))
    cost: F64 = (one_way + one_way.T) / 2
    np.fill_diagonal(cost, 0.0)
    return cost


def closeness(cost: F64) -> F64:
    """Returns what a link between two parts saves of the dearest: 1 within a part, 0 between the dearest two."""
    dearest = float(cost.max(initial=0.0))
    if not 0 < dearest < np.inf or cost.min() < 0:
        raise ConfigError("costs of links must not be negative, and some must be above 0")
    return 1 - cost / dearest


def tolls(cost_per_page: F64, pages: I64, dearest_link: float) -> F64:
    """Returns what each site costs each host more than the cheapest, for all its pages, in dearest links."""
    more = cost_per_page - cost_per_page.min(axis=1, keepdims=True)
    toll: F64 = more * pages[:, None] / dearest_link
    return toll
