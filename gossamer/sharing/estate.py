"""This module moves all that is known of pages: it alone takes rows out of an index, or puts another's into one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from gossamer.archive.manifest import Changes
from gossamer.archive.resting import Rests
from gossamer.archive.state import AgentState, replace
from gossamer.arrays import I64, AnyKeys, Bools, HostKeys, Rows
from gossamer.columns import COOKIES, HOST, KIN, LATER, NO_TEXT, ONWARD, PAGE, RESTING, VISITED
from gossamer.crawl import onward
from gossamer.crawl.inbox import check_table, in_parts
from gossamer.crawl.opening import Books
from gossamer.crawl.update import is_final, is_requisite
from gossamer.frontier.caps import domain_key
from gossamer.frontier.pages import HOST_SHIFT, host_of_key
from gossamer.frontier.sorted_runs import search
from gossamer.web.url import host_key

Texts = Sequence[bytes]


class Part(NamedTuple):
    """`Part` has rows of one table, and a text for each: a page's URL, a visited page's validators, its onward links, a
    resting host's name, a website's cookies."""

    table: str
    rows: Rows
    texts: Texts


_REST = np.dtype([("host", "u4"), ("until_s", "f8"), ("failures", "u4")])
_JAR = np.dtype([("domain", "u4")])
DTYPES: dict[str, np.dtype[Any]] = {table.name: table.numpy for table in (PAGE, VISITED, ONWARD, KIN, HOST)}
DTYPES |= {RESTING.name: _REST, COOKIES.name: _JAR}
_jar = msgspec.json.Decoder(tuple[str, str])


def schema(table: str) -> pa.Schema:
    return _schema(DTYPES[table])


def _schema(dtype: np.dtype[Any]) -> pa.Schema:
    return pa.schema([("row", pa.binary(dtype.itemsize)), ("text", pa.binary())])


def to_arrow(part: Part) -> pa.RecordBatch:
    """Returns the rows' bytes, and a text for each."""
    rows = np.ascontiguousarray(part.rows)
    of_rows = schema(part.table)
    column = pa.FixedSizeBinaryArray.from_buffers(of_rows[0].type, len(rows), [None, pa.py_buffer(rows)])
    return pa.record_batch([column, pa.array(part.texts, pa.binary())], schema=of_rows)


def from_arrow(table: str, message: pa.RecordBatch) -> Part:
    dtype = DTYPES[table]
    sent = _of_before(dtype)
    if sent == dtype or not message.schema.equals(_schema(sent)):
        sent = dtype
    check_table(message, _schema(sent))
    column = message.column(0)
    rows = np.frombuffer(column.buffers()[1], sent, len(column), column.offset * sent.itemsize)
    whole = np.zeros(len(rows), dtype)
    for name in sent.names or ():
        whole[name] = rows[name]
    return Part(table, whole, message.column(1).to_pylist())


