"""`Crawl` is Gossamer for programs: configure it, run it, iterate over its pages."""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from gossamer import runtime
from gossamer.archive import copies
from gossamer.archive.chain import chains, is_import, snapshots
from gossamer.archive.manifest import site_of
from gossamer.archive.places import exists, opened, prepare, remember, remembered
from gossamer.archive.store import Directory, Store, where
from gossamer.clocks import Clock, RealClock
from gossamer.config import NEVER, PROCESSES, Config, Seed, reload
from gossamer.config.folders import as_place, folder_of
from gossamer.crawl.inbox import FarInbox, Inbox
from gossamer.crawl.opening import check_contact
from gossamer.crawl.seeds import NO_SEEDS, SeedFiles, hand_in, parse_seeds
from gossamer.crawl.stats import CALM, Stats
from gossamer.errors import ArchiveError, SeedError
from gossamer.event_log import log_of
from gossamer.fetch.fields import Fields
from gossamer.fetch.proxies import Proxies
from gossamer.fetch.resolver import checked_map
from gossamer.frontier.scoring import check_scores
from gossamer.frontier.strategies import strategy
from gossamer.terminal import let_go
from gossamer.wiring import lone_agent

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Page:
    """`Page` is a page with content, as it was at its last visit."""

    url: str
    title: str
    language: str
    content_type: str
    time: datetime
    html: str
    text: str

    @property
    def main_text(self) -> str:
        """Returns the text of the page itself, without navigation and notices (docs/text.md)."""
        from gossamer.web.main_text import main_text

        return main_text(self.html) if self._is_html else self.text

    @property
    def markdown(self) -> str:
        """Returns the same as Markdown."""
        from gossamer.web.main_text import markdown

        return markdown(self.html) if self._is_html else self.text

    @property
    def _is_html(self) -> bool:
        return "html" in self.content_type or self.html.lstrip()[:1] == "<"


class _Stoppable(Protocol):
    def stop(self) -> None: ...


class _Crawler(_Stoppable, Protocol):
    """`_Crawler` is one agent, or several."""

    def run(self, show: Callable[[Stats], None]) -> Stats: ...


