"""`Page` is what a page function is given; everything in it is computed when it is first asked for."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from gossamer.errors import GossamerError
from gossamer.functions.protocol import Setup, Task
from gossamer.web.answer import Answer
from gossamer.web.html import Document, parse_html
from gossamer.web.http import Headers, content_type
from gossamer.web.posts import body_of, post_of_data, post_of_json, split_name
from gossamer.web.sitemap import is_sitemap, parse_sitemap
from gossamer.web.sniff import HTML, is_html
from gossamer.web.url import resolve

_XPATH = "page.xpath needs parsel: pip install 'gossamer-crawler[xpath]'"


class Link(NamedTuple):
    """`Link` is a link on a page, to the normal form of its URL."""

    url: str
    text: str  # what a reader clicks on
    source: str  # the URL of the page
    nofollow: bool  # the page asks not to follow it


class Follow(NamedTuple):
    """`Follow` asks to visit a page; `Page.follow` and `Page.post` make it."""

    url: str
    priority: float


class File(NamedTuple):
    """`File` is a blob to store with the page; `Page.file` makes it."""

    name: str
    data: bytes


class PageHeaders(Mapping[str, str]):
    """`PageHeaders` has the headers of the answer, by name in any case; several of one name are joined by commas."""

    def __init__(self, headers: Headers) -> None:
        self._all: dict[str, str] = {}
        for name, value in headers:
            self._all[name] = f"{self._all[name]}, {value}" if name in self._all else value

    def __getitem__(self, name: str) -> str:
        return self._all[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


# What those who come from Scrapy write first, and what it is here.
_OF_SCRAPY = {
    "get": ".text(), .attr(name) or .html()",
    "getall": ".texts() or .attrs(name)",
    "re": "re.findall(pattern, ....text())",
    "re_first": "re.search(pattern, ....text())",
    "xpath": "page.xpath(...)",
}


def _select(of: LexborHTMLParser | LexborNode, selector: str) -> list[LexborNode]:
    try:
        return of.css(selector)
    except SelectolaxError:
        hint = ""
        if "::" in selector:
            hint = "; there is no ::text or ::attr(name) here: write css(...).text() or css(...).attr(name)"
        raise ValueError(f"css({selector!r}): this is no CSS selector{hint}") from None


class Nodes:
    """`Nodes` are the elements that a selector found. `text` and `attr` read the first one; iterating gives each."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[LexborNode]) -> None:
        self.nodes = nodes  # as selectolax has them

    def text(self, default: str = "") -> str:
        """Returns the text of the first element, without the white space around it."""
        return self.nodes[0].text(strip=False).strip() if self.nodes else default

    def texts(self) -> list[str]:
        return [node.text(strip=False).strip() for node in self.nodes]

    def attr(self, name: str, default: str | None = None) -> str | None:
        """Returns an attribute of the first element."""
        found = self.nodes[0].attributes.get(name) if self.nodes else None
        return default if found is None else found

    def attrs(self, name: str) -> list[str]:
        """Returns that attribute of all elements that have it."""
        return [value for node in self.nodes if (value := node.attributes.get(name)) is not None]

    def html(self) -> str:
        return "".join(node.html or "" for node in self.nodes)

    def css(self, selector: str) -> "Nodes":
        return Nodes([found for node in self.nodes for found in _select(node, selector)])

    def __getattr__(self, name: str) -> Any:
        instead = f"; write {_OF_SCRAPY[name]}" if name in _OF_SCRAPY else ""
        raise AttributeError(f"the elements that css(...) finds have no .{name}{instead}")

    def __iter__(self) -> Iterator["Nodes"]:
        return (Nodes([node]) for node in self.nodes)

    def __getitem__(self, place: int) -> "Nodes":
        return Nodes([self.nodes[place]])

    def __len__(self) -> int:
        return len(self.nodes)


