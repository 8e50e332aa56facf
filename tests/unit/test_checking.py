"""Whatever comes from outside, an agent goes on: what cannot be read is set aside or refused, and nothing else is."""

import bz2
import contextlib
import json
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gossamer.archive.manifest import (
    HOSTS,
    LINKS,
    MOVES,
    NEWS,
    PROTOCOL,
    REMOTE_LINKS,
    SEED_FILES,
    SEEDS,
    ZONES,
    Message,
)
from gossamer.archive.state import replace
from gossamer.archive.store import Memory
from gossamer.columns import PAGE, Contributions
from gossamer.crawl import inbox
from gossamer.crawl.inbox import Aside, decode, encode, refused, set_aside
from gossamer.crawl.opening import mentioned
from gossamer.errors import TooNew, Unreadable
from gossamer.placement.hostmap import ENTRY
from gossamer.sharing import checking, compact, estate, placing
from gossamer.sharing.checking import GOOD, Checked, verdict
from gossamer.sharing.envelope import joined, opened, sealed
from gossamer.sharing.exchange import InProcess
from gossamer.web.url import normalise, page_keys

SITES = ("lima", "oslo", "paris")
URLS = [f"http://h{n % 7}.test/section/{n}.html?q={n * n}" for n in range(60)]
FILES = [f"handover/a1-00000003-{table}.arrow" for table in ("page", "visited", "host", "resting")]
ENTRIES = np.array([(5, 1, 0), (1 << 23, 2, 3)], ENTRY)


def columns() -> Contributions:
    count = len(URLS)
    numbers = np.arange(count)
    cash = compact.rounded(numbers.astype(np.int64) << 40)
    ones = np.ones(count, np.uint8)
    return Contributions(page_keys(URLS), cash, numbers.astype(np.int32), ones, ones, np.zeros(count, np.uint64), URLS)


def pages() -> bytes:
    rows = np.zeros(len(URLS), PAGE.numpy)
    rows["key"] = page_keys(URLS)
    return estate.encoded(estate.Part("page", rows, [url.encode() for url in URLS]))[0]


def jars(*rows: Any) -> bytes:
    part = estate.Part(
        "cookies", np.zeros(len(rows), estate.DTYPES["cookies"]), [json.dumps(row).encode() for row in rows]
    )
    return estate.encoded(part)[0]


@pytest.mark.parametrize(
    "row", [5, ["a.test"], [5, "[]"], ["a.test", 5], ["a.test", "x"], ["a.test", "[[1]]"], ["a.test", "[[[]]]"]]
)
def test_cookies_that_are_none(row: Any) -> None:
    assert verdict(message(ZONES, 1, jars(row)), Memory(), SITES)[1], "they are refused"


def test_cookies_are_not_taken_from_another_site() -> None:
    wrong, waits, _ = verdict(message(HOSTS, 1, jars(["a.test", "[]"])), Memory(), SITES)
    assert (wrong, waits) == ("Unreadable: cookies are for agents of one site", True)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[1]", b'"name"', b"{}", b"null"])
def test_a_message_that_names_no_seed_files(data: bytes) -> None:
    good = Message(SEED_FILES, 1, 0, "", json.dumps(["/somewhere/seeds.txt"]).encode())
    assert verdict(good, Memory(), ())[:2] == GOOD[:2]
    wrong, waits, _ = verdict(replace(good, data=data), Memory(), ())
    assert wrong
    assert not waits


def test_news_of_sitemaps() -> None:
    def judged(*sitemaps: Any) -> bool:
        data = json.dumps({"sitemaps": sitemaps}).encode()
        return verdict(Message("a1", 1, 0, "a0", data, NEWS), Memory(), ())[:2] == GOOD[:2]

    assert judged(["a.test", "http://cdn.test/s.xml"])
    for bad in (["a.test"], ["a\n.test", "http://cdn.test/s.xml"], ["a.test", "s.xml"], ["a.test", 1], 1, "ab"):
        assert not judged(bad), bad