class Crawl:
    """`Crawl` is a crawl in a directory, or in a bucket (s3://bucket/folder). The constructor touches nothing; `run`
    starts the crawl, or resumes it."""

    def __init__(
        self,
        directory: str | Path,
        seeds: Iterable[str | Seed] = (),
        config: Config | None = None,
        clock: Clock | None = None,
        extract: Function | str | list[Function | str] | None = None,
        links: Function | str | None = None,
    ) -> None:
        """Takes a `clock` if time is not the real one, as in an experiment. `extract` are functions for every page,
        `links` is one for every link (docs/functions.md)."""
        self.directory = as_place(directory)
        self._clock = clock or RealClock()
        self.config = config or Config()
        self.urls, self.files = parse_seeds([*self.config.crawl.seeds, *seeds])
        self.config = self.config.replace(_functions(extract, links))
        self._crawler: _Crawler | None = None
        self._is_stopped = False

    def run(self, progress: Callable[[Stats], None] | None = None, signals: bool = False) -> Stats:
        """Crawls until a limit is reached or nothing is left. With `signals`, they end it cleanly."""
        if runtime.is_worker:  # a script that is loaded for its functions
            raise runtime.InWorker
        config, self._is_stopped = self.config, False
        if not (self.urls or self.files or exists(self.directory)):
            raise SeedError(NO_SEEDS)  # first of all: nobody who resumes what never began misses a contact
        check(config)
        clock = self._clock
        store = prepare(self.directory, config, clock.now())
        if (site := foreign_site(store, config.crawl.agent)) is not None:
            raise ArchiveError(
                f"{self.directory} belongs to the site {site} of a federation: "
                f"`gossamer site run --name {site} FILE`, or `gossamer federation run FILE`, resumes the crawl"
            )
        _check_crawled(store)
        is_far = not isinstance(store, Directory)
        copied: Store = store
        if config.site.copies > 1:
            copied = copies.open_store(self.directory, config, config.crawl.agent, clock.now())
        with store.lock(config.crawl.agent), log_of(folder_of(self.directory), config.log) as log:
            inbox = FarInbox(store, clock) if is_far else Inbox(store)
            is_new = not chains(store)
            if is_new and (self.urls or self.files):
                remember(store, config)  # before the seeds: whoever finds those after a crash knows who is crawling
            hand_in(inbox, self.urls, self.files, clock.now())  # before anything else: from here on they cannot be lost
            if is_new and not inbox.pending(config.crawl.agent, {}):
                raise SeedError(NO_SEEDS)
            reload.take(folder_of(self.directory))  # for a run before this one

            def keep(found: dict[str, Any]) -> None:
                remember(store, self.config.replace(found))

            with stopped_by_signals(self) if signals else nullcontext():
                while True:
                    crawler: _Crawler
                    if _is_shared(store, self.config):
                        from gossamer.cluster.supervisor import Supervisor  # NATS: only who shares waits for it

                        crawler = Supervisor(self.directory, self.config, clock, log, store=store)
                    else:
                        crawler = lone_agent(copied, self.config, clock, inbox, log)
                    remember(store, self.config)
                    copies.remember(self.config)
                    stats, changes = self._run(crawler, progress or (lambda _: None), keep)
                    if self._is_stopped or not changes:
                        return stats
                    self.config = self.config.replace(changes)
                    log.event("reloaded", keys=sorted(changes))

    def _run(
        self, crawler: _Crawler, progress: Callable[[Stats], None], keep: Callable[[dict[str, Any]], None]
    ) -> tuple[Stats, dict[str, Any]]:
        """Runs until the end, or until there are changed options: then it ends cleanly, to go on with them. If it is
        killed before that, the next run has them."""
        changes: dict[str, Any] = {}
        self._crawler = crawler

        def show(stats: Stats) -> None:
            progress(stats)
            if not changes and (found := reload.take(folder_of(self.directory), keep)):
                changes.update(found)
                crawler.stop()

        return crawler.run(show), changes

    def stop(self) -> None:
        """Ends the crawl cleanly; called from the function that shows the progress, or from another thread."""
        self._is_stopped = True
        if self._crawler is not None:
            self._crawler.stop()

    def reload(self, changes: dict[str, Any]) -> None:
        """Hands changed options, by `section.key`, to the crawl that is running in this directory. It commits its round
        and goes on with them."""
        reload.check_reload(changes)
        store = opened(self.directory)
        check((remembered(self.directory) or Config()).replace(changes))
        if not isinstance(store, Directory):
            raise ArchiveError(
                f"{self.directory} is not a directory: stop the crawl, and start it with the new options"
            )
        if (site := foreign_site(store, self.config.crawl.agent)) is not None:
            raise ArchiveError(
                f"{self.directory} belongs to the site {site} of a federation: stop it, and start it again"
            )
        if not store.holder(self.config.crawl.agent):
            raise ArchiveError(f"no crawl is running in {self.directory}: `gossamer crawl` takes the same options")
        reload.offer(store.path, changes)

    def add(self, seeds: Iterable[str | Seed]) -> int:
        """Hands seeds to the crawl, whether it is running or not. Returns how many there were."""
        store = opened(self.directory)
        _check_crawled(store)
        inbox = Inbox(store)
        urls, files = parse_seeds(seeds)
        reader = SeedFiles(files, {})
        while more := reader.read(float("inf")):
            urls += more
        hand_in(inbox, urls, [], self._clock.now())
        return len(urls)

    def unanswered(self) -> str:
        """Returns where requests went and what became of them, if none was ever answered; otherwise nothing."""
        sql = "SELECT max(http_status) AS best, arg_max(url, time) AS url, arg_max(reason, time) AS reason FROM visits"
        (row,) = self.query(sql)
        return f"{row['url']}: {row['reason']}" if row["best"] == 0 else ""

    def failed(self) -> str:
        """Returns what became of the last visit, if no visit ever brought a page or led to one; otherwise nothing."""
        words = ", ".join(f"'{word}'" for word in CALM)
        (row,) = self.query(
            f"""SELECT count(*) FILTER (outcome IN ({words})) AS calm, arg_max(url, time) AS url,
            arg_max(outcome, time) AS outcome, arg_max(http_status, time) AS status, arg_max(reason, time) AS reason
            FROM visits WHERE NOT is_robots"""
        )
        if row["calm"] or not row["url"]:
            return ""
        why = row["reason"] or f"HTTP {row['status']}"
        return f"{row['url']}: {row['outcome'].replace('_', ' ')} ({why})"

    def places(self) -> dict[str, str]:
        """Returns what is where."""
        kinds = {
            "warc": "requests and responses, WARC",
            "cdxj": "their index, CDXJ",
            "tables": "visits, pages, links, robots, Parquet",
            "log": "events, JSON lines",
        }
        beside = folder_of(self.directory)
        return {meaning: f"{beside if name == 'log' else self.directory}/{name}" for name, meaning in kinds.items()}

    def pages(self, where: str = "true") -> Iterator[Page]:
        """Iterates over pages with content, by URL; `where` is an SQL condition on the table `pages`."""
        from gossamer.archive import query  # DuckDB: whoever only crawls need not wait for it
        from gossamer.cluster.location import index_of, locate

        # Sorted first: content, which is large, should not have to pass through the sort.
        sql = f"""SELECT url, title, language, content_type, last_visit,
                content(warc, warc_offset), text(warc, warc_offset)
            FROM (SELECT * FROM pages WHERE status = 'fetched' AND warc <> '' AND ({where}) ORDER BY url)"""
        with closing(query.open_database(locate(self.directory), index_of)) as database:
            cursor = database.execute(sql)
            while rows := cursor.fetchmany(100):
                yield from (Page(*row) for row in rows)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Returns the answer to an SQL question, as rows."""
        from gossamer.archive import query
        from gossamer.cluster.location import index_of, locate

        return query.ask(locate(self.directory), sql, index_of)


def check(config: Config) -> None:
    """Raises an error for a configuration that no crawl can begin with: a mistake should leave nothing behind."""
    check_contact(config)
    checked_map(config.resolve)
    Fields(config), Proxies(config)  # nor a secret that is missing
    if config.fetch.cookies_file:
        from gossamer.fetch.cookies import read_file

        read_file(config.fetch.cookies_file)
    check_scores(strategy(config.crawl.order), config)
    if config.refresh.policy != NEVER:
        from gossamer.refresh.refresher import check_refresh

        check_refresh(config)
    if config.archive.dedupe:
        from gossamer.archive.dedupe import check_dedupe

        check_dedupe(config)
    if config.archive.simhash:
        from gossamer.web.main_text import check_extractor

        check_extractor()
    if config.crawl.render:
        from gossamer.render.renderer import check_render

        check_render(config)
    if config.extract.functions or config.extract.links:
        from gossamer.functions.functions import check_functions

        check_functions(config)


def _functions(extract: Function | str | list[Function | str] | None, links: Function | str | None) -> dict[str, Any]:
    """Returns the configuration that names these functions."""
    if extract is None and links is None:
        return {}
    from gossamer.functions.functions import named

    found: dict[str, Any] = {} if extract is None else {"extract.functions": named(extract)}
    return found if links is None else found | {"extract.links": named(links)[0]}


def _is_shared(store: Store, config: Config) -> bool:
    """Returns whether it takes more than one agent. A crawl that was always alone need not ask the cluster."""
    if config.site.engine != PROCESSES or config.site.max_agents:
        return True
    if config.site.agents == 1 and chains(store) <= {config.crawl.agent}:
        return False
    from gossamer.cluster.plan import is_shared

    return is_shared(snapshots(store), config.crawl.agent, config.site.agents)


def _check_crawled(store: Store) -> None:
    """Raises an error for an import: a crawl there would not know its pages, and record them a second time."""
    if is_import(store):
        raise ArchiveError(
            f"{where(store)} was made by `gossamer import`, and is for reading: choose another --dir to crawl to"
        )


def foreign_site(store: Store, agent: str) -> str | None:
    """Returns the site that crawls here, if it is not this agent's."""
    return next((site_of(name) for name in sorted(chains(store)) if site_of(name) not in ("", site_of(agent))), None)


@contextmanager
def stopped_by_signals(crawler: _Stoppable) -> Iterator[None]:
    """Ends the crawl cleanly at the first Ctrl-C or SIGTERM, and at once at the second. A terminal that is closed
    (SIGHUP) ends it cleanly, however often the signal comes: the kernel, the shell and systemd all send it, and SIGTERM
    besides."""

    def stop(_number: int, _frame: object) -> None:
        crawler.stop()
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, abort)

    def hang_up(_number: int, _frame: object) -> None:
        let_go()
        crawler.stop()

    def abort(_number: int, _frame: object) -> None:
        # Not the handler from before: a process begun in the background of a shell ignores SIGINT.
        raise KeyboardInterrupt

    handlers = {signal.SIGINT: stop, signal.SIGTERM: stop, signal.SIGHUP: hang_up}
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # as nohup wants it
        del handlers[signal.SIGHUP]
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
