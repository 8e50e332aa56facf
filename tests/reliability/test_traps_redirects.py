"""Crawls that are redirected: in circles, far, across hosts, to odd and to forbidden places.

Numbers such as T001 are those of the list in tests/cases/README.md.
"""

import re
import ssl
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import tools
from raw_server import Loopback
from scripted import Web, moved, outcomes, page, reply, robots, statuses, verdicts

from gossamer.cli.inspection import inspect


def test_t001_loops(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {
        "/self": moved("/self"), "/a": moved("/b"), "/b": moved("/a"),
        "/x": moved("http://other.test/x"), "other.test/x": moved("http://t.test/x"),
    })  # fmt: skip
    found = web.crawl(tmp_path, ["http://t.test/self", "http://t.test/a", "http://t.test/x"])
    wanted = ["t.test/self", "t.test/a", "t.test/b", "t.test/x", "other.test/x"]
    assert sorted(web.asked()) == sorted(wanted), "each is asked for once"
    assert outcomes(found).pop("http://t.test/self") == "bad_redirect"
    assert set(statuses(found).values()) == {"moved", "gone"}


@pytest.mark.parametrize("limit", [10, 20])
def test_t002_chains_up_to_the_limit(loopback: Loopback, tmp_path: Path, limit: int) -> None:
    chains = {f"/{n}/{i}": moved(f"/{n}/{i + 1}") for n in (10, 20, 21) for i in range(n)}
    web = Web(loopback, {**chains, **{f"/{n}/{n}": page(text="the end") for n in (10, 20, 21)}})
    found = web.crawl(tmp_path, [f"http://t.test/{n}/0" for n in (10, 20, 21)], fetch__hops=limit)
    outcome = outcomes(found)
    for n in (10, 20, 21):
        if n <= limit:
            assert outcome[f"http://t.test/{n}/{n}"] == "ok"
        else:
            assert outcome[f"http://t.test/{n}/{limit}"] == "bad_redirect"
            assert f"t.test/{n}/{limit + 1}" not in web.asked()
    rows = found.query("SELECT url, location, reason FROM visits WHERE outcome IN ('moved', 'bad_redirect')")
    hops = {row["url"]: row["location"] for row in rows}
    assert hops["http://t.test/10/0"] == "http://t.test/10/1", "the chain is on record"
    reasons = {row["reason"] for row in rows if row["reason"]}
    assert reasons == {f"more than {limit} redirects in a row"}


def test_t003_every_hop_obeys_its_own_host(loopback: Loopback, tmp_path: Path) -> None:
    hosts = ["a.test", "b.test", "c.test", "d.test", "e.test"]
    replies = {f"{one}/hop": moved(f"http://{two}/hop") for one, two in pairwise(hosts)}
    web = Web(loopback, {**replies, "c.test/robots.txt": robots("User-agent: *\nDisallow: /hop\n")})
    found = web.crawl(tmp_path, ["http://a.test/hop"])
    assert web.asked(with_robots=True) == [
        "a.test/robots.txt", "a.test/hop", "b.test/robots.txt", "b.test/hop", "c.test/robots.txt",
    ]  # fmt: skip
    assert statuses(found)["http://c.test/hop"] == "denied"


def test_t003_every_hop_stays_in_scope(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {"a.test/": moved("http://a.test/next"), "a.test/next": moved("http://b.test/")})
    found = web.crawl(tmp_path, ["http://a.test/"], crawl__scope="host")
    assert web.asked() == ["a.test/", "a.test/next"]
    assert verdicts(found)["http://b.test/"] == "scope"


