"""`enact` plays a scan through with times that are known: simulated clients, without a network."""

import heapq
from collections.abc import Iterable, Mapping

from gossamer.arrays import F64
from gossamer.scan.dispatch import Dispatch

_DEATH, _END = 0, 1  # deaths come before ends of the same moment

Event = tuple[float, int, int, int]  # when, what, client, website


def enact(
    dispatch: Dispatch, actual_s: F64, deaths_s: Mapping[int, float] | None = None
) -> tuple[float, dict[int, int]]:
    """The makespan, and who scanned each website, if website i takes `actual_s[i, j]` on client j. A client in
    `deaths_s` dies then, and what it has begun is begun again elsewhere."""
    events: list[Event] = [(at_s, _DEATH, j, -1) for j, at_s in (deaths_s or {}).items()]
    heapq.heapify(events)
    scanned: dict[int, int] = {}
    clients = dispatch.times_s.shape[1]
    took_s, forecast_s = [0.0] * clients, [0.0] * clients
    end_s = 0.0
    _begin(dispatch, sorted(dispatch.alive), actual_s, 0.0, events)
    while events:
        now_s, kind, client, website = heapq.heappop(events)
        free: Iterable[int] = (client,)
        if kind == _DEATH:
            dispatch.died(client, now_s)
            free = sorted(dispatch.alive)
        elif dispatch.running.get(website, (-1, 0.0))[0] == client:
            dispatch.end(website)
            scanned[website] = client
            end_s = now_s
            took_s[client] += float(actual_s[website, client])
            forecast_s[client] += float(dispatch.times_s[website, client])
            if dispatch.observe(client, took_s[client] / max(forecast_s[client], 1e-12), now_s):
                free = sorted(dispatch.alive)
        _begin(dispatch, free, actual_s, now_s, events)
    return end_s, scanned


def _begin(dispatch: Dispatch, clients: Iterable[int], actual_s: F64, now_s: float, events: list[Event]) -> None:
    for client in clients:
        while (website := dispatch.next(client, now_s)) is not None:
            heapq.heappush(events, (now_s + float(actual_s[website, client]), _END, client, website))
