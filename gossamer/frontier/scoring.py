"""Where a crawl's scores come from: its own links so far, or an earlier crawl's directory."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from gossamer.archive.chain import Chain, chains
from gossamer.archive.store import Store
from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.frontier.pagerank import pagerank
from gossamer.frontier.relevance import Topic
from gossamer.frontier.scores import HistoricalScores, Lesson, LinkScores, Scores
from gossamer.frontier.strategies import Strategy


def check_scores(order: Strategy, config: Config, agents: int = 0) -> None:
    """Before anything is made: can this crawl know what its order asks for? `agents` are those of all sites, if they
    are more than the configuration tells."""
    score = order.score
    if order.needs_topic and not Topic(config.crawl.topic).words:
        what = "has no word that tells" if config.crawl.topic else "is not given"
        raise ConfigError(f'order "{order.name}" needs to know what to look for: crawl.topic {what}')
    if score is None:
        return
    if score.needs_oracle:
        raise ConfigError(f'order "{order.name}" asks an oracle; only a simulation has one (gossamer simulate)')
    if score.needs_links and not config.archive.links:  # a restart reads them again
        raise ConfigError(f'order "{order.name}" needs the links so far: set archive.links = true')
    several = max(agents, config.site.agents) > 1 or config.site.max_agents
    if score.needs_links and several:  # an agent knows the links of its own pages only
        raise ConfigError(
            f'order "{order.name}" ranks by the links of the whole crawl, which none of several agents has; crawl with '
            'one agent (--agents 1), or take "opic", which is exact with any number'
        )
    if score.source == "history" and not (Path(config.crawl.history) / "gossamer.json").exists():
        what = f"{config.crawl.history} is none" if config.crawl.history else "none is given"
        raise ConfigError(f'order "{order.name}" needs the directory of an earlier crawl (crawl.history); {what}')


def open_scores(order: Strategy, config: Config, store: Store, chain: Chain) -> Scores | None:
    """None if the strategy looks at rows only."""
    score = order.score
    if score is None:
        return None
    check_scores(order, config)
    if score.needs_links and (others := sorted(chains(store) - {chain.agent})):
        raise ConfigError(
            f'order "{order.name}" ranks by the links of the whole crawl, and part of them are those of {others[0]}, '
            'which has crawled here too; take "opic", which is exact with any number of agents'
        )
    scores: Scores
    if score.is_batch:
        scores = LinkScores(score, config.crawl.rescore)
    else:
        from gossamer.archive.linkgraph import read_links  # DuckDB: only who needs it waits for it

        earlier = read_links(Path(config.crawl.history))
        if not len(earlier.source):
            raise ConfigError(
                f'order "{order.name}" cannot rank the pages of {config.crawl.history}: it has no links between them '
                "(was it crawled with archive.links = false?)"
            )
        ranks = pagerank(earlier.source, earlier.target, len(earlier.keys))
        scores = HistoricalScores(score, earlier.keys, ranks, config.crawl.seed)
    if score.needs_links:
        scores.recall(_lessons(store, chain))
    return scores


def _lessons(store: Store, chain: Chain) -> list[Lesson]:
    """What each committed round taught, in order."""
    pages = _columns(store, chain, "pages", ["round", "key", "referrer"])
    visits = _columns(store, chain, "visits", ["round", "key", "is_robots"])
    visits = {name: column[~visits["is_robots"]] for name, column in visits.items()}
    links = _columns(store, chain, "links", ["round", "source", "target", "verdict"])
    rounds = np.unique(np.concatenate((pages["round"], visits["round"])))
    cuts = [
        np.stack([np.searchsorted(table["round"], rounds, side) for side in ("left", "right")], axis=1)
        for table in (pages, visits, links)
    ]
    lessons = []
    for (p0, p1), (v0, v1), (l0, l1) in zip(*(cut.tolist() for cut in cuts), strict=True):
        visited = visits["key"][v0:v1]
        order = np.argsort(visited)
        source = order[np.searchsorted(visited[order], links["source"][l0:l1])].astype(np.int32)
        lesson = Lesson(
            pages["key"][p0:p1],
            pages["referrer"][p0:p1],
            visited,
            source,
            links["target"][l0:l1],
            links["verdict"][l0:l1],
        )
        lessons.append(lesson)
    return lessons


def _columns(store: Store, chain: Chain, kind: str, names: list[str]) -> dict[str, Any]:
    """Columns of all files of a kind, by round; inside a round in the order in which they were written."""
    dtypes = {"round": np.uint32, "is_robots": np.bool_, "verdict": np.bool_}
    parts: dict[str, list[Any]] = {name: [np.zeros(0, dtypes.get(name, np.uint64))] for name in names}
    for file in chain.files.get(kind, []):
        table = pq.read_table(store.local(file), columns=names)
        for name in names:
            column = table[name].combine_chunks()
            if name == "verdict":
                words = column.dictionary.to_pylist()
                codes = column.indices.to_numpy(zero_copy_only=False)
                parts[name].append(codes == (words.index("followed") if "followed" in words else -1))
            else:
                parts[name].append(column.to_numpy(zero_copy_only=False))
    columns = {name: np.concatenate(columns) for name, columns in parts.items()}
    order = np.argsort(columns["round"], kind="stable")
    return {name: column[order] for name, column in columns.items()}
