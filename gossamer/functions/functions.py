"""`Functions` runs the user's functions on the pages of an agent, and makes their results part of the round.

Pages go to the workers as they are fetched. The commit waits for the results of its pages: items, files and errors are
tables of the round, and links that functions follow are links of their pages.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.arrays import F64, U8, U64
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.crawl.reader import BY_FUNCTION, DEPTH, FOLLOWED, Visit
from gossamer.crawl.refusals import Judge
from gossamer.crawl.round import Round
from gossamer.crawl.scope import is_level
from gossamer.crawl.stats import found_by_functions
from gossamer.errors import ConfigError
from gossamer.functions.loading import NotFound, canonical, name_of
from gossamer.functions.pool import Pool
from gossamer.functions.protocol import Result, Setup, Task
from gossamer.functions.tables import Rows, Source
from gossamer.web.http import rendered_head
from gossamer.web.url import host_of, page_key

_SHOWN = 200  # characters of a failure
_ROW_BYTES = 200  # what an item takes besides its text


def setup_of(config: Config) -> Setup:
    extract = config.extract
    return Setup(
        functions=by_name(extract.functions),
        links=extract.links,
        time_s=extract.time_s,
        memory_mb=extract.memory_mb,
        page_mb=extract.page_mb,
        agent_name=config.fetch.agent_name,
        links_per_page=config.limits.links,
        parse_bytes=config.fetch.parse_bytes,
        path=[each for each in sys.path if each],
        argv=list(sys.argv),
    )


def by_name(functions: Iterable[str]) -> dict[str, str]:
    """Returns functions by their canonical names; one that is given in two spellings is run once."""
    return {canonical(each): each for each in functions}


def workers_of(config: Config) -> int:
    """Returns how many processes run functions: the fetching thread keeps a core to itself, if there are several."""
    return config.extract.workers or max(len(os.sched_getaffinity(0)) - 1, 1)


def check_functions(config: Config) -> None:
    """Loads the functions in a process of their own, so that a mistake is seen before anything is crawled."""
    pool = Pool(setup_of(config), 1)
    pool.start()
    pool.close()


def named(functions: Callable[..., object] | str | list[Callable[..., object] | str]) -> list[str]:
    """Returns the names of functions, by which workers find them."""
    try:
        return [name_of(each) for each in (functions if isinstance(functions, list) else [functions])]
    except NotFound as error:
        raise ConfigError(f"extract: {error}") from None


class Functions:
    """`Functions` is an agent's `PageFunctions`. Making it starts the first worker."""

    def __init__(self, config: Config, store: Store, agent: str) -> None:
        self._config, self._store, self._agent = config, store, agent
        setup = setup_of(config)
        self._pool = Pool(setup, workers_of(config))
        ready = self._pool.start()
        self._source = Source([*setup.functions], ready.code, ready.columns)
        self._number = 0
        self._visits: dict[int, Visit] = {}  # those of the round, by their number
        self._results: dict[int, Result] = {}
        self._counts: Counter[str] = Counter()  # since the start
        self._first_failure = ""
        self._failed_in_a_row = 0
        self._why = ""

    def give(self, visit: Visit, round_: Round) -> None:
        response, request = visit.response, visit.response.request
        if visit.outcome is Outcome.OK and not request.is_robots:
            self._number += 1
            self._visits[self._number] = visit
            self._pool.put(
                Task(
                    self._number,
                    request.name,
                    response.http_status,
                    _cut(response.started_s),
                    request.depth,
                    rendered_head(response.head) if visit.rendered else response.head,
                    visit.rendered or response.body,
                )
            )
        self._collect(round_)

    @property
    def is_behind(self) -> bool:
        return self._pool.is_behind

    def wait(self, patience_s: float) -> bool:
        return self._pool.wait(patience_s)

    def why_over(self) -> str:
        return self._why

    def notes(self, is_end: bool) -> list[str]:
        found = found_by_functions(self._counts or {"pages": 0}) if is_end else []
        return [*filter(None, [self._first_failure]), *found]

    def finish(self, round_: Round, judge: Callable[[], Judge]) -> Changes:
        self._collect(round_)
        rows, verdict = Rows(self._source), None
        for number in sorted(self._results):
            visit, result = self._visits.pop(number), self._results[number]
            if result.follows and verdict is None:
                verdict = judge()
            if result.follows or result.refused or result.weights or result.refuses_all:
                _link(round_, visit, result, verdict, self._config.limits.list_pages)
            request = visit.response.request
            rows.add(request.key, request.name, visit.response.started_s, result, round_.number)
            round_.functions.update(_counted(result))
        self._results = {}
        return rows.write(self._store, self._agent, round_.number)

    def close(self) -> None:
        self._pool.close()

    def _collect(self, round_: Round) -> None:
        """Takes what workers have finished."""
        for result in self._pool.take():
            self._results[result.number] = result
            self._source.learn(result.columns)
            round_.held_bytes += sum(len(item) + _ROW_BYTES for _, item in result.items)
            round_.held_bytes += sum(len(data) + _ROW_BYTES for _, _, data in result.files)
            round_.held_bytes += sum(len(url) + _ROW_BYTES for url, _ in result.follows)
            self._count(result)
            most = self._config.extract.max_errors
            if most and self._failed_in_a_row >= most and not self._why:
                last = result.errors[-1]
                self._why = (
                    f"functions have failed on {most:,} pages in a row (extract.max_errors), the last time "
                    f"{last.function}: {last.error}; the table function_errors has the tracebacks"
                )

    def _count(self, result: Result) -> None:
        failed = bool(result.errors)
        self._counts.update(_counted(result))
        self._failed_in_a_row = self._failed_in_a_row + 1 if failed else 0
        if failed and not self._first_failure:
            self._first_failure = failure(result.errors[0].function, result.errors[0].error)


