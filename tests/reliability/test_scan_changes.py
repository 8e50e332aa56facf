"""Two scans of a website between which all kinds of things happen: a scan reports exactly what was seen, what is gone,
and what nobody knows, with the reason."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
from commands import answer, run
from raw_server import Exchange, Loopback
from scripted import Reply, Web, moved, page, reply, robots, silent

AWAY = "http://away.test/"
OPTIONS = (
    "--depth",
    "2",
    "--delay",
    "0",
    "--agents",
    "1",
    "--set",
    "fetch.retries=0",
    "--set",
    "polite.backoff_s=0.05",
)
QUICK = ("--set", "fetch.timeout_s=4", "--set", "crawl.patience_s=1", "--set", "polite.connections=8")


def away(name: str) -> str:
    return f"{AWAY}{name}"


def broken(exchange: Exchange) -> bool:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    return False


def cut(exchange: Exchange) -> bool:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n<a href=/>to</a>")
    return False


# Kinds of change of a page with one link away: what it answers the second time, the state of that link then, and why.
PAGES: dict[str, tuple[Reply | None, str, str]] = {
    "same": (page(away("same")), "seen", ""),
    "words": (page(away("words"), text="other words"), "seen", ""),
    "marked": (reply(f'<a rel="nofollow" href="{away("marked")}">to</a>'.encode()), "seen", ""),
    "without": (page("/"), "gone", "its page was read without it"),
    "plain": (reply(b"text", mime="text/plain"), "gone", "its page was read without it"),
    "missing": (reply(b"", 404), "gone", "its page is gone"),
    "removed": (reply(b"", 410), "gone", "its page is gone"),
    "error": (reply(b"", 500), "unknown", "it answered 500"),
    "forbidden": (reply(b"", 403), "unknown", "it answered 403"),
    "rejected": (reply(b"", 400), "unknown", "it answered 400"),
    "denied": (page(away("denied")), "unknown", "robots.txt forbids it"),
    "moved": (moved("/same"), "unknown", "it leads to http://a.test/same"),
    "broken": (broken, "unknown", ""),
    "cut": (cut, "unknown", "it was read in part (disconnect)"),
    "orphan": (None, "unknown", "not visited"),  # the start page no longer links to it
}
# Pages behind others: what the page before them answers the second time.
BEHIND: dict[str, Reply] = {"busy": reply(b"", 503, "Retry-After: 1"), "closed": reply(b"", 401)}


def first() -> dict[str, Reply]:
    found: dict[str, Reply] = {f"a.test/{name}": page(away(name)) for name in PAGES}
    for name in BEHIND:
        found[f"a.test/{name}"] = page(f"/behind-{name}", away(name))
        found[f"a.test/behind-{name}"] = page(away(f"behind-{name}"))
    found["a.test/late"] = reply(b"", 500)
    names = [*PAGES, *BEHIND, "late", "timeout"]
    found["a.test/timeout"] = page(away("timeout"))
    return found | {"a.test/": page(*(f"/{name}" for name in names)), "a.test/robots.txt": robots("")}


def second(web: Web) -> None:
    names = [name for name in (*PAGES, *BEHIND, "late", "timeout", "new") if name != "orphan"]
    web.replies |= {f"a.test/{name}": again for name, (again, *_) in PAGES.items() if again is not None}
    web.replies |= {f"a.test/{name}": again for name, again in BEHIND.items()}
    web.replies["a.test/"] = page(*(f"/{name}" for name in names), away("start"))
    web.replies["a.test/robots.txt"] = robots("User-agent: *\nDisallow: /denied\n")
    web.replies["a.test/late"] = page(away("late"))
    web.replies["a.test/new"] = page(away("new"))
    web.replies["a.test/timeout"] = silent(lambda: web.server, 30.0)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_changed_between_two_scans_is_exact(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, first())
    (tmp_path / "SITES.txt").write_text("a.test\n")
    command = ("scan", "SITES.txt", "--testweb", web.address, *OPTIONS, *QUICK)
    before = answer(*command, "--json", at=tmp_path)
    names = [*PAGES, *BEHIND, *(f"behind-{name}" for name in BEHIND), "timeout"]
    assert (before["seen"], before["unknown"], before["gone"]) == (len(names), 0, 0)
    second(web)
    shown = run(*command, at=tmp_path).stdout.decode()
    folder = tmp_path / "scan" / "scans" / "0002"

    expected = {name: state for name, (_, state, _) in PAGES.items()}
    expected |= dict.fromkeys([*BEHIND, *(f"behind-{name}" for name in BEHIND), "timeout"], "unknown")
    assert len(expected) + 3 >= 17, "with what is late, new, and on the start page"
    gone = {name for name, state in expected.items() if state == "gone"}
    unknown = {name for name, state in expected.items() if state == "unknown"}
    links = {row["target"].removeprefix(AWAY): row for row in rows(folder / "links.csv")}
    kept = {name: state for name, state in expected.items() if state != "gone"}
    assert {name: row["state"] for name, row in links.items()} == kept | dict.fromkeys(("late", "new", "start"), "seen")
    changed = {(row["change"], row["target"].removeprefix(AWAY)): row for row in rows(folder / "changes.csv")}
    appeared = {("appeared", "new"), ("appeared", "start")}  # nobody knows whether "late" was there before
    assert set(changed) == appeared | {("gone", name) for name in gone} | {("unknown", name) for name in unknown}
    for name, (_, state, reason) in PAGES.items():
        found = changed["gone", name] if state == "gone" else links[name]
        assert found["reason"].startswith(reason), name
        assert found["state"] == state
        assert bool(found["reason"]) == (state != "seen"), name
    assert links["busy"]["reason"] == "it answered 503"
    for name in ("orphan", "behind-busy", "behind-closed"):
        assert "pages that were not read" in links[name]["reason"]
    assert links["busy"]["last_seen"] < links["same"]["last_seen"]
    (site,) = pq.read_table(folder / "sites.parquet").to_pylist()
    counts = {"seen": len(kept) - len(unknown) + 3, "gone": len(gone), "unknown": len(unknown), "appeared": 2}
    assert {name: site[name] for name in counts} == counts
    assert f"{counts['seen']} seen (2 appeared), {len(gone)} gone, {len(unknown)} unknown" in shown
    unread = {row["source"].rpartition("/")[2] for row in rows(folder / "unread.csv")}
    assert unread == (unknown - {"orphan", "behind-busy", "behind-closed"})

    # All is as it was: nothing appears that was there, and what is gone comes back.
    web.replies = first() | {"a.test/late": page(away("late"))}
    third = answer(*command, "--json", at=tmp_path)
    assert third["unknown"] == 1, "the page that is new the second time is linked by none now"
    back = {
        row["target"].removeprefix(AWAY)
        for row in rows(tmp_path / "scan/scans/0003/changes.csv")
        if row["change"] == "appeared"
    }
    assert back == gone
    assert json.loads((tmp_path / "scan/scans/0003/scan.json").read_text())["ended_s"]
