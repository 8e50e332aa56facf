"""This module makes workers of a machine that joins a crawl: they run its agents, and nothing else."""

import dataclasses
from collections.abc import Callable

import msgspec

from gossamer.archive.store import Store
from gossamer.cluster.engine import Job
from gossamer.cluster.protocol import AgentTask, decode, encode
from gossamer.cluster.pull_worker import Worker, names
from gossamer.cluster.store_lease import leader
from gossamer.config import Site

AGENT = "gossamer.cluster.agent_process"


def joined(store: Store, directory: str, count: int, show: Callable[[str], object]) -> list[Worker]:
    """Returns workers for a crawl that this machine sees in the directory."""

    def lease_s() -> float:
        found = leader(store)
        return found.lease_s if found else Site().lease_s

    def prepared(job: Job) -> Job:
        task = msgspec.structs.replace(decode(AgentTask, job.task), directory=directory)
        return dataclasses.replace(job, task=encode(task))

    return [Worker(store, name, lease_s, [AGENT], prepared, show) for name in names(count)]
