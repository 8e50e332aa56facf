"""`Reader` turns a response into a visit, in the fetching thread: it decodes, parses and judges the links."""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, field
from xxhash import xxh3_64_intdigest

from gossamer.archive.warc import Stored
from gossamer.arrays import F64, U8, U64, Bools
from gossamer.columns import REQUISITE, Outcome
from gossamer.config import Config, Limits
from gossamer.crawl.scope import NamedSitemaps, Naming, Patterns, Scope, WebsiteRules, level
from gossamer.crawl.states import Next, after
from gossamer.fetch.client import Response
from gossamer.fetch.outcome import UNWANTED, is_media
from gossamer.fetch.robots_cache import is_file
from gossamer.frontier.relevance import Topic
from gossamer.frontier.strategies import strategy
from gossamer.web.answer import Answer
from gossamer.web.charset import declared_charset
from gossamer.web.html import parse_html, text_of
from gossamer.web.http import RENDERED_TYPE, Headers, content_type, decode_body, headers_of, rendered_head
from gossamer.web.links import KINDS, NO_LINKS, Links, Listed
from gossamer.web.posts import url_of
from gossamer.web.preferences import Said, asked, said_in
from gossamer.web.robots import Rules, verdict_of_status
from gossamer.web.sitemap import is_sitemap, parse_sitemap
from gossamer.web.sniff import HTML, is_html
from gossamer.web.url import TRAPS, deepest, host_of, origin_of, trap

# Why a link is or is not followed; the position is the code in `Visit.verdicts`.
VERDICTS = (
    "followed", "nofollow", "scope", "depth", "trap", "port", "length", "cap", "best", "hops", "pattern", "foreign",
    "function", "later", "requisites", "purpose",
)  # fmt: skip
_CODE = {name: code for code, name in enumerate(VERDICTS)}
FOLLOWED = _CODE["followed"]
BEST = _CODE["best"]
FOREIGN = _CODE["foreign"]
LATER = _CODE["later"]  # was refused as too deep, and is followed since a shorter way was found
DEPTH = _CODE["depth"]
PATTERN = _CODE["pattern"]
SCOPE = _CODE["scope"]
PURPOSE = _CODE["purpose"]  # its page says that its images are not for crawl.purpose
REQUISITES = _CODE["requisites"]  # more than limits.requisites, or further away than limits.requisite_depth
BY_FUNCTION = _CODE["function"]  # the user's own refuses it (extract.links)
_OF_TRAP = bytes([_CODE[name or "followed"] for name in TRAPS])

_SITEMAPS_ELSEWHERE = 100  # of one robots.txt: more are not fetched, so that it cannot send us to a crowd of hosts
_ABOUT_BYTES = 200_000  # of a page: enough to know whether it is on the topic
_MEMO = 100_000  # URLs and origins remembered that were judged; pages of a site share most of their links
_MEMO_URL = 300  # longest text remembered there: hostile ones must not fill the memory
_JUDGES = 100  # websites with rules of their own whose judged URLs are remembered
_NOTHING = Said()
_START_BYTES = 256 << 10  # of an image: enough to know how large it is
_STYLE_SHEET = "text/css"
_REDIRECT = KINDS.index("redirect")
_IMAGES = (KINDS.index("image"), KINDS.index("icon"))
_NO_KEYS: U64 = np.empty(0, np.uint64)
_NO_CODES: U8 = np.empty(0, np.uint8)


class Requisites(Struct, gc=False):
    """`Requisites` are what a page or a style sheet needs to be shown."""

    urls: Links
    targets: U64
    verdicts: U8
    kinds: U8  # positions in `web.links.KINDS`
    hops: int  # of each of them, if it is no page


