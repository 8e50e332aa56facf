"""What leaves an agent for other sites: text once, then keys; the best of a round, if asked for; all cash counted."""

import numpy as np
import pytest

from gossamer.archive.chain import Chain
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.columns import Contributions
from gossamer.config import Config
from gossamer.crawl.ledger import Ledger
from gossamer.frontier.pages import host_of_key
from gossamer.placement.ring import Ring
from gossamer.sharing import compact
from gossamer.sharing.exchange import InProcess
from gossamer.sharing.outgoing import Outgoing
from gossamer.sharing.owners import Owners, SiteView
from gossamer.web.url import page_keys

RING = Ring({"north": 1.0, "east": 1.0})
OWNERS = Owners("north_a0", range(ZONES_IN_ALL), ("north_a0",) * ZONES_IN_ALL, SiteView("north", "north_a0", RING))


def of_remote_site(count: int) -> list[str]:
    urls = [f"http://h{number}.test/" for number in range(10 * count)]
    east = RING.of_keys(host_of_key(page_keys(urls))) == 1
    return [url for url, is_east in zip(urls, east.tolist(), strict=True) if is_east][:count]


def links(urls: list[str], cash: list[int], has_text: bool = True) -> Contributions:
    count = len(urls)
    zero = np.zeros(count, np.uint8)
    return Contributions(
        page_keys(urls), np.array(cash), np.ones(count, np.int32), zero, zero, np.zeros(count, np.uint64),
        urls if has_text else [""] * count,
    )  # fmt: skip


def outgoing(**values: object) -> tuple[Outgoing, Ledger]:
    ledger = Ledger()
    config = Config().replace({name.replace("__", "."): value for name, value in values.items()})
    return Outgoing(config, Chain.open(Memory(), "north_a0", InProcess()), ledger), ledger


def sent(out: Outgoing, columns: Contributions, from_remote: np.ndarray | None = None) -> Contributions:
    keys = np.zeros(0, np.uint64) if from_remote is None else from_remote
    messages = out.messages(columns, OWNERS, keys)
    assert {message.to for message in messages} <= {"east"}
    return Contributions.joined([compact.decode(message.data) for message in messages])


def test_text_once_then_keys() -> None:
    out, _ = outgoing()
    urls = of_remote_site(3)
    assert sorted(sent(out, links(urls, [8, 8, 8])).url) == sorted(urls)
    assert sent(out, links(urls, [8, 8, 8])).url == ["", "", ""]


def test_what_is_sent_on_goes_as_it_came() -> None:
    out, _ = outgoing()
    urls = of_remote_site(2)
    keys = page_keys(urls)
    assert sent(out, links(urls, [8, 8], has_text=False)).url == ["", ""], "it came by its key"
    assert sorted(sent(out, links(urls, [8, 8]), keys).url) == sorted(urls), "nobody may know it there"


@pytest.mark.parametrize(
    ("scores", "first_cash", "second_cash"), [("global", 64, 64), ("local", 64, 0), ("none", 0, 0)]
)
def test_cash_that_does_not_travel_is_the_virtual_page_s(scores: str, first_cash: int, second_cash: int) -> None:
    out, ledger = outgoing(site__scores=scores)
    columns = links(of_remote_site(2), [16, 48])._replace(hits=np.array([2, 3], np.int32))
    first = sent(out, columns)
    assert len(first.key) == 2
    assert int(first.cash.sum()) == first_cash
    assert sorted(first.hits.tolist()) == ([1, 1] if scores == "none" else [2, 3])
    assert ledger.pool == 64 - first_cash
    messages = out.messages(columns, OWNERS)
    assert sum(int(compact.decode(message.data).cash.sum()) for message in messages) == second_cash
    assert ledger.pool == 128 - first_cash - second_cash


@pytest.mark.parametrize("scores", ["global", "local", "none"])
def test_only_the_best_of_a_round(scores: str) -> None:
    """Half of four, since there are two sites; the others' cash is the virtual page's, and they may be sent later."""
    out, ledger = outgoing(limits__new_per_round=4, site__scores=scores)
    urls = of_remote_site(5)
    cash = [16, 64, 32, 8, 128]
    first = sent(out, links(urls, cash))
    assert sorted(first.url) == sorted([urls[1], urls[4]])
    assert int(first.cash.sum()) + ledger.pool == sum(cash)
    second = sent(out, links(urls, cash))
    assert sorted(url for url in second.url if url) == sorted([urls[2], urls[0]])
    assert int(first.cash.sum()) + int(second.cash.sum()) + ledger.pool == 2 * sum(cash)
