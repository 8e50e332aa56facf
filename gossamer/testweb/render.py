"""This module renders the HTML of synthetic pages from pieces that are made once."""

from collections.abc import Callable
from operator import itemgetter

from gossamer.testweb import assets
from gossamer.testweb.hosts import Host
from gossamer.testweb.mix import draw
from gossamer.testweb.plan import SECTION_BYTES, Plan
from gossamer.testweb.prose import OPENING, POOL, Prose, title
from gossamer.testweb.words import TOPIC_WORDS, TOPICS

_NAVIGATION = 12  # the first links are in a menu, the others in the text
_ANCHORS = 400_000  # kept at a time, about 80 MB


class _Anchors(dict[int, bytes]):
    """`_Anchors` has links by target (~target: seen from another host), made at first use.

    It is emptied when full, which bounds memory at little cost.
    """

    def __init__(self, make: Callable[[int], bytes], limit: int) -> None:
        super().__init__()
        self._make = make
        self._limit = limit

    def __missing__(self, page: int) -> bytes:
        if len(self) >= self._limit:
            self.clear()
        anchor = self[page] = self._make(page)
        return anchor


class Renderer:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._prose = Prose(plan.spec.seed, SECTION_BYTES)
        self._anchors = _Anchors(self._make_anchor, _ANCHORS)

    def warm(self) -> None:
        """Makes all pieces now rather than when they are first needed."""
        plan = self._plan
        for number in range(plan.spec.hosts):
            host = plan.hosts[number]
            for topic in range(len(TOPICS)):
                self._prose.sections(host.language, topic, host.charset)
        for page in range(min(plan.spec.pages, _ANCHORS // 2)):
            self._anchors[page], self._anchors[~page]

    def page(self, page: int, version: int, modified: str, targets: list[int], twin: int) -> bytes:
        """Returns the page as it is in a version. `twin`: the page whose near duplicate it is, else -1.

        `targets` are the pages linked to, those on other hosts as ~page.
        """
        plan = self._plan
        host = plan.hosts[plan.host_at[page]]
        anchors = itemgetter(*targets)(self._anchors)
        sections = self._text(host, page if twin < 0 else twin, version)
        if twin >= 0:
            own = f"{self._title(host, page)}. ".encode(host.charset)
            sections[0] = sections[0][:OPENING] + own + sections[0][OPENING:]
        return b"".join(
            [
                self._head(host, page, version, modified, twin),
                b"<li>".join(anchors[:_NAVIGATION]),
                b"</ul></nav>\n<main>\n<p>",
                *_interleaved(sections, anchors[_NAVIGATION:]),
                b'</p>\n</main>\n<footer><a rel="nofollow" href="/login?from=%d">' % page,
                b"Log in</a></footer>\n</body>\n</html>\n",
            ]
        )

    def _text(self, host: Host, page: int, version: int) -> list[bytes]:
        """Returns sections; each version exchanges a few."""
        plan = self._plan
        bits = draw(plan.bits_at[page], 60)
        pool = self._prose.sections(host.language, plan.topic_at[page], host.charset)
        count = plan.sections_at[page]
        first, step = bits % POOL, 1 + (bits >> 32) % (POOL - 1)
        sections = [pool[number % POOL] for number in range(first, first + step * count, step)]
        if version:
            for nth in range(1 + count // 10):
                fresh = draw(bits + version, nth)
                sections[fresh % count] = pool[(fresh >> 32) % POOL]
        return sections

    def _head(self, host: Host, page: int, version: int, modified: str, twin: int) -> bytes:
        name = self._title(host, page)
        topic = TOPIC_WORDS[host.language][self._plan.topic_at[page]].partition(" ")[0]
        canonical = f'<link rel="canonical" href="{_escape(self._url(twin))}">\n' if twin >= 0 else ""
        needs, shown = "", ""
        if self._plan.spec.requisites:
            needs = assets.head()
            shown = assets.images(page, self._plan.spec.requisites, self._plan.hosts[0].name)
        return (
            f'<!DOCTYPE html>\n<html lang="{host.language}">\n<head>\n<meta charset="{host.charset}">\n'
            f"<title>{name}</title>\n"
            f'<meta name="keywords" content="{topic}">\n<link rel="stylesheet" href="/style.css">\n{needs}{canonical}'
            f'</head>\n<body>\n<header><img src="/logo.svg" alt="{host.name}"> {host.name}</header>\n{shown}'
            f'<h1>{name}</h1>\n<p class="date">{modified} · {version}</p>\n<nav><ul>\n<li>'
        ).encode(host.charset)

    def _title(self, host: Host, page: int) -> str:
        plan = self._plan
        nth = page - plan.offset_at[host.number]
        return title(host.language, plan.topic_at[page], plan.bits_at[page], nth)

    def _url(self, page: int) -> str:
        plan = self._plan
        return f"http://{plan.hosts[plan.host_at[page]].name}{plan.path(page)}"

    def _make_anchor(self, target: int) -> bytes:
        page = target if target >= 0 else ~target
        host = self._plan.hosts[self._plan.host_at[page]]
        label = self._title(host, page)
        if target < 0:  # in characters that every charset has
            return f'<a href="{_escape(self._url(page))}">{label}</a>\n'.encode("ascii", "xmlcharrefreplace")
        return f'<a href="{_escape(self._local_href(host, page))}">{label}</a>\n'.encode(host.charset)

    def _local_href(self, host: Host, page: int) -> str:
        """Returns a link as seen from the same host; now and then in full or with a fragment."""
        path = self._plan.path(page)
        chance = self._plan.bits_at[page] >> 56
        if chance < 12:
            return f"http://{host.name}{path}"
        if chance < 24:
            return f"//{host.name}{path}"
        return f"{path}#{TOPICS[self._plan.topic_at[page]]}" if chance < 36 else path


def _interleaved(sections: list[bytes], anchors: tuple[bytes, ...]) -> list[bytes]:
    """Puts behind every section its share of the links, behind the last one what is left."""
    share = len(anchors) // len(sections)
    parts: list[bytes] = []
    for nth, section in enumerate(sections):
        parts.append(section)
        parts += anchors[nth * share : (nth + 1) * share]
    parts += anchors[len(sections) * share :]
    return parts


def _escape(url: str) -> str:
    """Escapes a URL; ours have no other character that matters in HTML."""
    return url.replace("&", "&amp;")
