"""This module computes which pages of a synthetic web a crawl must find, by a breadth-first search on columns."""

import numpy as np

from gossamer.arrays import I64, Bools
from gossamer.testweb.hosts import OWN_AGENT, Robots
from gossamer.testweb.plan import Kind, Plan
from gossamer.testweb.words import TOPICS

_CHUNK = 4_096  # pages whose links are in memory at a time


class Reach:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tables: dict[str, Bools] = {}

    def allowed(self, pages: I64, agent: str) -> Bools:
        """Returns which pages robots.txt allows: looked up by host, topic, and the form of the path."""
        plan = self._plan
        root = plan.offsets[plan.host[pages]] == pages
        topic = np.where(root, len(TOPICS), plan.topic[pages])
        html, query = plan.is_html(pages).astype(np.int64), plan.has_query(pages).astype(np.int64)
        return self._table(agent)[plan.host[pages], topic, html, query]

    def _table(self, agent: str) -> Bools:
        agent = agent.lower()
        if agent not in self._tables:
            shape = (self._plan.spec.hosts, len(TOPICS) + 1, 2, 2)  # the last topic: none, as roots have none
            table = np.ones(shape, dtype=np.bool_)
            for number in range(self._plan.spec.hosts):
                host = self._plan.hosts[number]
                if host.robots is Robots.BROKEN:
                    table[number] = False
                elif host.robots is Robots.RULES:
                    rules = host.own_rules if host.own_rules and agent == OWN_AGENT else host.rules
                    for topic, html, query in np.ndindex(shape[1:]):
                        table[number, topic, html, query] = rules.allows(topic, bool(html), bool(query))
            self._tables[agent] = table
        return self._tables[agent]

    def closure(self, start: I64, obey_robots: bool, sitemaps: bool, agent: str) -> I64:
        plan = self._plan
        found = np.zeros(plan.spec.pages, dtype=np.bool_)
        host_found = np.zeros(plan.spec.hosts, dtype=np.bool_)
        listed = plan.hosts.has_sitemap
        if obey_robots:
            broken = [plan.hosts[n].robots in (Robots.BROKEN, Robots.MISSING) for n in range(plan.spec.hosts)]
            listed = listed & ~np.array(broken)  # without robots.txt the place of the sitemap is unknown
        front = np.unique(start[start >= 0])
        while len(front):
            known = self.allowed(front, agent) if obey_robots else np.ones(len(front), dtype=np.bool_)
            hosts = np.unique(plan.host[front])  # robots.txt is read even if the page is then forbidden
            front = front[known]
            found[front] = True
            targets = [self._next(front[n : n + _CHUNK]) for n in range(0, len(front), _CHUNK)]
            if sitemaps:
                fresh = hosts[listed[hosts] & ~host_found[hosts]]
                targets += [np.arange(plan.offsets[h], plan.offsets[h + 1]) for h in fresh]
            host_found[hosts] = True
            every = np.unique(np.concatenate([front[:0], *targets]))
            front = every[~found[every]]
            if obey_robots:
                front = front[self.allowed(front, agent) | ~host_found[plan.host[front]]]
        return np.flatnonzero(found)

    def _next(self, pages: I64) -> I64:
        """Returns the targets of the links and redirects of pages."""
        plan = self._plan
        kind, target = plan.kind[pages], plan.target[pages]
        named = target[(kind == Kind.REDIRECT) | (kind == Kind.NEAR_DUPLICATE)]
        content = (kind != Kind.REDIRECT) & (kind != Kind.ERROR)
        sources = np.unique(target[content])  # a page that repeats another one has its links; others are their own
        if not len(sources):
            return np.unique(named)
        matrix = plan.link_matrix(sources, np.zeros(len(sources), dtype=np.int64))
        counted = np.arange(matrix.shape[1]) < plan.links[sources][:, None]
        return np.concatenate([named, np.unique(matrix[counted])])
