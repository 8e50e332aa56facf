"""`Renderer` runs the scripts of pages in a browser, in a thread of its own; the fetching thread fetches for them.

The browser has no network. Every request of a page comes here, and most of them end here: what shows a page but does
not make it (images, style sheets, fonts) is refused, and so is what might change something on the server (POST).
Scripts, frames and data are fetched by the crawl: address guard, robots.txt, politeness and WARC are those of every
visit.
"""

import asyncio
import contextlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gossamer.columns import REQUISITE, Outcome
from gossamer.config import Config
from gossamer.crawl.fetching import Rendered
from gossamer.crawl.reader import Visit
from gossamer.crawl.scope import Patterns
from gossamer.errors import ConfigError
from gossamer.fetch.request import Request, Response
from gossamer.render.launch import Folder, Launcher, find_browser
from gossamer.web.html import text_of
from gossamer.web.http import RENDERED_TYPE, Headers, decode_body
from gossamer.web.sniff import is_html
from gossamer.web.url import host_of, normalise, page_key

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, Route, WebSocketRoute

AUTO = "auto"  # a value of crawl.render

_FETCHED = frozenset(("script", "xhr", "fetch", "document"))  # types of resources that make a page
_REDIRECTS = 5
_CACHE_BYTES = 64 << 20  # of scripts that several pages share
_CLOSE_S = 5.0  # a tab that has not closed by then takes its browser along
_ANSWER_S = 15.0  # and one that cannot say by then what it holds is hung
_LOOK_S = 0.1
_MEMORY_S = 1.0  # how often the browser's memory is measured
_START_S = 60.0
_DROPPED = frozenset(("content-encoding", "transfer-encoding", "content-length", "content-security-policy"))
_SCRIPTS_RAN = "() => { try { document.querySelectorAll('noscript').forEach(each => each.remove()) } catch {} }"
_IDLE = "() => new Promise(resolve => requestIdleCallback(resolve, { timeout: 1000 }))"


def check_render(config: Config) -> None:
    """Raises an error if this crawl cannot render pages."""
    if config.site.agents > 1 or config.site.max_agents:
        raise ConfigError(
            "crawl.render works with one agent only: with several, a page's scripts may be on hosts of another agent, "
            "which alone can be polite to them; use --agents 1"
        )
    find_browser(config.render.browser)


@dataclass(frozen=True, slots=True)
class _Answer:
    """`_Answer` is what a page gets for a request."""

    status: int
    headers: dict[str, str]
    body: bytes
    location: str = ""

    @classmethod
    def of(cls, response: Response, most_bytes: int) -> "_Answer | None":
        """Returns what a page may see of an answer; None if there is none."""
        if not response.http_status or response.large is not None:
            return None
        headers = Headers(response.head)
        fields = {name: value for name, value in headers if name not in _DROPPED}
        location = response.location if response.outcome is Outcome.MOVED else ""
        return cls(response.http_status, fields, decode_body(response.body, headers, most_bytes)[0], location)


@dataclass(slots=True)
class _Tab:
    """`_Tab` is one page under way."""

    visit: Visit
    asked: int = 0  # requests so far
    waiting: int = 0  # for the crawl
    busy_s: float = 0.0  # the page's own time
    quiet_s: float = 0.0  # since it asked for something
    leads_to: str = ""
    has_crashed: bool = False
    is_loaded: bool = False
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)