def _of_before(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the rows as earlier versions sent them: without the columns that came later."""
    return np.dtype([(name, dtype[name]) for name in dtype.names or () if name not in LATER])


def encoded(part: Part) -> list[bytes]:
    """Encodes a part for messages: each piece is below the limit of one."""
    return [part.table.encode() + b"\n" + piece for piece in in_parts(to_arrow(part))] if len(part.rows) else []


def decoded(data: bytes) -> Part:
    """Decodes what `encoded` made; anything else is an error."""
    table, _, rows = data.partition(b"\n")
    with pa.ipc.open_stream(rows) as reader:
        (message,) = list(reader)
    return from_arrow(table.decode(), message)


def known_hosts(books: Books) -> HostKeys:
    """Returns all hosts of which something is known, in order: also those that only requisites are of, which have no
    row of their own."""
    found = [np.unique(host_of_key(rows["key"])) for rows in books.index.pages.scan()]
    return np.unique(np.concatenate([books.index.hosts.rows["host"], rests(books.resting.hosts).rows["host"], *found]))


def gather(books: Books, keys: HostKeys, hosts: Rows) -> list[Part]:
    """Returns what is known of the pages of the hosts with these keys (sorted), and the rows of hosts; cash without
    what V hides of it."""
    index, first = books.index, keys.astype(np.uint64) << HOST_SHIFT
    last = first | np.uint64((1 << int(HOST_SHIFT)) - 1)
    tables = (index.pages, index.visited, index.onward, index.traps.table)
    pages, visited, ahead, kin = (table.ranges(first, last) for table in tables)
    pages = pages[np.argsort(pages["text"], kind="stable")]  # in order of discovery, as the new owner will have them
    pages["cash"][~is_requisite(pages["hops"])] += books.ledger.v
    has_text = visited["validators"] != np.uint64(NO_TEXT)
    validators = np.full(len(visited), b"", object)
    validators[has_text] = index.heap.read(visited["validators"][has_text])
    return [
        Part(PAGE.name, pages, index.heap.read(pages["text"])),
        Part(VISITED.name, visited, validators.tolist()),
        Part(ONWARD.name, ahead, [onward.packed(links) for links in onward.read(index, ahead["key"])]),
        Part(KIN.name, kin, [b""] * len(kin)),
        Part(HOST.name, hosts, [b""] * len(hosts)),
        _among(rests(books.resting.hosts), keys),
    ]


def rests(hosts: Mapping[str, Sequence[float]]) -> Part:
    """Returns resting hosts as a part."""
    rows = np.zeros(len(hosts), _REST)
    rows["host"] = [host_key(name) for name in hosts]
    if hosts:
        rows["until_s"], rows["failures"] = np.array(list(hosts.values()), np.float64).T
    return Part(RESTING.name, rows, [name.encode() for name in hosts])


def cookies(books: Books, hosts: Rows) -> Part:
    """Returns what the websites of these hosts have set; agents that have other hosts of a website keep it as well."""
    here, kept = set(hosts["domain"].tolist()), books.kept_cookies.rows
    found = [domain for domain in kept if domain_key(domain) in here]
    rows = np.array([(domain_key(domain),) for domain in found], _JAR)
    return Part(COOKIES.name, rows, [msgspec.json.encode((domain, *kept[domain])) for domain in found])


def _among(part: Part, keys: HostKeys) -> Part:
    here = np.flatnonzero(np.isin(part.rows["host"], keys))
    return Part(part.table, part.rows[here], [part.texts[row] for row in here.tolist()])


def forget(books: Books, pages: int, keep: Callable[[AnyKeys], Bools]) -> Changes:
    """Removes what belongs to another owner now. `keep` decides which host keys stay."""
    books.ledger.known -= pages
    changes = books.index.retain(books.store, books.chain.label, keep)
    books.frontier.rank_anew()
    hosts = books.resting.hosts
    stays = keep(rests(hosts).rows["host"]).tolist()
    changes |= books.resting.write(
        {name: rest for (name, rest), here in zip(hosts.items(), stays, strict=True) if here}
    )
    domains, kept = set(books.index.hosts.rows["domain"].tolist()), books.kept_cookies
    changes |= kept.write({name: row for name, row in kept.rows.items() if domain_key(name) in domains})
    return changes | books.frontier.flush(books.store, books.chain.label)


def take_in(books: Books, parts: Iterable[Part]) -> Changes:
    """Adds what is ours now. Tables come in the order of `gather`, each in one or more parts."""
    index, resting, jars = books.index, dict(books.resting.hosts), dict(books.kept_cookies.rows)
    grown = []
    for table, rows, texts in parts:
        if table == PAGE.name:
            grown.append(_take_pages(books, rows, texts))
        elif table == VISITED.name:
            _take_visited(books, rows, texts)
        elif table == RESTING.name:
            _take_rests(resting, rows, texts)
        elif table == COOKIES.name:
            take_cookies(jars, texts)
        elif table == ONWARD.name:
            onward.write(index, rows["key"], [onward.unpacked(text) for text in texts])
        elif table == KIN.name:
            index.traps.table.write(rows)
        else:
            known, visited = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
            for hosts, new, settled in grown:
                here, places = search(rows["host"], hosts)
                np.add.at(known, places[here], new[here])
                np.add.at(visited, places[here], settled[here])
            index.hosts.grow(rows["host"], rows["domain"], known, visited)
    index.traps.recount()
    changes = index.flush(books.store, books.chain.label) | books.resting.write(resting)
    changes |= books.kept_cookies.write(jars)
    books.frontier.rank_anew()
    return changes | books.frontier.flush(books.store, books.chain.label)


def _take_pages(books: Books, rows: Rows, texts: Texts) -> tuple[AnyKeys, I64, I64]:
    """Takes pages in. For pages that we know already, since we crossed over to them, both parts of what is known are
    joined. Returns their hosts, and how many known and visited pages each row adds."""
    index, ledger = books.index, books.ledger
    by_key = np.argsort(rows["key"])
    known, mine = np.zeros(len(rows), np.bool_), np.zeros(len(rows), rows.dtype)
    known[by_key], mine[by_key] = index.pages.look_up(rows["key"][by_key])
    new = np.flatnonzero(~known)
    rows["text"] = mine["text"]
    rows["text"][new] = index.heap.append([texts[place] for place in new.tolist()])
    rows["cash"] += np.where(known, mine["cash"], 0)
    rows["hits"] = np.minimum(rows["hits"].astype(np.int64) + np.where(known, mine["hits"], 0), 0xFFFFFFFF)
    for name in ("depth", "hops"):
        rows[name] = np.where(known, np.minimum(rows[name], mine[name]), rows[name])
    is_page, was_page = ~is_requisite(rows["hops"]), known & ~is_requisite(mine["hops"])
    rows["cash"][is_page & ~was_page] -= ledger.v
    was_final = known & is_final(mine["status"])
    ours = was_final & ~is_final(rows["status"])
    for name in ("status", "due_s", "tries"):
        rows[name][ours] = mine[name][ours]
    index.pages.write(rows[by_key], len(new))
    ledger.known += int((is_page & ~was_page).sum())
    visited = (is_final(rows["status"]) & is_page).astype(np.int64) - (was_final & was_page)
    return host_of_key(rows["key"]), (is_page & ~was_page).astype(np.int64), visited


def _take_visited(books: Books, rows: Rows, texts: Texts) -> None:
    index = books.index
    found, mine = index.visited.look_up(rows["key"])
    newer = ~found | (rows["last_s"] > mine["last_s"])
    given = np.array([bool(text) for text in texts], bool) & newer
    rows["validators"][given] = index.heap.append([texts[place] for place in np.flatnonzero(given).tolist()])
    index.visited.write(rows[newer], int((~found).sum()))


def _take_rests(resting: Rests, rows: Rows, texts: Texts) -> None:
    """Takes resting hosts in. If two agents know how long a host rests, the later time counts."""
    for name, (_, until_s, failures) in zip(texts, rows.tolist(), strict=True):
        host, rest = name.decode(), (until_s, failures)
        resting[host] = max(rest, resting.get(host, rest))


def take_cookies(jars: dict[str, tuple[str]], texts: Texts) -> None:
    """Takes cookies in. Where both agents have some of a website, ours count more."""
    from gossamer.fetch.cookies import joined  # http.cookiejar: whoever needs no cookies need not wait for it

    for domain, text in map(_jar.decode, texts):
        jars[domain] = (joined(jars.get(domain, ("[]",))[0], text),)


def state_of(books: Books, quiet_s: float, now_s: float) -> AgentState:
    """Returns the state of an agent that fetches nothing. The hosts that have come are not fetched elsewhere either,
    and no fetch was later than now."""
    rows = books.index.hosts.rows
    unvisited = int(rows["known"].sum(dtype=np.int64)) - int(rows["visited"].sum(dtype=np.int64))
    before = books.chain.state
    return replace(
        before,
        ledger=books.ledger.state(),
        counters=replace(before.counters, known=books.ledger.known, hosts=len(rows), frontier=unvisited),
        resting={},
        quiet_until_s=quiet_s,
        committed_s=now_s,
        clean=True,
        settling=True,  # what came may have to go on: until the agent begins, nobody knows
    )