class Visit(Struct, gc=False):
    """`Visit` is one finished request and response, and what follows from it."""

    response: Response
    outcome: Outcome
    reason: str
    next: Next
    mime: str = ""
    charset: str = ""
    title: str = ""
    language: str = ""
    canonical: str = ""
    location: str = ""
    noindex: bool = False
    preferences: str = ""
    not_for: str = ""
    truncated: str = ""
    body_bytes: int = 0
    digest: int = 0  # xxh3 of the decoded body; 0 without one
    stored: Stored | None = None  # the record that has the body, once it is known
    etag: str = ""
    last_modified: str = ""
    targets: U64 = _NO_KEYS
    verdicts: U8 = _NO_CODES
    urls: Links = NO_LINKS  # of the targets
    relevance: F64 | None = None  # of the links, where there is a topic
    is_level: Bools | None = None  # which links lead no deeper than this page is; None: none of them
    priority: F64 | None = None  # of the links, where a function gave them one; None: all count 1
    kind: str = "link"  # of the links
    kinds: U8 | None = None  # of single ones, where they are of several
    requisites: Requisites | None = None  # None: nothing, or nobody asked
    rendered: bytes = b""  # the page as its scripts made it, in UTF-8; empty: nobody ran them
    size: tuple[int | None, int | None] = (None, None)  # width and height of an image
    simhash: int | None = None  # of its main text, if that is asked for
    sitemaps: list[str] = field(default_factory=list)  # named by a robots.txt
    named: list[Naming] = field(default_factory=list)  # those of other hosts, and who names them
    kept: dict[str, str] | None = None  # headers that `Accounting` wants, by name
    held_bytes: int = 0  # about so much memory while it waits for the agent's thread

    @property
    def is_for_nobody(self) -> bool:
        """Returns whether no function of the user gets it: it is no page, or too large for memory."""
        return self.response.request.is_requisite or self.response.large is not None

    def drop_links(self) -> None:
        self.targets, self.verdicts, self.urls = _NO_KEYS, _NO_CODES, NO_LINKS
        self.relevance = self.is_level = self.requisites = None


class _Judge(Struct):
    """`_Judge` has what links of one website are judged by, or those of all other websites. It remembers which origins
    are in scope, and which URLs the patterns admit."""

    rules: WebsiteRules | None
    limits: Limits
    patterns: Patterns
    excluded: Patterns  # of the patterns, what holds for requisites, too
    scope: Scope
    origins: dict[str, bool] = field(default_factory=dict)
    admitted: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, rules: WebsiteRules | None, config: Config, scope: Scope) -> "_Judge":
        crawl, limits = config.crawl, config.limits
        if rules is None:
            return cls(None, limits, Patterns(crawl.include, crawl.exclude), Patterns([], crawl.exclude), scope)
        include = crawl.include if rules.include is None else rules.include
        exclude = crawl.exclude if rules.exclude is None else rules.exclude
        return cls(rules, rules.limits(limits), Patterns(include, exclude), Patterns([], exclude), scope)

    def verdicts(self, links: Links) -> U8:
        """Returns the verdict of each link, as `verdict` does: only what patterns are asked about needs its text."""
        outside = bytes([0 if self._has(origin) else SCOPE for origin in links.origins])
        verdicts = links.judged(self.limits, _OF_TRAP, outside)
        if self.patterns:
            for i in np.flatnonzero(verdicts == FOLLOWED).tolist():
                verdicts[i] = FOLLOWED if self._admits(links[i]) else PATTERN
        return verdicts

    def verdict(self, url: str) -> int:
        if not self._has(origin_of(url)):
            return SCOPE
        if found := trap(url, self.limits):
            return _CODE[found]
        # The last check: links that patterns do not concern have passed all others.
        return FOLLOWED if self._admits(url) else PATTERN

    def _has(self, origin: str) -> bool:
        if (found := self.origins.get(origin)) is None:
            return self._noted(self.origins, origin, self.scope.admits(origin + "/", self.rules))
        return found

    def _admits(self, url: str) -> bool:
        found = self.admitted.get(url)
        return self._noted(self.admitted, url, self.patterns.admit(url)) if found is None else found

    @staticmethod
    def _noted(memo: dict[str, bool], text: str, answer: bool) -> bool:
        if len(text) <= _MEMO_URL:
            if len(memo) >= _MEMO:
                memo.clear()
            memo[text] = answer
        return answer