def test_t004_every_kind(loopback: Loopback, tmp_path: Path) -> None:
    followed, not_followed = (301, 302, 303, 307, 308), (305, 306)
    replies = {f"/{status}": moved(f"/to-{status}", status) for status in (*followed, *not_followed)}
    choices = reply(b"<html>several choices</html>", 300)
    web = Web(loopback, {**replies, "t.test": page("/"), "/300": choices, "/399": reply(b"<html>?</html>", 399)})
    seeds = [f"http://t.test/{status}" for status in (*followed, *not_followed, 300, 399)]
    found = web.crawl(tmp_path, seeds)
    outcome = outcomes(found)
    for status in followed:
        assert outcome[f"http://t.test/{status}"] == "moved"
        assert outcome[f"http://t.test/to-{status}"] == "ok"
    for status in (*not_followed, 300, 399):
        assert outcome[f"http://t.test/{status}"] == "bad_redirect"
    assert all(exchange.head.startswith(b"GET ") for exchange in web.exchanges())
    assert not [path for path in web.asked() if path.endswith(("to-305", "to-306"))]
    sql = "SELECT content(warc, warc_offset) AS body FROM pages WHERE url = 'http://t.test/300'"
    assert found.query(sql) == [{"body": "<html>several choices</html>"}]


def test_t005_no_target_or_several(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {
        "/none": reply(b"", 302), "/empty": moved(""),
        "/two": reply(b"", 302, "Location: /one", "Location: /other"),
        "/same": reply(b"", 302, "Location: /one", "Location: /one"), "/one": page(),
    })  # fmt: skip
    found = web.crawl(tmp_path, [f"http://t.test/{name}" for name in ("none", "empty", "two", "same")])
    outcome = outcomes(found)
    assert [outcome[f"http://t.test/{name}"] for name in ("none", "empty")] == ["bad_redirect"] * 2
    assert outcome["http://t.test/two"] == "broken", "an answer that contradicts itself is none"
    assert outcome["http://t.test/same"] in ("moved", "broken")
    assert "t.test/other" not in web.asked()
    rows = found.query("SELECT reason FROM visits WHERE url = 'http://t.test/two'")
    assert all("Location" in row["reason"] for row in rows)


ODD_TARGETS: dict[bytes, str | None] = {  # None: whatever it is taken for, the request stays whole
    b"rel/x": "/dir/rel/x",
    b"../up": "/up",
    b"?q=1": "/dir/from?q=1",
    b"/x#part": "/x",
    b"/a b c": "/a%20b%20c",
    b"/\xc3\xa4?\xc3\xa4": "/%C3%A4?%C3%A4",
    b"/\xe4": "/%E4",
    b" \t/x \t": "/x",
    b"/%7euser": "/%7euser",
    b"//%b/x": "/x",
    b"HTTP://%b:80/y": "/y",
    b"/x\rInjected: yes": None,
    b"/x\0y": None,
    b"/x\x0b\x7f": None,
}


def test_t006_odd_targets(loopback: Loopback, tmp_path: Path) -> None:
    hosts = {f"h{i}.test": location for i, location in enumerate(ODD_TARGETS)}
    replies = {f"{h}/dir/from": moved(location.replace(b"%b", h.encode())) for h, location in hosts.items()}
    web = Web(loopback, {**replies, **{host: page() for host in hosts}})
    web.crawl(tmp_path, [f"http://{host}/dir/from" for host in hosts], fetch__retries=0)
    for host, location in hosts.items():
        paths = [exchange.path for exchange in web.exchanges(host)]
        assert paths[0] == "/dir/from"
        assert len(paths) <= 2
        if (wanted := ODD_TARGETS[location]) is not None:
            assert paths[1:] == [wanted]
    for exchange in web.exchanges(with_robots=True):
        line, _, fields = exchange.head.partition(b"\r\n")
        assert re.fullmatch(rb"GET [\x21-\x7e]+ HTTP/1\.1", line), "nothing splits a request line"
        assert b"njected" not in fields


