"""URLs: normal form, references, keys, domains, traps."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from gossamer.config import Limits
from gossamer.web import url as urls
from gossamer.web.url import (
    domain_of,
    host_key,
    host_of,
    is_dynamic,
    normalise,
    origin_of,
    page_key,
    page_keys,
    path_of,
    resolve,
    resolve_all,
    trap,
    whatwg,
)

ID = "0123456789abcdef0123456789abcdef"
IDS = st.sampled_from([";jsessionid=1", "sid=" + ID, "PHPSESSID=2", "(S(lit3py55t21z5v55vlm25s55))"])
PIECES = st.sampled_from(["a", "/", "//", "..", ".", "?", "#", "&", "=", "%2e", "\\", " ", "@", ":", "80", "\t"])
STARTS = st.sampled_from(["http:", "https://h", "é", "xn--", "\ud800", "[::1]"])
REFERENCES = st.lists(IDS | PIECES | STARTS, max_size=8).map("".join) | st.text(max_size=20)


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("HTTP://Example.COM:80/a/../b#c", "http://example.com/b"),
        ("https://example.com", "https://example.com/"),
        ("http://user:pass@example.com/@x", "http://example.com/@x"),
        ("http://example.com/a?b=%7e&c", "http://example.com/a?b=%7e&c"),
        ("http://example.com/a?", "http://example.com/a?"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://a.xn--pokxncvks/", "http://a.xn--pokxncvks/"),
        ("http://example.com/\ud800", "http://example.com/%EF%BF%BD"),
        ("http://example.com/a^b/^?^=^#^", "http://example.com/a%5Eb/%5E?^=^"),
        ("http://xn--a/^\ud800?^", "http://xn--a/%5E%EF%BF%BD?^"),  # the way of what the library refuses
        ("http://example.com/%5e^", "http://example.com/%5e%5E"),
    ],
)
def test_normal_form(url: str, form: str) -> None:
    assert normalise(url) == form


@pytest.mark.parametrize(
    ("href", "base", "form"),
    [
        ("^", "http://h/^/x", "http://h/%5E/%5E"),
        ("?^", "http://h/^", "http://h/%5E?^"),
        ("#^", "http://h/^", "http://h/%5E#^"),
        ("http://u^:p^@h/^", None, "http://u%5E:p%5E@h/%5E"),
        ("mailto:a^b", None, "mailto:a^b"),  # an opaque path
        ("data:^?^", None, "data:^?^"),
        ("web+demo:/^", None, "web+demo:/%5E"),
        ("file:///^", None, "file:///%5E"),
        ("http://a^b/", None, None),
    ],
)
def test_carets_of_paths_are_percent_encoded(href: str, base: str | None, form: str | None) -> None:
    assert whatwg(href, base) == form
    if base is not None and form is not None:
        assert resolve_all([href], base) == [form.partition("#")[0]]


def test_the_form_before_carets_were_percent_encoded() -> None:
    assert urls.earlier_form("http://h/a%5Eb?%5E=^") == "http://h/a^b?%5E=^"
    assert urls.earlier_form("http://h/a%5eb") == "http://h/a%5eb"  # written so by the page


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("http://h/a;jsessionid=12AB.n1/b?x", "http://h/a/b?x"),
        ("http://h/a;JSESSIONID=12", "http://h/a"),
        ("http://h/..;jsessionid=1/q", "http://h/q"),
        ("http://h/?PHPSESSID=2", "http://h/"),
        ("http://h/?a=1&phpsessid=2&b", "http://h/?a=1&b"),
        (f"http://h/view?f=2&sid={ID}", "http://h/view?f=2"),
        ("http://h/(S(lit3py55t21z5v55vlm25s55))/x.aspx", "http://h/x.aspx"),
    ],
)
def test_session_ids_are_stripped(url: str, form: str) -> None:
    assert normalise(url) == form


@pytest.mark.parametrize(
    "url",
    ["http://h/?sid=12", "http://h/?asid=" + ID, "http://h/(S(x))/y", "http://h/a;b=1", "http://h/?b=2&a=1&&"],
)
def test_nothing_else_is_changed(url: str) -> None:
    assert normalise(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "mailto:a@b.example",
        "javascript:void(0)",
        "data:text/html,x",
        "ftp://h/",
        "http://",
        "http://[example.org/",
        "http://h:99999/",
        "http://a b/",
        "about:blank",
        "file:///etc/passwd",
    ],
)
def test_what_is_not_a_web_page_has_no_normal_form(url: str) -> None:
    assert normalise(url) is None


@given(REFERENCES)
@example("http://h/a;jsessionid=..;jsessionid=1/(S(lit3py55t21z5v55vlm25s55))/")
def test_normalising_again_changes_nothing(reference: str) -> None:
    form = resolve(reference, "http://base.example/d/e?f")
    if form is not None:
        assert normalise(form) == form
        assert form.isascii()
        assert form.startswith(("http://", "https://"))
        assert host_of(form)
        assert origin_of(form) + path_of(form) == form


BASES = ["http://a", "http://a/", "http://a/b", "http://a/b/..", "http://a/b/c?d/e", "http://a/b/c?x", "http://a?b/c"]


@given(st.lists(REFERENCES, max_size=6), st.sampled_from([*BASES, "http://c", "http://xn--/x/y", "mailto:x", ""]))
def test_many_at_once_are_resolved_like_one(references: list[str], base: str) -> None:
    forms = dict.fromkeys(resolve(reference, base) for reference in references)
    assert resolve_all(references, base) == [form for form in forms if form is not None]


def test_more_slashes_than_two() -> None:
    assert whatwg("///host/path", "https://example.org/") == "https://host/path"


def test_a_page_on_a_host_with_wrong_punycode_has_links() -> None:
    assert resolve("b?c", "http://xn--/x/y") == "http://xn--/x/b?c"
    assert resolve("//xn--a/", "http://xn--/x/y") == "http://xn--a/"
    assert normalise("http://xn--a.%C3%A9.example/") is None


@pytest.mark.parametrize(
    ("url", "host", "origin", "path"),
    [
        ("http://example.com/", "example.com", "http://example.com", "/"),
        ("https://example.com:8443/a?b:c@d", "example.com", "https://example.com:8443", "/a?b:c@d"),
        ("http://[2001:db8::1]/x", "[2001:db8::1]", "http://[2001:db8::1]", "/x"),
        ("http://[2001:db8::1]:81/x", "[2001:db8::1]", "http://[2001:db8::1]:81", "/x"),
        ("http://a/", "a", "http://a", "/"),
    ],
)
def test_parts(url: str, host: str, origin: str, path: str) -> None:
    assert (host_of(url), origin_of(url), path_of(url)) == (host, origin, path)


def test_dynamic_pages_have_a_query() -> None:
    assert is_dynamic("http://h/?a")
    assert not is_dynamic("http://h/a")


def test_keys_keep_hosts_together() -> None:
    pages = ["http://h.example/", "http://h.example/b", "https://h.example:8443/", "http://other.example/"]
    keys = page_keys(pages)
    assert keys.dtype == np.uint64
    assert keys.tolist() == [page_key(page) for page in pages]
    assert {int(key) >> 40 for key in keys[:3]} == {host_key("h.example")}
    assert host_key("h.example") < 1 << 24
    assert len(set(keys.tolist())) == 4
    assert len(page_keys([])) == 0


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.co.uk", "example.co.uk"),
        ("a.b.example.com", "example.com"),
        ("example.com.", "example.com"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("www.xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_registrable_domain(host: str, domain: str) -> None:
    assert domain_of(host) == domain


def test_domains_by_every_rule_of_the_public_suffix_list() -> None:
    """Rules are parsed for one top-level domain at a time; the whole list at once has the same answers."""
    whole = PublicSuffixList()
    rules = [rule.lstrip("!").replace("*", "any") for rule in whole._publicsuffix]
    names = [f"{above}{rule}" for rule in rules if rule.isascii() for above in ("", "a.", "b.a.")]
    assert len(names) > 25_000
    assert [name for name in names if domain_of(name) != (whole.privatesuffix(name) or name)] == []
    unknown = "a.b.xn--0" + "z" * 10_000
    assert domain_of(unknown) == unknown.partition(".")[2]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h/a/b/c?d/e/d/e/d/e/d/e", ""),
        ("http://h/" + "a" * 3000, "length"),
        ("http://h:22/", "port"),
        ("http://[2001:db8::1]:6379/", ""),
        ("http://[2001:db8::1]:25/", "port"),
        ("http://[2001:db8::16]/", ""),
        ("http://h/" + "/".join(map(str, range(21))), "trap"),
        ("http://h/x/y/y/y", ""),
        ("http://h/x/y/y/y/y", "trap"),
        ("http://h/a/b/a/b/a/b/a/b", "trap"),
        ("http://h//////", "trap"),
    ],
)
def test_traps(url: str, why: str) -> None:
    assert trap(url, Limits()) == why


@pytest.mark.parametrize("url", ["http://a@./", "http://a:b@.:80/x", "https://a@./?q"])
def test_a_name_that_is_only_a_dot_stays_behind_a_user(url: str) -> None:
    """Without its name a URL would have no key, and the page with such a link would end the crawl."""
    found = normalise(url)
    assert found is not None
    assert host_of(found) == "."
    assert normalise(found) == found
    assert resolve_all([url], "http://h.test/") == [found]