class Reader:
    def __init__(
        self, config: Config, scope: Scope, named: NamedSitemaps | None = None, headers: Sequence[str] = ()
    ) -> None:
        """Keeps these response `headers` with each visit."""
        self._config = config
        self._limits = config.limits
        self._scope = scope
        self._named = named or NamedSitemaps()
        self._headers = headers
        self._agent = config.fetch.agent_name.lower()
        self._topic = Topic(config.crawl.topic) if strategy(config.crawl.order).needs_topic else None
        self._simhashes = None
        if config.archive.simhash:
            from gossamer.web.similar import Simhashes

            self._simhashes = Simhashes(config.archive.simhash)
        self.forget()

    def forget(self) -> None:
        """Forgets all judgements: the scope has widened, or a website has other rules."""
        self._judges: dict[WebsiteRules, _Judge] = {}
        self._judge_of_all = _Judge.of(None, self._config, self._scope)

    def _judge_at(self, host: str) -> _Judge:
        """Returns what links on a host's pages are judged by."""
        rules = self._scope.websites.of(host) if self._scope.websites else None
        if rules is None:
            return self._judge_of_all
        if rules not in self._judges:
            if len(self._judges) > _JUDGES:
                self._judges = {}
            self._judges[rules] = _Judge.of(rules, self._config, self._scope)
        return self._judges[rules]

    def read(self, response: Response) -> Visit:
        request = response.request
        now_s = response.started_s + response.elapsed_s
        outcome = response.outcome
        most, is_page = self._config.fetch.hops, not (request.is_robots or request.is_requisite)
        if outcome is Outcome.MOVED and request.hops >= most and is_page:
            outcome, response.reason = Outcome.BAD_REDIRECT, f"more than {most} redirects in a row"
        visit = Visit(response, outcome, response.reason, after(outcome, request.tries, now_s, self._config))
        visit.truncated = response.truncated
        try:
            self._understand(visit)
        except Exception as error:  # a page we fail to read is stored all the same; it must not end the crawl
            visit.reason = f"not understood: {error!r}"[:200]
            visit.drop_links()
        self._compare(visit)
        return visit

    def read_again(self, visit: Visit, html: bytes, leads_to: str, why: str) -> Visit:
        """Returns the visit with what a browser made of its page; the same one if it made nothing of it."""
        if not html:
            visit.reason = why
            return visit
        again = Visit(visit.response, visit.outcome, why, visit.next)
        again.truncated, again.rendered = visit.response.truncated, html
        if leads_to:
            again.location = leads_to
        try:
            self._understand(again)
        except Exception as error:  # as in `read`
            visit.reason = f"as rendered, it is not understood: {error!r}"[:200]
            return visit
        again.noindex |= visit.noindex
        self._compare(again)
        return again

    def _compare(self, visit: Visit) -> None:
        """Notes what a page can be compared by, if that is asked for."""
        response, request = visit.response, visit.response.request
        if self._simhashes is None or visit.outcome is not Outcome.OK or visit.is_for_nobody:
            return
        if response.body and not (request.is_robots or request.is_part):
            rendered = (rendered_head(response.head), visit.rendered)
            answer = Answer(*(rendered if visit.rendered else (response.head, response.body)))
            visit.simhash = self._simhashes.of(request.key, answer)

    def _understand(self, visit: Visit) -> None:
        response, request, outcome = visit.response, visit.response.request, visit.outcome
        headers = headers_of(response.head)
        visit.mime, declared = content_type(headers)
        if response.head:
            visit.etag, visit.last_modified = headers.get("etag"), headers.get("last-modified")
            if self._headers:
                visit.kept = {name: value for name in self._headers if (value := headers.get(name))} or None
        fields = said_in(response.head, headers)
        said = Said(fields) if fields else _NOTHING
        body = b""
        if response.large is not None:
            # Of what nobody can hold, the first bytes are read; it is the same if its bytes on the wire are.
            start = _START_BYTES if is_media(response.head) else self._config.fetch.parse_bytes
            body = decode_body(response.large.start(start), headers, start)[0]
            visit.body_bytes, visit.digest = response.large.size, response.large.xxh3 or 1
        elif response.body:
            body, cut = decode_body(response.body, headers, self._config.fetch.decoded_bytes)
            visit.truncated = visit.truncated or cut
            visit.body_bytes = len(body)
            visit.digest = xxh3_64_intdigest(body) or 1
        if body and visit.mime.startswith("image/"):
            from gossamer.web import images

            visit.size = images.size(body) or visit.size
        if request.is_robots:
            self._read_robots(visit, body)
        elif outcome is Outcome.MOVED and request.is_requisite:
            visit.location = response.location
            self._require(visit, {response.location: _REDIRECT})
        elif outcome is Outcome.MOVED:
            visit.location, visit.kind = response.location, "redirect"
            # A seed's redirect target was asked for as much as the seed itself.
            self._link(visit, Listed([response.location]), request.depth, admitted=not request.depth)
            self._pass_permission(visit, [0])
        elif outcome is Outcome.OK and body:
            declared = RENDERED_TYPE if visit.rendered else declared
            said = self._read_page(visit, visit.rendered or body, headers, declared, said)
            if request.digest == visit.digest:
                visit.outcome = Outcome.UNCHANGED
                now_s = response.started_s + response.elapsed_s
                visit.next = after(Outcome.UNCHANGED, request.tries, now_s, self._config)
                # Its links count once, and are remembered since it was new.
                visit.drop_links()
        if self._config.crawl.purpose and body and (request.is_requisite or outcome is not Outcome.OK):
            said = self._said_in(visit, body, headers, said)
        if (said is not _NOTHING or request.asks) and not request.is_robots:
            self._heed(visit, said)

    def _said_in(self, visit: Visit, body: bytes, headers: Headers, said: Said) -> Said:
        """Returns what HTML says about its use that is not read as a page: a requisite, an answer that is no page."""
        if not is_html(body, visit.mime):
            return said
        markup, declared = body[: self._config.fetch.parse_bytes], content_type(headers)[1]
        document = parse_html(markup, visit.response.request.url, declared, agent=self._agent, max_links=1)
        return Said(said.fields, document.robots, document.reservation)

    def _heed(self, visit: Visit, said: Said) -> None:
        """Notes what the page's publisher asks. Where that refuses the purpose of the crawl, nothing of the page stays
        but its headers."""
        request = visit.response.request
        asks = asked(request.asks, said, self._agent, visit.mime.startswith("image/"))
        visit.preferences, visit.not_for = asks.lines, asks.not_for
        if visit.requisites is not None and self._config.crawl.purpose:
            self._spare_images(visit.requisites, request.asks, said)
        if not self._config.crawl.purpose or not (why := asks.refusal(self._config.crawl.purpose)):
            return
        response = visit.response
        if response.size:
            response.body, response.large, visit.rendered = b"", None, b""
            response.truncated = visit.truncated = UNWANTED
        if visit.outcome in (Outcome.OK, Outcome.UNCHANGED):
            now_s = response.started_s + response.elapsed_s
            visit.outcome, visit.reason = Outcome.REFUSED_USE, why
            visit.next = after(Outcome.REFUSED_USE, request.tries, now_s, self._config)
            visit.title = visit.canonical = visit.etag = visit.last_modified = ""
            visit.body_bytes = visit.digest = 0
            visit.drop_links()

    def _spare_images(self, needed: Requisites, asks: str, said: Said) -> None:
        """Leaves a page's images where they are, if it says that they are not for the purpose of the crawl."""
        if asked(asks, said, self._agent, is_image=True).refusal(self._config.crawl.purpose):
            needed.verdicts[np.isin(needed.kinds, _IMAGES) & (needed.verdicts == FOLLOWED)] = PURPOSE

    def _read_robots(self, visit: Visit, body: bytes) -> None:
        """Finds sitemaps, whatever patterns say; on other hosts they are admitted if the naming host is in scope."""
        response = visit.response
        has_rules = verdict_of_status(response.http_status) == "rules" and not is_file(response.request.origin)
        if not (has_rules and self._config.crawl.sitemaps):
            return
        urls = Rules.parse(body, self._config.fetch.agent_name).sitemap_urls(response.request.url)
        host = host_of(visit.response.request.origin + "/")
        may_name, judge = self._scope.has(visit.response.request.origin + "/"), self._judge_at(host)
        for url in urls:
            verdict = judge.verdict(url)
            is_elsewhere = host_of(url) != host
            if is_elsewhere and may_name and len(visit.named) < _SITEMAPS_ELSEWHERE and not trap(url, self._limits):
                visit.named.append(Naming(host, url))
                visit.sitemaps.append(url)
            elif verdict in (FOLLOWED, PATTERN):
                visit.sitemaps.append(url)

    def _pass_permission(self, visit: Visit, places: Iterable[int]) -> None:
        """Passes permission on: where a sitemap that another host names leads to, by a redirect or as an index, is
        named by that host too."""
        sitemap = visit.response.request.url
        for i in places if self._named.hosts(sitemap) else ():
            url = visit.urls[i]
            if visit.verdicts[i] == SCOPE and not trap(url, self._limits):
                visit.verdicts[i] = FOLLOWED
            if visit.verdicts[i] == FOLLOWED:
                visit.named.append(Naming(sitemap, url))

    def _read_page(self, visit: Visit, body: bytes, headers: Headers, declared: str, said: Said) -> Said:
        """Reads a page of this `declared` type; returns what it says about its use, `said` by its header included."""
        request = visit.response.request
        if self._config.crawl.requisites and visit.mime == _STYLE_SHEET:
            from gossamer.web import requisites

            charset = declared_charset(body, declared)
            rules = body[: self._config.fetch.parse_bytes]
            self._require(visit, requisites.of_style_sheet(rules, charset, request.url, self._limits.links))
        if request.is_requisite:
            return said
        # Sitemaps come with all kinds of content types, but as HTML only where the name says what they are.
        if (visit.mime not in HTML or "sitemap" in request.url) and is_sitemap(body, declared, request.url):
            visit.kind = "sitemap"
            sitemap = parse_sitemap(body, request.url)
            visit.truncated = visit.truncated or ("length" if sitemap.truncated else "")
            urls = [*sitemap.sitemaps, *sitemap.urls]
            self._link(visit, Listed(urls), request.depth + 1, admitted=len(sitemap.sitemaps))
            self._weigh(visit, {}, 0.0)
            speaks_for = {request.host, *self._named.hosts(request.url)}
            for i, url in enumerate(urls):
                if host_of(url) not in speaks_for:
                    visit.verdicts[i] = SCOPE
                elif self._scope.websites and visit.verdicts[i] == SCOPE:
                    # As on its own website, for which a sitemap elsewhere speaks.
                    visit.verdicts[i] = self.verdict(url, host_of(url), request.depth + 1)
            within = (i for i, url in enumerate(sitemap.sitemaps) if host_of(url) in speaks_for)
            self._pass_permission(visit, within)
            return said
        if not is_html(body, visit.mime):
            return said
        document = parse_html(
            body[: self._config.fetch.parse_bytes],
            request.url,
            declared,
            [value for name, value in said.fields if name == "x-robots-tag"],
            self._agent,
            self._limits.links,
            f"0; url={visit.location}" if visit.location else headers.get("refresh"),
            self._topic is not None,
        )
        visit.charset, visit.title, visit.language = document.charset, document.title, document.language
        visit.canonical, visit.noindex = document.canonical, document.noindex
        targets, followed, embedded = document.targets, document.followed, dict[str, int]()
        if self._config.crawl.requisites or self._config.crawl.media:
            from gossamer.web import requisites

            markup = body[: self._config.fetch.parse_bytes]
            embedded = requisites.of_page(markup, document.charset, document.base, self._limits.links)
        if self._config.crawl.media and embedded:
            types, links = self._config.crawl.media, list(targets)
            wanted = {url: kind for url, kind in embedded.items() if requisites.is_of_type(url, kind, types)}
            for url in links[:followed]:
                wanted.pop(url, None)
            links = list(dict.fromkeys([*links[:followed], *wanted, *links[followed:]]))
            targets, followed = Listed(links), followed + len(wanted)
            visit.kinds = np.array([wanted.get(url, 0) for url in links], np.uint8)
        self._link(visit, targets, request.depth + 1, followed)
        if self._config.crawl.requisites:
            self._require(visit, embedded)
        if self._topic is not None:
            text = text_of(body[:_ABOUT_BYTES], f"text/html; charset={document.charset}")
            self._weigh(visit, document.anchors, self._topic.page(document.title, text))
        if document.robots or document.reservation:
            return Said(said.fields, document.robots, document.reservation)
        return said

    def verdict(self, url: str, host: str, depth: int) -> int:
        """Returns the verdict of a link on a page of this host; `depth` is how deep it leads."""
        judge, url = self._judge_at(host), url_of(url)
        verdict = judge.verdict(url)
        return DEPTH if verdict == FOLLOWED and depth > deepest(url, judge.limits) else verdict

    def _require(self, visit: Visit, found: dict[str, int]) -> None:
        """Finds verdicts of what a page needs: from wherever it is, if `crawl.exclude` does not match, and no more than
        the limits allow."""
        if not found:
            return
        request, limits = visit.response.request, self._limits
        hops = request.hops + 1 if request.is_requisite else REQUISITE
        urls = Listed(list(found))
        judge = self._judge_at(request.host)
        verdicts = urls.judged(judge.limits, _OF_TRAP, bytes(len(urls.origins)))
        if judge.excluded:
            for i in np.flatnonzero(verdicts == FOLLOWED).tolist():
                verdicts[i] = FOLLOWED if judge.excluded.admit(urls[i]) else PATTERN
        if hops - REQUISITE > limits.requisite_depth:
            verdicts[verdicts == FOLLOWED] = REQUISITES
        verdicts[np.flatnonzero(verdicts == FOLLOWED)[limits.requisites :]] = REQUISITES
        kinds = np.array(list(found.values()), np.uint8)
        visit.requisites = Requisites(urls, urls.keys(), verdicts, kinds, hops)

    def _weigh(self, visit: Visit, anchors: dict[str, str], page: float) -> None:
        """Computes how near each link is to the topic, if there is one."""
        if self._topic is not None:
            relevance = (self._topic.link(url, anchors.get(url, ""), page) for url in visit.urls)
            visit.relevance = np.fromiter(relevance, np.float64, len(visit.urls))

    def _link(self, visit: Visit, links: Links, depth: int, followed: int | None = None, admitted: int = 0) -> None:
        """Finds keys and verdicts of a page's links, of which all but the first `followed` are marked. The first
        `admitted` links are followed even where patterns exclude them: patterns are for pages that other pages lead
        to."""
        if not len(links):
            return
        judge = self._judge_at(visit.response.request.host)
        limits = judge.limits
        visit.urls, visit.targets, visit.verdicts = links, links.keys(), judge.verdicts(links)
        if followed is not None and self._config.crawl.nofollow:
            visit.verdicts[followed:] = _CODE["nofollow"]
        if admitted:
            np.putmask(first := visit.verdicts[:admitted], first == PATTERN, FOLLOWED)
        visit.is_level = level(visit.response.request.url, links, self._limits.list_pages)
        if depth > min(limits.depth, limits.depth_dynamic):
            for i in np.flatnonzero(visit.verdicts == FOLLOWED).tolist():
                if depth - (visit.is_level is not None and visit.is_level[i]) > deepest(links[i], limits):
                    visit.verdicts[i] = DEPTH
