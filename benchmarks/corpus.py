"""The pages of the crawl benchmark: Debian documentation packages, unpacked as hosts of a replayed web."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT

CACHE = ROOT / ".cache"
DOMAIN = "docs.example"  # one registrable domain: both crawlers stay inside it and need no list of hosts


EMPTY_HOST = f"empty.{DOMAIN}"  # has one page without links: what it costs to crawl it is start-up


class CorpusError(Exception):
    """The corpus cannot be had here; the message says what is missing."""


@dataclass(frozen=True)
class Book:
    """A documentation package, and where in it the pages are."""

    package: str
    name: str
    root: str
    start: str = "index.html"

    @property
    def host(self) -> str:
        return f"{self.name}.{DOMAIN}"

    def directory(self, cache: Path = CACHE) -> Path:
        return cache / "corpus" / self.package / self.root


# Chosen for variety (Sphinx, DocBook, AsciiDoc, hand-made; a dozen languages, several charsets), a mean near 33 KB and
# 100 links a page, and for being reachable within a few links from the start: none is behind Gossamer's default limits.
BOOKS = (
    Book("python3.11-doc", "python", "usr/share/doc/python3.11/html"),
    Book("sqlite3-doc", "sqlite", "usr/share/doc/sqlite3"),
    Book("postgresql-doc-15", "postgresql", "usr/share/doc/postgresql-doc-15/html"),
    Book("git-doc", "git", "usr/share/doc/git-doc"),
    Book("python-django-doc", "django", "usr/share/doc/python-django-doc/html"),
    Book("apache2-doc", "apache", "usr/share/doc/apache2-doc/manual", "en/index.html"),
    Book("python-sqlalchemy-doc", "sqlalchemy", "usr/share/doc/python-sqlalchemy-doc/html"),
    Book("sphinx-doc", "sphinx", "usr/share/doc/sphinx-doc/html"),
    Book("python-tornado-doc", "tornado", "usr/share/doc/python-tornado-doc/html"),
    Book("python-scrapy-doc", "scrapy", "usr/share/doc/python-scrapy-doc/html"),
)


def ensure(cache: Path = CACHE) -> dict[str, Path]:
    """Directory of every host; downloads and unpacks what is not there yet."""
    missing = [book for book in BOOKS if not book.directory(cache).is_dir()]
    if missing:
        _need_tools()
        home = cache / "corpus"
        home.mkdir(parents=True, exist_ok=True)
        print(f"corpus: {len(missing)} of {len(BOOKS)} packages are not in {home}; downloading", flush=True)
        with tempfile.TemporaryDirectory(dir=home, prefix="download-") as scratch:
            _download([book.package for book in missing], Path(scratch))
            for book in missing:
                _unpack(book, Path(scratch), home)
    return {book.host: book.directory(cache) for book in BOOKS}


def empty(cache: Path = CACHE) -> dict[str, Path]:
    """One more host, for start-up."""
    directory = cache / "corpus" / "empty"
    directory.mkdir(exist_ok=True)
    (directory / "index.html").write_text("<!doctype html><title>empty</title><p>There are no links here.")
    return {EMPTY_HOST: directory}


def start_urls(port: int) -> list[str]:
    """Where both crawlers begin: every host's first page."""
    return [f"http://{book.host}:{port}/{book.start}" for book in BOOKS]


def _need_tools() -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise CorpusError(
                f"the corpus is made of Debian packages, and {tool} is not on this machine: run the benchmark on "
                "Debian 12 (a container will do)"
            )


def _download(packages: list[str], scratch: Path) -> None:
    if _apt(["download", *packages], scratch) is None:
        return
    print("corpus: apt does not know all of them; updating its lists", flush=True)
    failed = _apt(["update"], scratch)
    if failed is not None and os.geteuid() != 0:
        raise CorpusError("`apt-get update` needs root: run `sudo apt-get update` once, then this again")
    failed = _apt(["download", *packages], scratch)
    if failed is not None:
        raise CorpusError(f"apt-get could not download the packages of Debian 12 (bookworm):\n{failed}")


def _apt(arguments: list[str], scratch: Path) -> str | None:
    """What apt-get complained about; None if it succeeded."""
    done = subprocess.run(["apt-get", "-q", *arguments], cwd=scratch, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def _unpack(book: Book, scratch: Path, home: Path) -> None:
    (package,) = scratch.glob(f"{book.package}_*.deb")
    unpacked = scratch / book.package
    unpacked.mkdir()
    subprocess.run(["dpkg-deb", "-x", str(package), str(unpacked)], check=True)
    if not (unpacked / book.root / book.start).is_file():
        raise CorpusError(f"{package.name} has no {book.root}/{book.start}: another release than Debian 12?")
    target = home / book.package
    shutil.rmtree(target, ignore_errors=True)
    unpacked.rename(target)  # the directory appears when it is complete
    print(f"corpus: {package.name} -> {target / book.root}", flush=True)


def pages(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*.html") if path.is_file()]


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    try:
        hosts = ensure()
    except CorpusError as error:
        print(f"corpus: {error}", file=sys.stderr)
        return 1
    print(f"{'host':28} {'pages':>7} {'mean bytes':>11}")
    counts, sizes = 0, 0
    for host, directory in hosts.items():
        found = [path.stat().st_size for path in pages(directory)]
        counts, sizes = counts + len(found), sizes + sum(found)
        print(f"{host:28} {len(found):7,} {sum(found) / max(len(found), 1):11,.0f}")
    print(f"{'all':28} {counts:7,} {sizes / max(counts, 1):11,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
