"""This module makes a crawl of WARC files that others wrote: the files as they are, with our tables and index beside.

Only a file that is not compressed record by record is written anew, so that single records can be read.
Each file is one round, committed whole. The pages are read as a crawl reads them. There is no index of known pages:
such a crawl is for reading.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.copies import copied
from gossamer.archive.digests import DigestCache
from gossamer.archive.manifest import Changes
from gossamer.archive.state import Counters, replace
from gossamer.archive.store import Directory
from gossamer.archive.tables import write_table
from gossamer.archive.warc import Location
from gossamer.archive.warc_reader import Record
from gossamer.clocks import RealClock
from gossamer.columns import ACCOUNT, LINKS, PAGES, VISITS, Outcome
from gossamer.config import Config
from gossamer.crawl.reader import VERDICTS, Reader
from gossamer.crawl.round import Round
from gossamer.crawl.scope import Scope
from gossamer.errors import ConfigError
from gossamer.fetch.outcome import outcome_of_status
from gossamer.fetch.request import Request, Response
from gossamer.geography import countries
from gossamer.repair.damaged_warc import captures, members
from gossamer.repair.recompress import begins_with_record, recompress
from gossamer.sharing.exchange import InProcess
from gossamer.web.http import Headers
from gossamer.web.url import domain_of, host_of, normalise, origin_of, page_key, resolve

_NOT_MODIFIED = 304
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})")


@dataclass
class Imported:
    """`Imported` counts what was found."""

    files: int = 0
    answers: int = 0
    damaged: int = 0  # stretches of files that are no records
    unusable: int = 0  # records of answers without a URL, a date or an answer
    pages: set[int] = field(default_factory=set)  # keys
    hosts: set[str] = field(default_factory=set)
    counters: Counters = field(default_factory=Counters)  # for `gossamer status`


@dataclass
class _Placed:
    """`_Placed` stands for a WARC writer: the records are in the file already."""

    store: Directory
    place: Location

    def write_exchange(self, *_: Any, **__: Any) -> Location:
        return self.place

    def close(self) -> Changes:
        self.store.put(self.place.file, self.store.scratch(self.place.file))
        return Changes({"warc": [self.place.file]})


class _NoneKnown:
    """`_NoneKnown` refers to no page: every record stays what it is."""

    def note(self, *_: Any) -> None:
        return

    def url(self, *_: Any) -> str:
        return ""


def import_warc(directory: Path, files: Sequence[Path], config: Config | None = None) -> Imported:
    """Makes a crawl of these files in a directory that holds none."""
    config, clock, exchange = config or Config(), RealClock(), InProcess()
    for path in files:
        _check(path)
    store = Directory.prepare(directory, clock.now())
    found = Imported()
    with store.lock(config.crawl.agent):
        chain = Chain.open(store, config.crawl.agent, exchange)
        if chain.files:
            raise ConfigError(f"{directory} holds a crawl already; choose another --dir")
        reader = Reader(config, Scope("any"))
        for path in files:
            changes = _round(store, chain, path, reader, found)
            state = replace(chain.state, counters=found.counters)
            chain.commit(changes, state=state, marks={}, outbox=[], exchange=exchange, applied=[], now_s=clock.now())
            found.files += 1
    return found


def _check(path: Path) -> None:
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    if is_zip:
        raise ConfigError(f"{path} is a zip file; of a WACZ, `unzip {path}` and import the files in archive/")
    if not (_is_by_record(path) or begins_with_record(path)):
        raise ConfigError(f"{path} is no WARC file, or nothing of it can be read: .warc, .warc.gz or .warc.zst")


def _is_by_record(path: Path) -> bool:
    """Returns whether a file has gzip members that are one record each, as nearly all do."""
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    return is_gzip and any(member.record is not None for member in members(path))


def _round(store: Directory, chain: Chain, path: Path, reader: Reader, found: Imported) -> Changes:
    agent, number = chain.agent, chain.round
    name = f"warc/{agent}-{number:08d}-0.warc.gz"
    scratch = store.scratch(name)
    if _is_by_record(path):
        copied(path, scratch)
    else:
        found.damaged += recompress(path, scratch).damaged
    placed = _Placed(store, Location(name, 0, 0))
    round_ = Round(number, placed, DigestCache(0), _NoneKnown())
    for member in members(scratch):
        found.damaged += member.record is None
        if member.record is None or member.record.headers.get("WARC-Type") not in ("response", "revisit"):
            continue
        response = _response(member.record)
        if response is None:
            found.unusable += _is_of_web(member.record)
            continue
        placed.place = Location(name, member.offset, member.length)
        round_.add(reader.read(response))
        found.answers += 1
    changes = _tables(store, agent, number, round_, found)
    index = f"cdxj/{agent}-{number:08d}.cdxj"
    lines = sorted(captures(scratch, name))
    changes |= placed.close()
    if lines:
        store.put(index, "".join(lines).encode("ascii"))
        changes |= Changes({"cdxj": [index]})
    return changes


def _response(record: Record) -> Response | None:
    """Returns the answer that a record holds; None if it is none of a web page, or nobody knows of which and when."""
    url = normalise(record.headers.get("WARC-Target-URI", "").strip("<>"))
    is_revisit = record.headers["WARC-Type"] == "revisit"
    status, started_s = _STATUS.match(record.head), _seconds(record)
    if url is None or math.isnan(started_s) or (status is None and not is_revisit):
        return None
    code = int(status[1]) if status else _NOT_MODIFIED
    outcome = Outcome.UNCHANGED if is_revisit else _outcome(code)
    location = ""
    if outcome is Outcome.MOVED:
        location = resolve(Headers(record.head).get("location") or "", url) or ""
        outcome = Outcome.MOVED if location else Outcome.BAD_REDIRECT
    request = Request(page_key(url), url, host_of(url), is_robots=url.endswith("/robots.txt"), origin=origin_of(url))
    return Response(
        request,
        outcome,
        http_status=code,
        started_s=started_s,
        address=record.headers.get("WARC-IP-Address", ""),
        head=record.head or b"HTTP/1.1 304 Not Modified\r\n\r\n",
        body=b"" if is_revisit else record.body,
        truncated=record.headers.get("WARC-Truncated", "") if not is_revisit else "",
        location=location,
        large=None if is_revisit else record.large,
    )


def _is_of_web(record: Record) -> bool:
    """Returns whether a record is of a web page, for all that we know: others are of names (dns:) and the like."""
    return record.headers.get("WARC-Target-URI", "http").strip("<>").lower().startswith("http")


def _outcome(status: int) -> Outcome:
    if 300 <= status < 400 and status != _NOT_MODIFIED:
        return Outcome.MOVED
    return Outcome.OK if 200 <= status < 300 else outcome_of_status(status)


def _seconds(record: Record) -> float:
    """Returns when a record was made, in seconds since 1970; NaN if it does not say."""
    try:
        date = datetime.fromisoformat(record.headers["WARC-Date"])
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (KeyError, ValueError, OverflowError):
        return math.nan
    # Half a millisecond more: the tables cut, and a fraction may be a little less than what is written.
    return seconds + 0.0005 if seconds >= 0 else math.nan


def _tables(store: Directory, agent: str, number: int, round_: Round, found: Imported) -> Changes:
    rows = round_.columns()
    unknown = [None] * len(rows["key"])
    rows |= {**dict.fromkeys(ACCOUNT, unknown), "country": countries(rows["address"]).tolist()}
    changes = write_table(store, VISITS, agent, number, {**rows, "round": number})
    pairs = zip(rows["key"], rows["url"], rows["is_robots"], strict=True)
    new = {key: url for key, url, is_robots in pairs if not is_robots and key not in found.pages}
    found.pages |= new.keys()
    hosts = [host_of(url) for url in new.values()]
    _count(rows, hosts, found)
    pages: dict[str, Any] = {"key": list(new), "url": list(new.values()), "host": hosts}
    pages |= {"domain": [domain_of(host) for host in hosts], "referrer": 0, "round": number, "depth": 0, "kind": "page"}
    changes |= write_table(store, PAGES, agent, number, pages)
    source, targets, verdicts = round_.links()[:3]
    keys = np.fromiter((visit.response.request.key for visit in round_.visits), np.uint64, len(round_.visits))
    links: dict[str, Any] = {
        "source": keys[source],
        "target": targets,
        "target_url": [round_.urls[key] for key in targets.tolist()],
        "verdict": (verdicts, list(VERDICTS)),
        "round": number,
        "kind": "link",
    }
    return changes | write_table(store, LINKS, agent, number, links)


def _count(rows: dict[str, Any], hosts: Sequence[str], found: Imported) -> None:
    found.hosts |= set(hosts)
    visits = [i for i, is_robots in enumerate(rows["is_robots"]) if not is_robots]
    of_round = Counters(
        visits=len(visits),
        truncated=sum(bool(rows["truncated"][i]) for i in visits),
        rounds=1,
        wire_bytes=sum(rows["wire_bytes"]),
        outcomes=Counter(rows["outcome"][i] for i in visits),
    )
    found.counters = replace(found.counters + of_round, known=len(found.pages), hosts=len(found.hosts))
