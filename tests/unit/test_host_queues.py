"""Whose turn it is, without a workbench around it."""

from gossamer.fetch.host_queues import HostQueues
from gossamer.fetch.request import Request


def test_entries_of_pages_that_were_overtaken_do_not_pile_up() -> None:
    turns = HostQueues(remember_failures_s=0.0)
    turns.wake(1.0)
    for number in range(1, 5_001):
        host = f"h{number % 7}.test"
        turns.add(Request(number, f"http://{host}/{number}", host, rank=float(number)))
    assert len(turns._ready) < 100
    found = []
    while (queue := turns.take()) is not None:
        found.append(queue.pages.pop(0)[1])
        queue.pages.sort()
        turns.resume(queue)
    assert found == list(range(5_000, 0, -1))