def failure(function: str, error: str) -> str:
    """Returns what a person is told about the first page that a function failed on."""
    why = "".join(each if each.isprintable() else " " for each in error[:_SHOWN])
    return f"a function has failed, {function}: {why} (table function_errors)"


def _counted(result: Result) -> dict[str, int]:
    found = {"pages": 1, "items": len(result.items), "files": len(result.files), "failed": int(bool(result.errors))}
    return found | ({"unjudged": 1} if result.refuses_all else {})


def _cut(time_s: float) -> float:
    """Returns the time as tables have it: so functions see the same when they are run again over the archive."""
    return int(time_s * 1000) / 1000


def _link(round_: Round, visit: Visit, result: Result, verdict: Judge | None, list_pages: int) -> None:
    """Applies what functions decided about the links of a page, and adds those that they follow."""
    targets, verdicts = visit.targets, visit.verdicts.copy()
    priority: F64 = np.ones(len(targets))
    if result.refused or result.refuses_all:
        refused = result.refuses_all | np.isin(targets, np.array(result.refused, np.uint64))
        verdicts[refused & ((verdicts == FOLLOWED) | (verdicts == DEPTH))] = BY_FUNCTION
    place = {key: at for at, key in enumerate(targets.tolist())}
    for key, weight in result.weights:
        if key in place:
            priority[place[key]] = weight
    new: dict[int, tuple[str, int, float]] = {}
    level: dict[int, bool] = {}  # whether a page of the same list is asked for, which is no deeper than this one
    for url, weight in result.follows:
        assert verdict is not None
        request, key = visit.response.request, page_key(url)
        level[key] = is_level(request.url, url, list_pages)
        code = verdict(url, host_of(request.url), request.depth + 1 - level[key])
        if key not in place:
            new[key] = (url, code, weight)
            continue
        priority[place[key]] = weight
        if verdicts[place[key]] == BY_FUNCTION or (level[key] and verdicts[place[key]] == DEPTH):
            verdicts[place[key]] = code
    _level(visit, [*targets.tolist(), *new], level)
    _add(round_, visit, new)
    codes: U8 = np.array([code for _, code, _ in new.values()], np.uint8)
    visit.verdicts = np.concatenate((verdicts, codes))
    visit.priority = np.concatenate((priority, [weight for _, _, weight in new.values()]))


def _level(visit: Visit, keys: list[int], level: dict[int, bool]) -> None:
    """Notes which of the page's links are no deeper than it is."""
    before = [False] * len(visit.targets) if visit.is_level is None else visit.is_level.tolist()
    before += [False] * (len(keys) - len(before))
    if visit.is_level is not None or any(level.values()):
        visit.is_level = np.array(
            [was or level.get(key, False) for was, key in zip(before, keys, strict=True)], np.bool_
        )


def _add(round_: Round, visit: Visit, new: dict[int, tuple[str, int, float]]) -> None:
    keys: U64 = np.array([*new], np.uint64)
    visit.targets = np.concatenate((visit.targets, keys))
    if visit.relevance is not None:
        visit.relevance = np.concatenate((visit.relevance, np.zeros(len(new))))
    round_.urls.update((key, url) for key, (url, _, _) in new.items())
