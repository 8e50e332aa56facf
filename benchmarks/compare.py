"""Crawls the corpus with two trees of the source, and says where their archives differ: a faster crawler must store the
same. Times, places of records and orders of visits differ between any two crawls and are left out."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
from fastwarc import ArchiveIterator

from benchmarks import corpus
from gossamer.testweb.running import RunningWeb

CONNECTIONS = 64
# What of a table does not depend on when and in which order pages were visited. Of pages with the same content any may
# be the one that is stored.
TABLES = {
    "visits": "url, host, outcome, status, http_status, reason, content_type, charset, title, language, canonical, "
    "location, wire_bytes, body_bytes, truncated, digest, links, address, noindex, is_robots",
    "pages": "key, url, host, domain",
    "links": "source, target, target_url, verdict",
}


def crawl(tree: Path, web: RunningWeb, into: Path) -> float:
    """Crawls with the code of a tree; returns seconds of CPU."""
    starts = corpus.start_urls(int(web.address.rpartition(":")[2]))
    command = [sys.executable, "-m", "gossamer", "crawl", *starts, "--dir", str(into), "--testweb", web.address]
    command += ["--delay", "0", "--connections", str(CONNECTIONS), "--json"]
    with subprocess.Popen(
        command, cwd=tree, env=os.environ | {"PYTHONPATH": str(tree)}, stdout=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the crawl with {tree} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def rows(archive: Path, table: str) -> set[tuple[object, ...]]:
    files = sorted(str(path) for path in archive.glob(f"tables/{table}-*.parquet"))
    return set(duckdb.read_parquet(files).project(TABLES[table]).fetchall()) if files else set()


def records(archive: Path) -> tuple[int, int]:
    """The number of WARC records with content, and of those whose digests are wrong."""
    count = wrong = 0
    for path in sorted(archive.glob("warc/*.warc.gz")):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, parse_http=False):
                count += record.headers.get("WARC-Type") in ("response", "revisit")
                wrong += "WARC-Block-Digest" in record.headers and not record.verify_block_digest()
    return count, wrong


def differences(before: Path, after: Path) -> list[str]:
    found = []
    for table in TABLES:
        one, other = rows(before, table), rows(after, table)
        share = len(one & other) / max(len(one | other), 1)
        found.append(f"{table}: {len(one):,} and {len(other):,} rows, {share:.3%} the same")
        found += [
            f"  only {name}: {row}"
            for name, some in (("before", one - other), ("after", other - one))
            for row in sorted(some, key=repr)[:3]
        ]
    (count, wrong), (later, later_wrong) = records(before), records(after)
    return [*found, f"WARC: {count:,} and {later:,} visits, {wrong} and {later_wrong} wrong digests"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="a tree of the source")
    parser.add_argument("after", type=Path, help="another one")
    arguments = parser.parse_args()
    with RunningWeb(roots=corpus.ensure()) as web, tempfile.TemporaryDirectory(prefix="compare-") as scratch:
        archives = [Path(scratch) / "before", Path(scratch) / "after"]
        for tree, archive in zip((arguments.before, arguments.after), archives, strict=True):
            print(f"compare: {tree}: {crawl(tree.absolute(), web, archive):.2f} s of CPU", flush=True)
        print("\n".join(differences(*archives)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