def test_t007_targets_that_are_no_web_pages(loopback: Loopback, tmp_path: Path) -> None:
    targets = [
        "http://[::bad/", "http://", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://t.test/x",
        "mailto:me@t.test", "http://t.test:99999/", "about:blank", "view-source:http://t.test/", "gopher://t.test/",
    ]  # fmt: skip
    web = Web(loopback, {f"/{i}": moved(target) for i, target in enumerate(targets)})
    found = web.crawl(tmp_path, [f"http://t.test/{i}" for i in range(len(targets))])
    assert set(outcomes(found).values()) == {"bad_redirect"}
    assert sorted(web.asked()) == sorted(f"t.test/{i}" for i in range(len(targets)))
    rows = found.query("SELECT reason FROM visits WHERE url = 'http://t.test/4'")
    assert rows == [{"reason": "redirect to something that is no web address: file:///etc/passwd"}]
    assert not found.query("SELECT 1 FROM visits WHERE text(warc, warc_offset) LIKE '%root:%'")


def test_t008_robots_redirects(loopback: Loopback, tmp_path: Path) -> None:
    """The robots.txt of h0 redirects to that of h1, and so on: six hops from h0, five from h1."""
    chain = [f"h{i}.test/robots.txt" for i in range(7)]
    replies = {one: moved(f"http://{two}") for one, two in pairwise(chain)}
    web = Web(loopback, {**replies, chain[-1]: robots("User-agent: *\nDisallow: /private\n"), "/public": page()})
    for hops in (6, 5, 2, 1):  # one crawl each, or one would learn from the other
        host = f"h{6 - hops}.test"
        found = web.crawl(tmp_path / host, [f"http://{host}/private/x", f"http://{host}/public"])
        assert outcomes(found)[f"http://{host}/public"] == "ok"
        assert (f"{host}/private/x" in web.asked()) == (hops > 5), "beyond five there is no robots.txt, by RFC 9309"
    assert web.asked(with_robots=True)[:6] == chain[:6]


def test_robots_redirects_to_no_file_follow_one_rule(loopback: Loopback, tmp_path: Path) -> None:
    """To itself, in a circle, a chain too long, no target: by RFC 9309 section 2.3.1.2 there is no robots.txt then."""
    web = Web(loopback, {
        "self.test/robots.txt": moved("/robots.txt"),
        "circle.test/robots.txt": moved("/r"), "circle.test/r": moved("/robots.txt"),
        **{f"long.test/{'robots.txt' if i == 0 else i}": moved(f"/{i + 1}") for i in range(9)},
        "none.test/robots.txt": reply(b"", 301),
    })  # fmt: skip
    hosts = ["self.test", "circle.test", "long.test", "none.test"]
    found = web.crawl(tmp_path, [f"http://{host}/private/x" for host in hosts])
    assert {f"{host}/private/x" for host in hosts} <= set(web.asked())
    rows = found.query("SELECT origin, verdict FROM robots")
    assert {row["origin"]: row["verdict"] for row in rows} == {f"http://{host}": "allow_all" for host in hosts}
    for host in hosts:
        assert inspect(f"http://{host}/private/x", web.config())["robots"]["verdict"] == "allowed"


def test_robots_that_cannot_be_decoded_forbid_for_now(loopback: Loopback, tmp_path: Path) -> None:
    rules = b"User-agent: *\nDisallow: /private\n"
    web = Web(loopback, {
        "new.test/robots.txt": reply(rules, 200, "Content-Encoding: dcb"),
        "broken.test/robots.txt": reply(b"\x1f\x8b\x08\x00" + rules, 200, "Content-Encoding: gzip"),
    })  # fmt: skip
    found = web.crawl(tmp_path, ["http://new.test/x", "http://broken.test/x"], crawl__patience_s=1.0)
    assert not web.asked(), "only robots.txt"
    assert set(statuses(found).values()) == {"new"}
    assert {row["verdict"] for row in found.query("SELECT verdict FROM robots")} == {"deny_all"}
    for host in ("new.test", "broken.test"):
        assert inspect(f"http://{host}/x", web.config())["robots"]["verdict"] == "unreachable"


