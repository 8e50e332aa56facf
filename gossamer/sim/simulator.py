"""`simulate` runs one crawl of a graph in virtual time: the strategy of production, under stated conditions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import typeof

from gossamer.arrays import F64, I32
from gossamer.crawl.ledger import Ledger
from gossamer.errors import ConfigError
from gossamer.frontier.scores import known_score, random_old
from gossamer.frontier.strategies import Strategy
from gossamer.sim import world as w
from gossamer.sim.compiling import compiled, entry_points
from gossamer.sim.graphs import Graph
from gossamer.sim.queues import queues
from gossamer.sim.ranking import flow, known_links

MEDIAN_S, SPREAD = 0.13, 1.908  # lognormal: 90 % of pages in under 1.5 s, 95 % in under 3 s (Castillo, section 4.2.1)
LATENCY_PART = 2 / 3  # "latency is usually larger than the actual transfer time"
SLICE = 50_000  # pages simulated before Ctrl-C is looked at
RECOMPUTATIONS = 35  # of batch strategies in a crawl, as in Castillo 2004


@dataclass(frozen=True)
class Conditions:
    """Under which a crawl is simulated. The names are the configuration's."""

    connections: int = 1  # r
    delay_s: float = 0.0  # w
    small_delay_s: float = 0.0
    small_pages: int = 100
    burst: int = 1  # c
    burst_delay_s: float = 0.0
    bandwidth: float = 0.0  # of our own link, bytes per second; 0: never the limit
    width: int = 0  # pages chosen at a time; 0: what a page teaches is known at once
    early: float = 0.0  # end a batch when less than this part of the connections is busy (unless `advance` is set)
    advance: float = 0.0  # choose more when no more than this part of a batch is left
    seed: int = 0
    rounds: "Rounds | None" = None  # as production makes them; None: batches, as Castillo has them


@dataclass(frozen=True)
class Rounds:
    """Production's habits: how many pages of a host it takes out (`generate.per_host`), and how long commits take,
    because that decides when rounds end early."""

    soon: int = 0  # 0: as many as there are
    later: int = 0
    commit_s: float = 0.0  # what a commit takes: what a round teaches is known after it


@dataclass(frozen=True)
class Trace:
    """What happened."""

    order: I32  # pages as they were visited
    time_s: F64  # when each had come
    batch: I32  # in which batch
    active_s: F64  # when the number of busy connections changed ...
    active: I32  # ... and what it became

    @property
    def seconds(self) -> float:
        return float(self.time_s[-1]) if len(self.time_s) else 0.0


@dataclass(frozen=True)
class Knowledge:
    """What strategies may know besides what they find."""

    oracle: F64 | None = None  # true PageRank of each page
    history: F64 | None = None  # PageRank of an earlier crawl, NaN for pages that it did not have
    relevance: F64 | None = None  # of each link to the topic
    every: int = 0  # pages between two computations of batch strategies; 0: 35 of them in a crawl


def simulate(
    graph: Graph,
    strategy: Strategy,
    starts: npt.ArrayLike,
    conditions: Conditions = Conditions(),  # frozen, so that all may share it
    knowledge: Knowledge = Knowledge(),
    pages: int = 0,
) -> Trace:
    """Crawl from these pages until nothing is left, or `pages` have been visited."""
    if strategy.needs_topic and knowledge.relevance is None:
        raise ConfigError(f"{strategy.name} needs the relevance of each link to a topic (`gossamer simulate --topic`)")
    return Simulation(graph, strategy, conditions, knowledge).run(np.asarray(starts, np.int32), pages)