class Page:
    """`Page` is a page that was just fetched, or one from the archive."""

    def __init__(self, task: Task, setup: Setup, answer: Answer | None = None) -> None:
        self.url, self._post = split_name(task.url)
        self.status = task.status
        self.depth = task.depth
        self._time_s, self._setup = task.time_s, setup
        self._answer = answer or Answer(task.head, task.body)

    def __repr__(self) -> str:
        return f"<Page {self.url}>"

    @property
    def time(self) -> datetime:
        """Returns when it was fetched, in UTC."""
        return datetime.fromtimestamp(self._time_s, UTC)

    @cached_property
    def headers(self) -> PageHeaders:
        return PageHeaders(self._answer.headers)

    @property
    def content_type(self) -> str:
        """Returns the type that the server declares, without parameters."""
        return content_type(self._answer.headers)[0]

    @property
    def body(self) -> bytes:
        """Returns the body as the server meant it, without transfer and content coding."""
        return self._answer.body

    @cached_property
    def html(self) -> str:
        """Returns the body as text, in the encoding that a browser would use; empty if it is not text."""
        return self._answer.content() or ""

    @cached_property
    def text(self) -> str:
        """Returns the text that a person reads."""
        return self._answer.text() or ""

    @cached_property
    def main_text(self) -> str:
        """Returns the text of the page itself, without navigation and notices (docs/text.md)."""
        return self._answer.main_text() or ""

    @cached_property
    def markdown(self) -> str:
        """Returns the same as Markdown."""
        return self._answer.markdown() or ""

    def json(self) -> Any:
        """Returns what the body says, read as JSON."""
        return msgspec.json.decode(self.body)

    @property
    def title(self) -> str:
        """Returns the title, or nothing if the page has none."""
        return self._document.title if self._document else ""

    @cached_property
    def links(self) -> list[Link]:
        """Returns the links, as the crawl sees them: those of a page, or of a sitemap."""
        document = self._document
        if document is None:
            return [Link(url, "", self.url, False) for url in self._sitemap()]
        texts = document.anchors
        return [
            Link(url, texts.get(url, ""), self.url, nofollow)
            for urls, nofollow in ((document.links, False), (document.nofollow_links, True))
            for url in urls
        ]

    def css(self, selector: str) -> Nodes:
        """Returns the elements that a CSS selector finds."""
        return Nodes(_select(self._tree, selector))

    def xpath(self, path: str) -> Any:
        """Returns what an XPath finds, as parsel's `SelectorList`."""
        return self._selector.xpath(path)

    def follow(self, url: str, priority: float = 1.0) -> Follow:
        """Asks to visit a page; `url` may be relative. Its share of this page's cash is `priority` times as large as
        that of an ordinary link."""
        base = self._document.base if self._document else self.url
        target = resolve(url, base)
        if target is None:
            raise ValueError(f"page.follow({url!r}): this does not lead to a web page")
        if not 0 < priority <= _MOST_PRIORITY:
            raise ValueError(f"page.follow: priority must be above 0 and at most {_MOST_PRIORITY:g}, not {priority!r}")
        return Follow(target, float(priority))

    def post(self, url: str, *, json: Any = None, data: Any = None, priority: float = 1.0) -> Follow:
        """Asks to visit a page by POST: with a JSON body, or with the fields of a form (or its text). Each body makes a
        page of its own."""
        if (json is None) == (data is None):
            raise ValueError("page.post needs a body: json=... or data=...")
        target = self.follow(url, priority)
        return target._replace(url=target.url + (post_of_data(data) if json is None else post_of_json(json)))

    @property
    def posted(self) -> bytes:
        """Returns the body of the request that led here; empty unless it was a POST."""
        return body_of(self._post)[1] if self._post else b""

    def file(self, name: str, data: bytes | str) -> File:
        """Stores a blob with this page, in the table `files`."""
        return File(str(name), data.encode() if isinstance(data, str) else bytes(data))

    @cached_property
    def _document(self) -> Document | None:
        mime, declared = content_type(self._answer.headers)
        if not is_html(self.body, mime) or self._is_sitemap(mime, declared):
            return None
        setup, headers = self._setup, self._answer.headers
        return parse_html(
            self.body[: setup.parse_bytes],
            self.url,
            declared,
            headers.get_all("x-robots-tag"),
            setup.agent_name.lower(),
            setup.links_per_page,
            headers.get("refresh") or "",
            anchors=True,
        )

    def _is_sitemap(self, mime: str, declared: str) -> bool:
        return (mime not in HTML or "sitemap" in self.url) and is_sitemap(self.body, declared, self.url)

    def _sitemap(self) -> list[str]:
        mime, declared = content_type(self._answer.headers)
        return parse_sitemap(self.body, self.url).urls if self._is_sitemap(mime, declared) else []

    @cached_property
    def _tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self._answer.utf8() or b"")

    @cached_property
    def _selector(self) -> Any:
        try:
            from parsel import Selector
        except ImportError:
            raise GossamerError(_XPATH) from None
        return Selector(self.html)


_MOST_PRIORITY = 1e6