def test_t009_up_and_down_between_http_and_https(loopback: Loopback, tmp_path: Path) -> None:
    pem, key = tmp_path / "a.pem", tmp_path / "a.key"
    openssl = tools.need("openssl")
    make = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=a.test"
    subprocess.run([*make.split(), "-keyout", str(key), "-out", str(pem)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    secure = Web(loopback, {}, wrap=lambda connection: context.wrap_socket(connection, server_side=True))
    plain = Web(loopback, {})
    http, https = f"http://a.test:{plain.server.port}", f"https://a.test:{secure.server.port}"
    plain.replies = {"/up": moved(f"{https}/up"), "/down": page(text="plain"), "/flip": moved(f"{https}/flip")}
    secure.replies = {"/up": page(text="secret"), "/down": moved(f"{http}/down"), "/flip": moved(f"{http}/flip")}
    found = plain.crawl(
        tmp_path / "crawl", [f"{http}/up", f"{https}/down", f"{http}/flip"],
        resolve__map={"a.test": "127.0.0.1"}, fetch__verify_tls=False,
    )  # fmt: skip
    assert statuses(found) == {
        f"{http}/up": "moved", f"{https}/up": "fetched", f"{https}/down": "moved", f"{http}/down": "fetched",
        f"{http}/flip": "moved", f"{https}/flip": "moved",
    }  # fmt: skip
    for web in (plain, secure):
        assert sorted(exchange.path for exchange in web.exchanges()) == ["/down", "/flip", "/up"]


def test_t010_to_another_spelling_of_itself(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {
        "/x": moved("HTTP://T.test:80/x#there"), "/y": moved("/y;jsessionid=A1B2"), "/d": moved("/d/"), "/d/": page(),
    })  # fmt: skip
    found = web.crawl(tmp_path, ["http://t.test/x", "http://t.test/y", "http://t.test/d"])
    assert sorted(web.asked()) == ["t.test/d", "t.test/d/", "t.test/x", "t.test/y"]
    assert outcomes(found)["http://t.test/y"] == "bad_redirect"


def test_t011_refresh(loopback: Loopback, tmp_path: Path) -> None:
    meta = '<meta http-equiv="refresh" content="{}">'
    web = Web(loopback, {
        "/soon": page(head=meta.format("0; url=/a")), "/late": page(head=meta.format("3600; url=/b")),
        "/header": reply(b"<html>moving</html>", 200, "Refresh: 5; url=/c"),
        "/script": page(text="<script>location='/d'</script><!-- " + meta.format("0; url=/e") + " -->"),
        "/noscript": page(head="<noscript>" + meta.format("0; url=/f") + "</noscript>"),
    })  # fmt: skip
    web.crawl(tmp_path, [f"http://t.test/{name}" for name in ("soon", "late", "header", "script", "noscript")])
    targets = {path[-2:] for path in web.asked() if len(path) == len("t.test/a")}
    assert targets == {"/a", "/c"}


def test_t085_a_cookie_is_never_returned(loopback: Loopback, tmp_path: Path) -> None:
    web = Web(loopback, {
        "/": reply(b"", 302, "Location: /", "Set-Cookie: seen=1; Path=/"),
        "/wall": reply(b"", 302, "Location: /wall?check", "Set-Cookie: seen=1"),
        "/wall?check": reply(b"", 302, "Location: /wall", "Set-Cookie: seen=1"),
    })  # fmt: skip
    found = web.crawl(tmp_path, ["http://t.test/", "http://t.test/wall"])
    assert sorted(web.asked()) == ["t.test/", "t.test/wall", "t.test/wall?check"]
    assert not [exchange for exchange in web.exchanges(with_robots=True) if b"\ncookie" in exchange.head.lower()]
    assert outcomes(found)["http://t.test/"] == "bad_redirect"
