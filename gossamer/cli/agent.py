"""`gossamer agent join` makes this machine a worker: it runs agents of a crawl that is supervised elsewhere."""

import argparse
import signal
import sys
from pathlib import Path

from gossamer.archive.places import opened
from gossamer.cli import options


def agent_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("join",), help="ask the crawl for work, until Ctrl-C")
    options.add_crawl(parser)
    parser.add_argument("--agents", type=options.positive, default=1, metavar="N", help="how many to run here at most")
    parser.add_argument("--quiet", action="store_true", help="do not print what runs here")


def agent(arguments: argparse.Namespace) -> int:
    from gossamer.cluster.joining import joined
    from gossamer.cluster.pull_worker import work

    def show(words: str) -> None:
        if not arguments.quiet:
            print(words, file=sys.stderr, flush=True)

    crawl = arguments.dir.resolve() if isinstance(arguments.dir, Path) else arguments.dir
    workers = joined(opened(crawl), str(crawl), arguments.agents, show)

    def stop(_number: int, _frame: object) -> None:
        for worker in workers:
            worker.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    room = f"{arguments.agents} agent{'s' * (arguments.agents != 1)}"
    show(f"waiting for work in {arguments.dir}, with room for {room}; Ctrl-C ends it")
    work(workers)
    return 0