class Simulation:
    """`Simulation` is one simulated crawl. `world` is its state, and may be changed before it runs."""

    def __init__(self, graph: Graph, strategy: Strategy, conditions: Conditions, knowledge: Knowledge) -> None:
        self._graph, self._strategy, self._knowledge = graph, strategy, knowledge
        self._rules = _rules(strategy, conditions)
        self._calls = (
            compiled(strategy.page_rank, "page_rank", strategy.name),
            compiled(strategy.host_rank or _no_rank, "host_rank", strategy.name),
            compiled(strategy.link_weight or _no_weight, "link_weight", strategy.name),
        )
        hosts = len(graph.host_names)
        self.world = _world(graph, conditions, knowledge)
        self._frontier = queues(graph.keys, graph.host, hosts)
        self._bench = queues(graph.keys, graph.host, hosts) if conditions.width else self._frontier
        self._hosts = w.zeros(w.Hosts, hosts, sizes=np.zeros(2, np.int64))

    def run(self, starts: I32, pages: int) -> Trace:
        world, number = self.world, self.world.number
        world.real["cost_s"] = world.commits_s[0] if len(world.commits_s) else 0.0
        limit = min(pages or self._graph.pages, self._graph.pages)
        self._assign_scores()
        self._sow(starts)
        run, rank_anew = entry_points(*(typeof(part) for part in (world, self._hosts, self._frontier, self._rules)))
        rank_anew(world, self._frontier, self._rules, *self._calls)
        score = self._strategy.score
        is_batch = score is not None and score.is_batch
        every = (self._knowledge.every or max(1, self._graph.pages // RECOMPUTATIONS)) if is_batch else limit
        due = every
        while (learnt := int(number["visits"] - number["held"])) < limit:
            until = min(limit, due, limit if self._rules.rounds else learnt + SLICE)
            if not run(world, self._hosts, self._frontier, self._bench, self._rules, *self._calls, until):
                break
            learnt = int(number["visits"] - number["held"])
            if is_batch and learnt >= due:
                self._compute_scores()
                rank_anew(world, self._frontier, self._rules, *self._calls)
                due = learnt + every
        visits, changes = min(int(number["visits"]), limit), int(number["changes"])
        return Trace(
            world.order[:visits].copy(),
            world.time_s[:visits].copy(),
            world.batch_of[:visits].copy(),
            world.active_s[:changes].copy(),
            world.active[:changes].copy(),
        )

    def _sow(self, starts: I32) -> None:
        """Seeds enter as `crawl/update.seeds` lets them, in the order given."""
        world, ledger = self.world, Ledger()
        if not len(starts) or len(np.unique(starts)) != len(starts):
            raise ConfigError("a simulated crawl begins with one page or more, each given once")
        world.pages["cash"][starts] = ledger.mint(len(starts))
        world.pages["text"][starts] = np.arange(len(starts))
        world.state[starts] = w.QUEUED
        world.number["known"] = len(starts)
        np.add.at(world.hosts["known"], self._graph.host[starts], 1)

    def _assign_scores(self) -> None:
        """Before the crawl: the scores of an oracle or of an earlier crawl."""
        score, known, world = self._strategy.score, self._knowledge, self.world
        if score is None or score.is_batch:
            return
        if score.needs_oracle and known.oracle is None:
            raise ConfigError(f"{self._strategy.name} asks an oracle: give the pages' true PageRank")
        if score.source == "oracle":
            world.pages["score"] = known.oracle
            world.scored[:] = True
            return
        if known.history is None:
            raise ConfigError(f"{self._strategy.name} needs the PageRank of an earlier crawl")
        old = ~np.isnan(known.history)
        world.pages["score"] = np.where(old, known.history, 0.0)
        world.scored[:] = old | (score.new != "parent")
        if score.new == "random":
            drawn = random_old(self._graph.keys, np.sort(known.history[old]), self._rules.seed)
            world.pages["score"] = np.where(old, known.history, drawn)
        elif score.new == "oracle" and known.oracle is not None:
            world.pages["score"] = np.where(old, known.history, known.oracle)

    def _compute_scores(self) -> None:
        """From the links known now, pages in order of discovery, links in order of visits: as production has them."""
        world, score = self.world, self._strategy.score
        assert score is not None
        visited = world.order[: world.number["visits"] - world.number["held"]]
        number = world.pages["text"].astype(np.int64)  # in order of discovery
        source, target = known_links(world.indptr, world.indices, visited, number)
        scores = known_score(score, flow)(source, target, int(world.number["known"]))
        known = world.state != w.UNKNOWN
        world.pages["score"][known] = scores[number[known]]
        world.scored[known] = True


def _rules(strategy: Strategy, conditions: Conditions) -> w.Rules:
    score = strategy.score
    gifts = {"sum": w.SUM, "parent": w.PARENT}
    rounds = conditions.rounds or Rounds()
    # With one connection production makes batches, so that time does not matter.
    is_production = conditions.rounds is not None and conditions.connections > 1
    return w.Rules(
        conditions.connections,
        float(conditions.delay_s),
        float(conditions.small_delay_s),
        conditions.small_pages,
        conditions.burst,
        float(conditions.burst_delay_s),
        float(conditions.bandwidth),
        conditions.width,
        float(conditions.early),
        float(conditions.advance),
        strategy.host_rank is not None,
        strategy.virtual,
        strategy.damping.numerator,
        strategy.damping.denominator,
        gifts.get(score.new, w.NOTHING) if score else w.NOTHING,
        strategy.link_weight is not None,
        conditions.seed,
        rounds.soon,
        rounds.later,
        is_production,
        float(rounds.commit_s),
    )


def _world(graph: Graph, conditions: Conditions, knowledge: Knowledge) -> w.World:
    pages, hosts = graph.pages, len(graph.host_names)
    rows = np.zeros(pages, w.PAGE_ROW)
    rows["key"] = graph.keys
    latency_s, speed = speeds(graph, conditions.seed)
    return w.zeros(
        w.World,
        pages,
        indptr=graph.indptr,
        indices=graph.indices,
        relevance=np.zeros(0) if knowledge.relevance is None else knowledge.relevance,
        pages=rows,
        hosts=np.zeros(hosts, w.HOST_ROW),
        taken=np.zeros(hosts, np.int32),
        page_bytes=graph.page_bytes,
        latency_s=latency_s,
        pace_s=np.zeros(0),
        lag_s=np.zeros(0),
        pace_first=np.zeros(hosts + 1, np.int64),
        asked=np.zeros(hosts, np.int32),
        commits_s=np.zeros(0),
        speed=speed,
        number=np.zeros(1, w.NUMBERS)[0],
        real=np.zeros(1, w.REALS)[0],
        active_s=np.zeros(2 * pages),
        active=np.zeros(2 * pages, np.int32),
    )


def speeds(graph: Graph, seed: int) -> tuple[F64, F64]:
    """Latency and bytes per second of each host: as measured, or drawn so that a page of mean size takes as long as
    Castillo's pages took."""
    if graph.latency_s is not None and graph.speed is not None:
        return graph.latency_s, graph.speed
    draw = np.random.default_rng(seed).lognormal(np.log(MEDIAN_S), SPREAD, len(graph.host_names))
    total_s = np.minimum(draw, 60.0)  # what takes longer is given up
    return total_s * LATENCY_PART, graph.page_bytes.mean() / (total_s * (1 - LATENCY_PART))


def _no_rank(rows: Any) -> Any:
    return np.zeros(len(rows))


def _no_weight(rows: Any) -> Any:
    return np.ones(len(rows), np.int64)