class Renderer:
    """`Renderer` is the `Rendering` of a crawl with `crawl.render`."""

    def __init__(self, config: Config) -> None:
        check_render(config)
        self._config = config
        self._is_auto = AUTO in config.crawl.render
        patterns = [each for each in config.crawl.render if each != AUTO]
        self._patterns = Patterns(patterns) if patterns else None
        self._excluded = Patterns([], config.crawl.exclude)
        self._loop = asyncio.new_event_loop()
        self._pages: asyncio.Queue[Visit] = asyncio.Queue()
        self._asked: dict[str, list[asyncio.Future[_Answer | None]]] = {}
        self._scripts = _Cache()
        self._thread = threading.Thread(target=self._run, name="render", daemon=True)
        self._folder = Folder()
        self._launcher = Launcher(find_browser(config.render.browser), self._folder.path)
        self._browser: Browser | None = None
        self._rendered = 0  # by this browser
        self._tabs = 0  # of this browser
        self._lock = asyncio.Lock()
        self._gate = asyncio.Lock()  # whoever has it begins with a page; for long only who must be alone
        self._main: asyncio.Task[None] | None = None

    # What the fetching thread calls

    def start(self, ask: Callable[[Request], None], done: Callable[[Rendered], None]) -> None:
        self._ask, self._done = ask, done
        self._thread.start()

    def wants(self, visit: Visit) -> bool:
        response, request = visit.response, visit.response.request
        if visit.outcome is not Outcome.OK or request.is_robots or request.is_requisite or response.large is not None:
            return False
        if request.post or not response.body or visit.kind == "sitemap":
            return False
        is_named = self._patterns is not None and self._patterns.admit(request.url)
        if not (is_named or self._is_auto):
            return False
        body = self._body(response)
        return is_html(body, visit.mime) and (is_named or is_shell(body, len(visit.targets)))

    def give(self, visit: Visit) -> None:
        self._loop.call_soon_threadsafe(self._pages.put_nowait, visit)

    def answer(self, request: Request, response: Response | None) -> None:
        found = _Answer.of(response, self._config.fetch.decoded_bytes) if response is not None else None
        self._loop.call_soon_threadsafe(self._answered, request.url, found)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join(_CLOSE_S * 2)
            if self._thread.is_alive():
                self._launcher.kill()
                self._thread.join(_CLOSE_S)
        elif not self._loop.is_closed():
            self._loop.close()  # nobody has started it
        self._launcher.kill()
        self._folder.remove()

    # The thread of its own

    def _body(self, response: Response) -> bytes:
        return decode_body(response.body, Headers(response.head), self._config.fetch.decoded_bytes)[0]

    def _stop(self) -> None:
        if self._main is not None:
            self._main.cancel()

    def _answered(self, url: str, answer: _Answer | None) -> None:
        for future in self._asked.pop(url, []):
            if not future.done():
                future.set_result(answer)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._serve())
        try:
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._main)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        from playwright.async_api import async_playwright

        async with async_playwright() as playwright:
            self._playwright = playwright
            workers = [self._work() for _ in range(self._config.render.tabs)]
            try:
                await asyncio.gather(*workers, self._watch_memory())
            finally:
                await self._close_browser()

    async def _work(self) -> None:
        while True:
            visit = await self._pages.get()
            async with self._gate:
                self._tabs += 1
            try:
                rendered, is_at_fault = await self._try(_Tab(visit))
            finally:
                self._tabs -= 1
            if rendered.why and not is_at_fault:
                # Perhaps another page took the browser along: this one is tried again with nobody beside it.
                async with self._gate:
                    while self._tabs:
                        await asyncio.sleep(_LOOK_S)
                    rendered, _ = await self._try(_Tab(visit))
            self._done(rendered)

    async def _try(self, tab: _Tab) -> tuple[Rendered, bool]:
        """Renders a page, whatever it does. Returns also whether it is itself to blame for a failure."""
        limit_s = self._config.render.time_s
        try:
            return Rendered(tab.visit, await self._render(tab), tab.leads_to), False
        except Exception as error:  # a page must not end the crawl; Playwright raises many kinds
            is_late = tab.busy_s > limit_s
            late = f"its scripts take longer than render.time_s ({limit_s:g} s)"
            why = f"not rendered: {late if is_late else f'the browser failed, {_first_line(error)}'}"
            await self._replace_browser()
            return Rendered(tab.visit, b"", tab.leads_to, why), is_late

    async def _render(self, tab: _Tab) -> bytes:
        """Returns the page as its scripts make it."""
        browser = await self._current_browser()
        context = await browser.new_context(
            service_workers="block",
            accept_downloads=False,
            user_agent=self._config.user_agent,
            viewport={"width": 1280, "height": 2000},
        )
        try:
            return await self._render_in(context, tab)
        finally:
            for task in tab.tasks:
                task.cancel()
            with contextlib.suppress(Exception):
                await asyncio.wait_for(context.close(), _CLOSE_S)

    async def _render_in(self, context: "BrowserContext", tab: _Tab) -> bytes:
        page = await context.new_page()
        context.on("page", lambda other: self._keep(tab, other.close()) if other != page else None)
        page.on("crash", lambda _: setattr(tab, "has_crashed", True))
        page.on("load", lambda _: setattr(tab, "is_loaded", True))

        async def routed(route: "Route") -> None:
            await self._routed(page, route, tab)

        async def refused(socket: "WebSocketRoute") -> None:
            await socket.close()

        await context.route("**/*", routed)
        await context.route_web_socket("**/*", refused)
        url = tab.visit.response.request.url
        going = asyncio.create_task(_go(page, url))
        tab.tasks.add(going)
        while not (tab.is_loaded and tab.quiet_s >= self._config.render.settle_s and await _is_idle(page, tab)):
            await asyncio.sleep(_LOOK_S)
            if tab.has_crashed:
                raise RuntimeError("its tab has crashed")
            if tab.waiting:
                continue
            tab.busy_s += _LOOK_S
            tab.quiet_s += _LOOK_S
            if tab.busy_s > self._config.render.time_s:
                break  # what is there by now is better than nothing
        await asyncio.wait_for(page.evaluate(_SCRIPTS_RAN), _ANSWER_S)
        html = await asyncio.wait_for(page.content(), _ANSWER_S)
        return html.encode("utf-8", "replace")[: self._config.fetch.decoded_bytes]

    @staticmethod
    def _keep(tab: _Tab, coroutine: Any) -> None:
        """Runs something beside a page, which ends with it."""
        tab.tasks.add(asyncio.ensure_future(coroutine))

    async def _routed(self, page: "Page", route: "Route", tab: _Tab) -> None:
        """Answers one request of a page."""
        request = route.request
        tab.quiet_s = 0.0
        with contextlib.suppress(Exception):  # its tab has gone
            try:
                is_navigation = request.is_navigation_request() and request.frame == page.main_frame
            except Exception:  # Playwright's: a window that the page opens has no frame yet
                await route.abort()
                return
            if is_navigation and not tab.is_loaded and not tab.leads_to and not tab.asked:
                tab.asked += 1
                answer = _Answer.of(tab.visit.response, self._config.fetch.decoded_bytes)
            elif is_navigation:
                tab.leads_to = tab.leads_to or normalise(request.url) or ""
                answer = None
            else:
                answer = await self._fetched(route, tab)
            if answer is None:
                await route.abort()
            else:
                await route.fulfill(status=answer.status, headers=answer.headers, body=answer.body)

    async def _fetched(self, route: "Route", tab: _Tab) -> _Answer | None:
        request = route.request
        url = normalise(request.url)
        if url is None or request.resource_type not in _FETCHED or request.method != "GET":
            return None
        is_script = request.resource_type == "script"
        for _ in range(_REDIRECTS):
            if is_script and (known := self._scripts.get(url)) is not None:
                return known
            if tab.asked > self._config.render.requests or not self._excluded.admit(url):
                return None
            tab.asked += 1
            tab.waiting += 1
            try:
                answer = await self._from_crawl(url, tab.visit.response.request)
            finally:
                tab.waiting -= 1
                tab.quiet_s = 0.0
            if answer is None or not answer.location:
                if is_script and answer is not None:
                    self._scripts.put(url, answer)
                return answer
            url = answer.location
        return None

    async def _from_crawl(self, url: str, page: Request) -> _Answer | None:
        """Has something fetched; who asks for the same meanwhile gets the same answer."""
        future: asyncio.Future[_Answer | None] = self._loop.create_future()
        others = self._asked.setdefault(url, [])
        others.append(future)
        if len(others) == 1:
            host = host_of(url)
            depth, known = min(page.depth + 1, 255), page.known if host == page.host else 0
            self._ask(Request(page_key(url), url, host, depth, REQUISITE, known=known, is_part=True))
        return await future

    # The browser

    async def _current_browser(self) -> "Browser":
        async with self._lock:
            is_old = self._rendered >= self._config.render.recycle and self._tabs <= 1
            if is_old or (self._browser is not None and not self._browser.is_connected()):
                await self._close_browser()
            if self._browser is None:
                launched = self._playwright.chromium.launch(**self._launcher.options())
                self._browser, self._rendered = await asyncio.wait_for(launched, _START_S), 0
            self._rendered += 1
            return self._browser

    async def _replace_browser(self) -> None:
        """Ends the browser with all its tabs: the next page gets a new one, and so do pages that were in it."""
        self._launcher.kill()
        async with self._lock:
            await self._close_browser()

    async def _close_browser(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(browser.close(), _CLOSE_S)
            self._launcher.kill()

    async def _watch_memory(self) -> None:
        while True:
            await asyncio.sleep(_MEMORY_S)
            if self._tabs and self._launcher.memory_mb() > self._config.render.memory_mb:
                self._launcher.kill()


class _Cache:
    """`_Cache` keeps the scripts that were asked for last."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._bytes = 0

    def get(self, url: str) -> _Answer | None:
        if url in self._answers:
            self._answers.move_to_end(url)
        return self._answers.get(url)

    def put(self, url: str, answer: _Answer) -> None:
        if answer.status != 200 or url in self._answers:
            return
        self._answers[url] = answer
        self._bytes += len(answer.body)
        while self._bytes > _CACHE_BYTES:
            self._bytes -= len(self._answers.popitem(last=False)[1].body)


async def _is_idle(page: "Page", tab: _Tab) -> bool:
    """Returns whether a page has nothing to do, and has asked for nothing while it was asked."""
    if tab.waiting:
        return False
    asked = tab.asked
    await asyncio.wait_for(page.evaluate(_IDLE), _ANSWER_S)
    return tab.asked == asked and not tab.waiting


async def _go(page: "Page", url: str) -> None:
    with contextlib.suppress(Exception):  # what it comes to is seen in the page
        await page.goto(url, wait_until="commit", timeout=0)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:150]


_SCRIPT = re.compile(rb"<script[\s>]", re.IGNORECASE)
_HIDDEN = re.compile(rb"<noscript.*?(?:</noscript\s*>|$)", re.IGNORECASE | re.DOTALL)  # "enable JavaScript"
_TEXT = 200  # characters: a shell has a title, perhaps "Loading..."
_LINKS = 2
_LOOKED_AT = 1 << 20


def is_shell(markup: bytes, links: int) -> bool:
    """Returns whether a page is an empty shell: it has scripts, but hardly any text and links."""
    markup = markup[:_LOOKED_AT]
    if links > _LINKS or not _SCRIPT.search(markup):
        return False
    return len("".join(text_of(_HIDDEN.sub(b"", markup), RENDERED_TYPE).split())) < _TEXT