def good_messages() -> dict[str, list[tuple[int, bytes]]]:
    """Good data of every kind, with the part that they are."""
    hosts = placing.packed(ENTRIES)
    news: list[dict[str, Any]] = [
        {},
        {
            "scope": ["a.test", "b.test"],
            "rules": [{"host": "a.test", "since_s": 1.5, "depth": 2}],
            "pool": -5,
            "unknown": [0, 2**64 - 1],
            "moves": {"a.test": "oslo"},
        },
        {"hosts": hosts, "site": "oslo", "pages": 7, "round_trips": {"DE": 0.01}, "released": 2, "clean": 2},
    ]
    zones = {"files": FILES, "zones": [1, 255], "quiet_until_s": 7.5, "pages": 3, "cash": 99}
    header = {"site": "lima", "version": 2, "hosts": hosts, "zones": "0,3-900", "pages": 2, "cash": 1}
    rests = estate.encoded(estate.rests({"a.test": (1e9, 3)}))[0]
    cookies = jars(["a.test", '[["a","1",".a.test",true,"/",false,null]]'])
    known = np.arange(len(URLS)) % 3 == 0
    return {
        LINKS: [(0, data) for data in encode(columns())],
        SEEDS: [(0, data) for data in encode(columns())],
        REMOTE_LINKS: [(0, data) for data in compact.encode(columns(), known)],
        NEWS: [(0, json.dumps(each).encode()) for each in news],
        ZONES: [
            (0, json.dumps(zones).encode()),
            (0, json.dumps({**zones, "files": FILES[:3], "resting": {"a.test": [1e9, 2]}}).encode()),
            (0, json.dumps({name: said for name, said in zones.items() if name != "files"}).encode()),
            (0, json.dumps({"zones": "1-20,4095", "quiet_until_s": 7.5}).encode()),
            (1, pages()),
            (2, rests),
            (3, cookies),
        ],
        HOSTS: [
            (0, json.dumps({**header, "zones": [0, 3]}).encode()),  # as layout 4 had them
            (0, json.dumps(header).encode()),
            (1, pages()),
            (2, rests),
        ],
    }


GOOD_MESSAGES = [(kind, part, data) for kind, found in good_messages().items() for part, data in found]


@pytest.fixture(scope="module")
def store() -> Memory:
    made = Memory()
    for name in FILES:
        made.put(name, b"")
    return made


def message(kind: str, part: int, data: bytes) -> Message:
    """From an agent of the same site, if other sites send no such thing."""
    if kind in (LINKS, ZONES, MOVES) or b'"pool"' in data:
        return Message(MOVES if kind == MOVES else "lima_a1", 1, part, "lima_a0", data, kind, parts=part + 1)
    return Message("oslo_a0", 1, part, "lima", data, kind, parts=part + 1)


@pytest.mark.parametrize(("kind", "part", "data"), GOOD_MESSAGES)
def test_what_is_good_is_left_alone(store: Memory, kind: str, part: int, data: bytes) -> None:
    assert verdict(message(kind, part, data), store, SITES)[:2] == GOOD[:2]


def judged(store: Memory, one: Message) -> None:
    """Never an error; and whatever is called good, the decoders read."""
    wrong, waits, _ = verdict(one, store, SITES)
    assert waits or not (wrong and one.kind in (ZONES, HOSTS)), "what carries hosts is never thrown away"
    if wrong:
        return
    if one.kind in (LINKS, SEEDS, REMOTE_LINKS):
        found = (compact.decode if one.kind == REMOTE_LINKS else decode)(one.data)
        assert len({len(column) for column in found}) == 1
        assert len(page_keys([url for url in found.url if url])) <= len(found.key)
    elif one.kind in (ZONES, HOSTS) and one.part:
        estate.decoded(one.data)


KINDS = [LINKS, SEEDS, REMOTE_LINKS, NEWS, ZONES, HOSTS, MOVES]


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(KINDS), st.integers(0, 1), st.binary(max_size=200))
@example(NEWS, 0, b"[" * 100_000)
@example(NEWS, 0, b'{"pool": 1' + b"0" * 400 + b"}")
@example(NEWS, 0, b'{"scope": ["\\ud800"]}')
@example(NEWS, 0, b'{"scope": ["a\\nb"]}')
@example(NEWS, 0, b'{"scope": 5}')
@example(NEWS, 0, b'{"rules": [{"host": "a b", "since_s": 1}]}')
@example(NEWS, 0, b'{"rules": [{"host": "a.test", "since_s": 1, "include": ["re:("]}]}')
@example(NEWS, 0, b'{"hosts": "", "site": "lima"}')
@example(NEWS, 0, b'{"moves": {"a": 1}}')
@example(ZONES, 0, b'{"zones": [256], "files": [], "quiet_until_s": NaN}')
@example(ZONES, 0, b'{"zones": "4096", "quiet_until_s": 0}')
@example(ZONES, 0, b'{"quiet_until_s": 0}')
@example(REMOTE_LINKS, 0, b"\xff" * 300)
@example(SEEDS, 0, encode(columns()._replace(url=["x"] * len(URLS)))[0])
def test_any_bytes(store: Memory, kind: str, part: int, data: bytes) -> None:
    judged(store, message(kind, part, data))


