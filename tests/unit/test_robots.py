import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.web.robots import LIMIT_BYTES, Rules, verdict_of_status


def rules(text: str, agent: str = "Gossamer") -> Rules:
    return Rules.parse(text.encode(), agent)


def test_the_longest_match_decides_and_is_named() -> None:
    found = rules("User-agent: *\nDisallow: /shop/\nAllow: /shop/open/ # yes\nDisallow: /shop/open/not\n")
    assert found.decide("/shop/x") == (False, "Disallow: /shop/")
    assert found.decide("/shop/open/x") == (True, "Allow: /shop/open/ # yes")
    assert found.decide("/shop/open/note") == (False, "Disallow: /shop/open/not")
    assert found.decide("/elsewhere") == (True, "")


def test_allow_wins_between_equals_in_any_order() -> None:
    for text in ("Allow: /a\nDisallow: /a", "Disallow: /a\nAllow: /a", "Disallow: /*a$\nAllow: /*a$"):
        assert rules(f"User-agent: *\n{text}").allows("/a")


def test_a_wildcard_counts_in_the_length() -> None:
    assert not rules("User-agent: *\nAllow: /fish\nDisallow: /fish*").allows("/fish")
    assert not rules("User-agent: *\nDisallow: /fish*\nAllow: /fish").allows("/fish")
    assert rules("User-agent: *\nAllow: /fish*\nDisallow: /fish").allows("/fishing")


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("Allow: /*\nDisallow: /x", "/x", True),  # as long as each other
        ("Disallow: /x\nAllow: /*", "/xy", True),
        ("Allow: /*\nDisallow: /xy", "/xy", False),
        ("Disallow: /a**\nAllow: /ab", "/abc", False),
        ("Disallow: /a**\nAllow: /abc", "/abc", True),
        ("Disallow: /a*\nAllow: /ab\nDisallow: /abc", "/abd", True),
        ("Allow: /***\nDisallow: /ab\nAllow: /c", "/abc", True),
    ],
)
def test_the_longest_prefix_is_not_always_the_longest_rule(text: str, path: str, allowed: bool) -> None:
    assert rules(f"User-agent: *\n{text}").allows(path) is allowed


@pytest.mark.parametrize(
    ("pattern", "hits", "misses"),
    [
        ("/*.php$", ["/a.php", "/d/a.php", "/a.php.php"], ["/a.php?x", "/a.phps", "/php"]),
        ("/a*b*c", ["/abc", "/a1b2c3", "/axxbxxcxx"], ["/acb", "/ab", "/xabc"]),
        ("*/print", ["/print", "/a/print/b"], ["/prin"]),
        ("/a*b$", ["/ab", "/abb", "/axb"], ["/a", "/abx", "/b"]),
        ("/ab*ab$", ["/abab", "/ab-ab"], ["/ab", "/aba"]),
        ("/$", ["/"], ["/a"]),
        ("/*", ["/", "/a"], []),
        ("/a*$", ["/a", "/abc"], ["/b"]),
        ("/a$b", ["/a$b", "/a%24bc"], ["/a", "/ab"]),
        ("/file-%2A.html", ["/file-*.html"], ["/file-x.html"]),
        ("/*?id=", ["/x?id=1", "/?id="], ["/x?no=1"]),
        ("/**//***a", ["///a", "/x//ya"], ["/a"]),
    ],
)
def test_wildcards(pattern: str, hits: list[str], misses: list[str]) -> None:
    found = rules(f"User-agent: *\nDisallow: {pattern}")
    assert [path for path in hits if found.allows(path)] == []
    assert [path for path in misses if not found.allows(path)] == []


@pytest.mark.parametrize(
    ("pattern", "path", "same"),
    [
        ("/~joe", "/%7Ejoe", True),
        ("/%7ejoe", "/~joe", True),
        ("/a%3cd", "/a%3Cd", True),
        ("/a%2fb", "/a/b", False),
        ("/a%2fb", "/a%2Fb", True),
        ("/bücher/", "/b%C3%BCcher/x", True),
        ("/b%c3%bccher/", "/bücher/x", True),
        ("/voilà", "/voil%C3%A0", True),
        ("/a b", "/a%20b", True),
        ("/100%", "/100%", True),
        ("/wiki/Talk%3M", "/wiki/Talk%3M", True),
        ("/x|y", "/x%7Cy", True),
    ],
)
def test_percent_encoding_does_not_matter_where_the_rfc_says_so(pattern: str, path: str, same: bool) -> None:
    assert rules(f"User-agent: *\nDisallow: {pattern}").allows(path) is not same


def test_our_group_replaces_the_one_for_all() -> None:
    text = "User-agent: *\nDisallow: /\n\nUser-agent: gossamer/2.1\nDisallow: /x\n"
    assert rules(text).group == "gossamer"
    assert rules(text).allows("/y")
    assert not rules(text).allows("/x")
    assert rules(text, "Other").group == "*"
    assert not rules(text, "Other").allows("/y")
    assert rules("User-agent: a\nDisallow: /").group == ""
    assert rules("User-agent: Gossamer\n\nUser-agent: *\nDisallow: /").allows("/") is False  # one group


