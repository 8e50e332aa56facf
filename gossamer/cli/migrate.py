"""The command `gossamer migrate` brings the directory of a crawl up to date, with its copies and replicas."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from gossamer.cli import options
from gossamer.config.folders import Place, as_place


def migrate_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser, "a crawl; or the file of a federation, for all its sites")


def migrate(arguments: argparse.Namespace) -> int:
    from gossamer.archive.mark import LAYOUT
    from gossamer.archive.migrate import migrate

    for place in _places(arguments.dir):
        count = migrate(place)
        done = (
            f"{count:,} manifests were brought up to layout {LAYOUT}" if count else f"is up to date (layout {LAYOUT})"
        )
        print(f"{place}: {done}", file=sys.stderr)
    return 0


def _places(crawl: Place) -> Iterator[Place]:
    """Iterates over archives that belong together. The first to be read is migrated last: no crawl begins before."""
    from gossamer.archive.mark import is_federation
    from gossamer.archive.places import exists, remembered
    from gossamer.cluster.federation_file import load
    from gossamer.cluster.replicas import FOLDER

    if isinstance(crawl, Path) and is_federation(crawl):
        federation = load(crawl)
        for site in federation.here:
            yield from _places(federation.directory(site))
        return
    config = remembered(crawl)
    disks = [as_place(disk) for disk in config.site.disks] if config and config.site.copies > 1 else []
    replicas = sorted(crawl.glob(f"{FOLDER}/*")) if isinstance(crawl, Path) else []
    yield from (place for place in [*disks, *replicas] if exists(place))
    yield crawl
