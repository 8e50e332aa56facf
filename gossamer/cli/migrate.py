"""The command `gossamer migrate` brings the directory of a crawl up to date, with its copies and replicas."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from gossamer.cli.options import folder


def migrate_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a crawl; or the file of a federation, for all its sites"
    parser.add_argument("dir", metavar="DIR", type=folder, help=text)


def migrate(arguments: argparse.Namespace) -> int:
    from gossamer.archive.mark import LAYOUT
    from gossamer.archive.migrate import migrate

    for place in _places(Path(arguments.dir)):
        count = migrate(place)
        done = f"{count:,} manifests were brought up to layout {LAYOUT}" if count else f"has layout {LAYOUT}"
        print(f"{place}: {done}", file=sys.stderr)
    return 0


def _places(path: Path) -> Iterator[Path]:
    """Iterates over archives that belong together. The first to be read is migrated last: no crawl begins before."""
    from gossamer.archive.mark import MARK, is_federation
    from gossamer.cluster.federation_file import load
    from gossamer.cluster.replicas import FOLDER
    from gossamer.config.last_run import recall

    if is_federation(path):
        federation = load(path)
        for site in federation.here:
            yield from _places(federation.directory(site))
        return
    config = recall(path)
    disks = [Path(disk) for disk in config.site.disks] if config and config.site.copies > 1 else []
    replicas = sorted(path.glob(f"{FOLDER}/*"))
    yield from (place for place in [*disks, *replicas] if (place / MARK).exists())
    yield path