def test_an_empty_group_of_ours_allows_all() -> None:
    text = "User-agent: Gossamer\nDisallow:\n\nUser-agent: *\nDisallow: /"
    assert rules(text).allows("/anything")


def test_groups_for_the_same_agent_are_merged_and_other_lines_do_not_end_a_group() -> None:
    text = (
        "User-agent: Gossamer\nSitemap: https://a/s.xml\nCrawl-delay: 3\nUser-agent: b\nDisallow: /1\n"
        "User-agent: c\nDisallow: /2\nUser-agent: GOSSAMER\nDisallow: /3\n"
    )
    found = rules(text)
    assert [found.allows(path) for path in ("/1", "/2", "/3")] == [False, True, False]
    assert found.crawl_delay_s == 3
    assert rules(text, "b").crawl_delay_s is None  # the delay stands above it
    assert rules(text, "b").allows("/1") is False


@pytest.mark.parametrize("agent", ["Gossamer", "gossamer", "Gossamer/1.0", "GOSSAMER (+https://x.example)"])
def test_the_product_token_decides(agent: str) -> None:
    assert not rules("User-Agent: gosSamer/0.9 comment\nDisallow: /", agent).allows("/")
    assert rules("User-Agent: gossamerx\nDisallow: /", agent).allows("/")
    assert rules("User-Agent: goss\nDisallow: /", agent).allows("/")


def test_rules_before_any_agent_are_ignored() -> None:
    assert rules("Disallow: /\nUser-agent: x\nDisallow: /").allows("/")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("10", 10.0), ("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("10 # s", 10.0), ("600", 600.0), ("0", 0.0)]
    + [(bad, None) for bad in ("", "-1", "abc", "1.2.3", "10a", "1e9", "nan", "inf", "9" * 400)],
)
def test_crawl_delay(value: str, seconds: float | None) -> None:
    assert rules(f"User-agent: *\nCrawl-delay: {value}\n").crawl_delay_s == seconds


def test_the_longest_of_several_delays_counts() -> None:
    assert rules("User-agent: *\nCrawl-delay: 2\nCrawl-delay: 7\nCrawl-delay: 3").crawl_delay_s == 7


def test_robots_txt_itself_is_always_allowed() -> None:
    assert Rules.deny_all().allows("/robots.txt")
    assert not Rules.deny_all().allows("/robots.txt2")


def test_all_or_nothing() -> None:
    assert Rules.allow_all().decide("/x") == (True, "")
    assert Rules.deny_all().decide("/x") == (False, "")


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\nDisallow: /x",
        b"User-agent: *\r\nDisallow: /x\r\n",
        b"User-agent: *\rDisallow: /x\r",
        b"\xef\xbb\xbfUser-agent: *\nDisallow: /x",
        b"User-agent: *\x00\nDis\x00allow: /x\x00\n",
        "\ufeffUser-agent: *\nDisallow: /x".encode("utf-16-le"),
        "\ufeffUser-agent: *\nDisallow: /x".encode("utf-16-be"),
        "User-agent: *\nDisallow: /x".encode("utf-16-le"),
        b"\xff\xf0\x80 junk\nuser-agent : *\n\tDISALLOW\t:\t/x\t\n",
        b"user agent: *\ndissallow: /x",
        b"User-agent *\nDisallow /x",
        b"<html>\nUser-agent: *\nDisallow: /x\n</html>",
    ],
)
def test_odd_bytes(body: bytes) -> None:
    found = Rules.parse(body, "Gossamer")
    assert not found.allows("/x")
    assert found.allows("/y")


def test_only_the_first_500_kib_count_and_no_half_line() -> None:
    start = b"User-agent: *\n"
    filler = b"#" * (LIMIT_BYTES - len(start) - 13) + b"\n"
    body = start + filler + b"Disallow: /ab/cdef\nDisallow: /late\n"
    assert len(start + filler + b"Disallow: /a") == LIMIT_BYTES
    found = Rules.parse(body, "x")
    assert found.allows("/a")
    assert found.allows("/ab/cdef")
    assert found.allows("/late")
    whole = start + filler[:-7] + b"\nDisallow: /ab/cdef\n"
    assert not Rules.parse(whole[: LIMIT_BYTES - 20] + b"\nDisallow: /q\n" + b"x" * 99, "x").allows("/q")


def test_sitemaps_are_global_distinct_and_in_order() -> None:
    found = rules("Sitemap: https://a/1.xml\nUser-agent: q\nDisallow: /\nsitemap:/2.xml#x\nSITEMAP: https://a/1.xml")
    assert found.sitemaps == ["https://a/1.xml", "/2.xml"]


def test_relative_sitemaps_are_relative_to_the_robots_txt() -> None:
    found = rules("Sitemap: /a.xml\nSitemap: b.xml\nSitemap: //c.example/\nSitemap: mailto:x\nSitemap: ./b.xml")
    assert found.sitemap_urls("https://www.example.org/robots.txt") == [
        "https://www.example.org/a.xml",
        "https://www.example.org/b.xml",
        "https://c.example/",
    ]


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u200b", "\ufeff", " \u00a0\t\u2003"])
def test_odd_white_space_is_white_space(space: str) -> None:
    text = f"{space}User-agent{space}:{space}*\nDisallow:{space}/x\nSitemap:{space}https://a.example/1.xml{space}\n"
    assert not rules(text).allows("/x")
    assert rules(text).sitemaps == ["https://a.example/1.xml"]