@settings(deadline=None, max_examples=600)
@given(st.sampled_from(GOOD_MESSAGES), st.data())
def test_any_flipped_bit_or_cut(store: Memory, known: tuple[str, int, bytes], data: st.DataObject) -> None:
    kind, part, good = known
    bad = bytearray(good)
    for place in data.draw(st.lists(st.integers(0, 8 * len(good) - 1), min_size=1, max_size=3)):
        bad[place // 8] ^= 1 << place % 8
    judged(store, message(kind, part, bytes(bad[: data.draw(st.integers(len(good) // 2, len(good)))])))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["scope", "rules", "pool", "unknown", "hosts", "site", "pages", "round_trips", "moves", "released", "clean",
         "zones", "files", "resting", "quiet_until_s", "version"]  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(st.sampled_from([NEWS, ZONES, HOSTS, MOVES]), st.dictionaries(st.sampled_from(NAMES), json_values) | json_values)
def test_any_json(store: Memory, kind: str, said: Any) -> None:
    judged(store, message(kind, 0, json.dumps(said).encode()))


# What becomes of them


def world(store: Memory) -> tuple[InProcess, Checked]:
    exchange = InProcess()
    return exchange, Checked(exchange, Aside("lima_a0", store), store, SITES)


def test_what_cannot_be_read_is_set_aside_and_the_rest_goes_on() -> None:
    store = Memory()
    exchange, checked = world(store)
    good, garbage = encode(columns())[0], b"\x00garbage"
    exchange.publish(Message("a1", 1, 0, "lima_a0", good, parts=2))
    exchange.publish(Message("a1", 1, 1, "lima_a0", garbage, parts=2))
    exchange.publish(Message("a1", 2, 0, "lima_a0", good, previous=1))
    for _ in range(2):
        found = checked.pending("lima_a0", {})
        assert [(b.number, b.part, b.kind, b.data) for b in found] == [
            (1, 0, LINKS, good), (1, 1, NEWS, b"{}"), (2, 0, LINKS, good),
        ]  # fmt: skip
    assert set_aside(store) == 1
    (name,) = store.list("aside/")
    head, _, data = store.get(name).partition(b"\n")
    assert data == garbage
    assert {"stream": "a1>lima_a0", "number": 1, "part": 1, "kind": LINKS}.items() <= json.loads(head).items()
    assert not refused(store)


@pytest.mark.parametrize(
    "bad",
    [Message("a1", 1, 0, "lima_a0", b"{}", "greetings"), Message("a1", 1, 0, "lima_a0", b"garbage", ZONES),
     Message("a1", 1, 0, "lima_a0", b"garbage", HOSTS),
     Message("a1", 1, 0, "lima_a0", json.dumps({"hosts": "", "site": "rome", "pages": 1}).encode(), NEWS)],
    ids=["unknown kind", "zones", "hosts", "a site that we do not know yet"],
)  # fmt: skip
def test_what_is_refused_stays_and_holds_up_its_own_stream_only(bad: Message) -> None:
    store = Memory()
    exchange, checked = world(store)
    exchange.publish(bad)
    exchange.publish(Message("a1", 2, 0, "lima_a0", b"{}", NEWS, previous=1))
    other = Message("a2", 1, 0, "lima_a0", b"{}", NEWS)
    exchange.publish(other)
    for _ in range(2):
        assert checked.pending("lima_a0", {}) == [other]
    assert exchange.confirmed("a1>lima_a0") == 0
    (note,) = refused(store)
    assert note["stream"] == "a1>lima_a0"
    assert set_aside(store) == 0
    Aside("lima_a0", store)
    assert refused(store) == [], "whoever starts again says again what it refuses"


# What another site may not do


def test_another_site_sends_nothing_that_only_agents_of_one_site_do(store: Memory) -> None:
    news = {"hosts": "", "site": "oslo", "pages": 1}
    cases = [
        ("oslo_a0", LINKS, encode(columns())[0], "agents of one site"),
        ("oslo_a0", ZONES, b'{"zones": [1], "quiet_until_s": 0}', "agents of one site"),
        ("oslo_a0", NEWS, b'{"pool": 5}', "agents of one site"),
        ("oslo_a0", NEWS, b'{"moves": {"a.test": "oslo"}}', "agents of one site"),
        ("oslo_a0", NEWS, json.dumps({**news, "site": "paris"}).encode(), "in the name of another"),
        ("oslo_a0", NEWS, b'{"scope": []' + b" " * checking.PART_BYTES + b"}", "bytes"),
        (MOVES, LINKS, b'{"a.test": "oslo"}', "speaks for no site"),
        (SEED_FILES, LINKS, b'["/etc/passwd"]', "speaks for no site"),
        (SEEDS, LINKS, encode(columns())[0], "speaks for no site"),
    ]
    for sender, kind, data, why in cases:
        assert why in verdict(Message(sender, 1, 0, "lima", data, kind), store, SITES).wrong, (sender, kind)
    assert verdict(Message("oslo_a0", 1, 0, "lima", json.dumps(news).encode(), NEWS), store, SITES).wrong == ""


def test_what_is_small_and_becomes_large_is_not_unpacked(store: Memory) -> None:
    """Some kilobytes, which would take gigabytes of memory: by front-coded text, by compressed blocks, and by Arrow."""
    count = 2_000_000
    text = bz2.compress(bytes([128, *b"x" * 127]) + b"\xff" * (count - 1))
    cash, rest = (zstandard.compress(bytes(size)) for size in (count, 6 * count))
    blocks = [(b"", 0), (b"", 0), (cash, 1), (cash, 1), (rest, 1), (text, 2)]
    numbers = compact._number(count) + compact._number(0)
    front = numbers + b"".join(compact._number(3 * len(data) + how) + data for data, how in blocks)
    zeros = zstandard.compress(bytes(200_000_000))
    plain = compact._number(0) + compact._number(50_000_000) + 2 * (compact._number(3 * len(zeros) + 1) + zeros)
    url = b"http://h.test/" + b"x" * 200_000_000
    (seed,) = encode(columns().take(np.arange(1))._replace(url=[url.decode()]), limit=1 << 30)
    (page,) = estate.encoded(estate.Part("page", np.zeros(1, PAGE.numpy), [url]))
    bombs = [(REMOTE_LINKS, 0, front), (REMOTE_LINKS, 0, plain), (SEEDS, 0, seed), (HOSTS, 1, page)]
    before = pa.default_memory_pool().max_memory()
    for kind, part, data in bombs:
        assert len(data) < 100_000
        tracemalloc.start()
        finding = verdict(message(kind, part, data), store, SITES)
        most = max(tracemalloc.get_traced_memory()[1], pa.default_memory_pool().max_memory() - before)
        tracemalloc.stop()
        assert finding.wrong
        assert most < 2 * compact.MOST_BYTES, f"{kind} took {most:,} bytes"


def test_what_is_sent_is_far_below_what_is_taken(store: Memory) -> None:
    count = compact.MOST_ROWS // 2
    many = Contributions(*(np.zeros(count, column.dtype) for column in columns()[:-1]), ["http://h.test/x"] * count)  # type: ignore[arg-type]
    many = many._replace(key=np.arange(count, dtype=np.uint64))
    parts = compact.encode(many, np.zeros(count, np.bool_))
    assert len(parts) > 1
    for data in parts:
        assert verdict(message(REMOTE_LINKS, 0, data), store, SITES).wrong == ""


def test_a_commit_takes_a_bounded_amount_of_another_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost by it, and nobody else waits. A number that is too much for any commit is refused."""
    store = Memory()
    exchange, checked = world(store)
    data = compact.encode(columns(), np.zeros(len(URLS), np.bool_))[0]
    size = verdict(message(REMOTE_LINKS, 0, data), store, SITES).size
    monkeypatch.setattr(checking, "COMMIT_BYTES", 2 * size)
    monkeypatch.setattr(checking, "MESSAGE_BYTES", 4 * size)
    for number in range(1, 8):
        exchange.publish(Message("oslo_a0", number, 0, "lima", data, REMOTE_LINKS, previous=number - 1))
    for part in range(9):
        exchange.publish(Message("oslo_a0", 8, part, "lima", data, REMOTE_LINKS, parts=9, previous=7))
    exchange.publish(Message("paris_a0", 1, 0, "lima", b"{}", NEWS))
    marks = {"oslo_a0>lima": 0}
    for last in (3, 6, 7):
        found = checked.pending("lima", marks)
        assert [each.number for each in found if each.sender == "oslo_a0"] == [
            *range(marks["oslo_a0>lima"] + 1, last + 1)
        ]
        assert [each.number for each in found if each.sender == "paris_a0"] == [1]
        marks["oslo_a0>lima"] = last
    assert [each.sender for each in checked.pending("lima", marks)] == ["paris_a0"]
    (note,) = refused(store)
    assert "takes more than" in note["why"]
    assert set_aside(store) == 0


# Envelopes

BATCH = Message("a1", 7, 2, "lima", b"data", REMOTE_LINKS, 3, 5)
((HEADERS, _),) = sealed(BATCH)
SUBJECT = "links.lima.a1"


def test_an_envelope() -> None:
    assert joined([opened(SUBJECT, HEADERS, b"data")]) == [BATCH]
    assert HEADERS["protocol"] == str(PROTOCOL)
    (old,) = joined([opened(SUBJECT, {k: v for k, v in HEADERS.items() if k != "protocol"}, b"data")])
    assert old.protocol == 1, "who wrote it did not know that there are versions"


@pytest.mark.parametrize(
    ("subject", "change"),
    [(SUBJECT, {name: None}) for name in ("number", "part", "parts", "previous", "kind")]
    + [(SUBJECT, {"number": "x"}), (SUBJECT, {"number": "-1"}), (SUBJECT, {"number": "9" * 30}),
       (SUBJECT, {"number": "0"}), (SUBJECT, {"part": "3"}), (SUBJECT, {"kind": "../etc"}), (SUBJECT, {"kind": ""}),
       (SUBJECT, {"protocol": "new"}), (SUBJECT, {"piece": "1"}), ("links.lima", {}), ("links.lima.a$", {}),
       ("links.lima.a$", {"protocol": "9"})],
)  # fmt: skip
def test_no_envelope_of_ours(subject: str, change: dict[str, str | None]) -> None:
    headers = {name: text for name, text in {**HEADERS, **change}.items() if text is not None}
    with pytest.raises(Unreadable):
        opened(subject, headers, b"")


@given(st.integers(0, 8 * len(BATCH.data) - 1))
def test_a_flipped_bit_is_noticed(place: int) -> None:
    """Many would give other links, and as good ones."""
    data = bytearray(BATCH.data)
    data[place // 8] ^= 1 << place % 8
    with pytest.raises(Unreadable, match="damaged"):
        opened(SUBJECT, HEADERS, bytes(data))


def test_a_later_version_is_named() -> None:
    """Whatever else it says: a later version may say it otherwise."""
    with pytest.raises(TooNew, match=f"version {PROTOCOL + 1} of the protocol"):
        opened(SUBJECT, {"protocol": str(PROTOCOL + 1)}, b"")


@given(st.text(max_size=30), st.dictionaries(st.sampled_from(sorted(HEADERS)) | st.text(), st.text()), st.binary())
def test_any_envelope(subject: str, headers: dict[str, str], data: bytes) -> None:
    with contextlib.suppress(Unreadable):
        assert opened(subject, headers, data).message.data == data


@given(
    st.text(alphabet="abz019-._~!$&'()*+,;=:@%[]{}\"`^|<> /?#\u00fc\u4e2d", min_size=1, max_size=20),
    st.text(max_size=20),
)
@example("0@.", "")
@example("a@.", "x?q")
def test_whatever_is_a_normal_form_can_be_sent(host: str, path: str) -> None:
    """A link or seed that we make ourselves is never set aside by who gets it, with all that came along."""
    url = normalise(f"http://{host}/{path}")
    if url is not None:
        data = encode(mentioned([url]))[0]
        assert verdict(Message("a1", 1, 0, "a0", data, LINKS), Memory(), ())[:2] == GOOD[:2]
        assert verdict(Message(SEEDS, 1, 0, "", data), Memory(), ())[:2] == GOOD[:2]


def test_garbage_without_an_end_does_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "ASIDE_BYTES", 100_000)
    store = Memory()
    aside = Aside("lima_a0", store)
    for number in range(1_000):
        aside.put(b"%d" % number + bytes(number * 10), "garbage")
        aside.refuse("garbage", number=number)
    assert 0 < set_aside(store) < 25