def test_a_no_break_space_of_latin_1_before_a_sitemap() -> None:
    found = Rules.parse(b"Sitemap:\xa0https://a.example/1.xml\xa0\nUser-agent: *\nDisallow: \xa0/x", "g")
    assert found.sitemaps == ["https://a.example/1.xml"]
    assert not found.allows("/x")
    assert Rules.parse("Sitemap: https://a.example/voilà".encode(), "g").sitemaps == ["https://a.example/voilà"]


@pytest.mark.parametrize("line", ["User-agent", "user-agent ", "User-agent # all", "Disallow", "Allow", "Sitemap"])
def test_a_name_alone_is_no_line(line: str) -> None:
    text = f"User-agent: gossamer\nDisallow: /1\n{line}\nDisallow: /2\n"
    assert not rules(text).allows("/2")
    text = f"User-agent: gossamer\n{line}\nUser-agent: other\nDisallow: /1\n"
    assert not rules(text).allows("/1")  # still one group
    assert not rules(text, "other").allows("/1")


def test_who_allows_the_index_allows_the_directory() -> None:
    found = rules("User-agent: *\nDisallow: /\nAllow: /d/index.html\n")
    assert found.allows("/d/")
    assert found.allows("/d/index.html")
    assert not found.allows("/d/x")


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        *[(status, "rules") for status in (200, 204)],
        *[(status, "allow_all") for status in (400, 401, 403, 404, 410, 499)],
        *[(status, "deny_all") for status in (0, 100, 301, 429, 500, 503, 600)],
    ],
)
def test_verdict_of_status(status: int, verdict: str) -> None:
    assert verdict_of_status(status) == verdict


def test_size_grows_with_the_rules() -> None:
    small = rules("User-agent: *\nDisallow: /x").size_bytes
    big = rules("User-agent: *\n" + "".join(f"Disallow: /{n}\n" for n in range(1000))).size_bytes
    assert 500 < small < 2000
    assert big > 100 * 1000


def test_hostile_patterns_end() -> None:
    stars = "User-agent: *\n" + "".join(f"Disallow: /{'a*' * 40}{n}b\n" for n in range(4000))
    assert rules(stars).allows("/" + "a" * 1900)
    assert rules("User-agent: *\nDisallow: /" + "*a" * 250_000).allows("/" + "a" * 1900)
    assert rules("User-agent: *\n" + " " * 500_000 + ":").allows("/")
    plain = rules("User-agent: *\n" + "".join(f"Disallow: /{n:x}/\n" for n in range(20_000)))
    assert not plain.allows("/4e1f/x")
    assert plain.allows("/4e20/x")


TEXT = st.lists(st.sampled_from([*"ab/*$?é", "%2A", "%24", "%62", "%2f", "%C3%a9"]), max_size=8).map("".join)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), TEXT), max_size=8), TEXT)
def test_agrees_with_a_slow_and_obvious_matcher(lines: list[tuple[bool, str]], path: str) -> None:
    path = "/" + path
    text = "".join(f"{'Allow' if allow else 'Disallow'}: /{pattern}\n" for allow, pattern in lines)
    matching = [(_length("/" + p), allow) for allow, p in lines if _slow(_plain("/" + p, True), _plain(path, False))]
    assert rules("User-agent: *\n" + text).allows(path) is (max(matching)[1] if matching else True)


def _plain(text: str, pattern: bool) -> str:
    """One character per octet, escapes resolved; wildcards of a pattern as control characters."""
    anchored = pattern and text.endswith("$")
    text = text[:-1] if anchored else text
    octets, at = [], 0
    raw = text.encode()
    while at < len(raw):
        if raw[at] == 0x25 and len(raw) > at + 2 and all(c in b"0123456789abcdefABCDEF" for c in raw[at + 1 : at + 3]):
            octet = int(raw[at + 1 : at + 3], 16)
            reserved = not (chr(octet).isalnum() and octet < 128) and chr(octet) not in "-._~*$"
            octets.append(f"%{octet:02X}" if reserved and octet < 128 else chr(octet))
            at += 3
        else:
            octets.append("\x01" if pattern and raw[at] == 0x2A else chr(raw[at]))
            at += 1
    return "".join(octets) + ("\x02" if anchored else "")


def _length(pattern: str) -> int:
    """In octets as they are compared: é takes six."""
    body, end = (pattern[:-1], 1) if pattern.endswith("$") else (pattern, 0)
    return end + sum(1 if char < "\x7f" else 3 for char in _plain(body, True))


def _slow(pattern: str, path: str) -> bool:
    if not pattern:
        return True
    if pattern == "\x02":
        return path == ""
    if pattern[0] == "\x01":
        return any(_slow(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    return path[:1] == pattern[0] and _slow(pattern[1:], path[1:])
