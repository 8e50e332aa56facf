"""This module makes the graphs that no constant of Gossamer was chosen on: three by rules, two of real manuals, and one
of real hosts. Their parameters were set once, before anything was measured on them.

python -m experiments.held_out DIR [--hosts ukwa-hosts-1996.npz]
"""

import argparse
import gzip
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.graphs import of_directories
from gossamer.arrays import Indices
from gossamer.sim.hosts import host_rule
from gossamer.web.url import domain_of, host_of

PAGES, HOSTS = 20_000, 400
Rows = list[list[int]]
# Debian packages whose manuals lie in a directory each: the manual is the host.
MANUALS = {"racket-doc": "usr/share/doc/racket", "erlang-doc": "usr/share/doc/erlang-doc"}


def copied(random: np.random.Generator) -> tuple[Rows, Indices]:
    """Pages copy the links of an earlier page (Kumar et al., FOCS 2000): seven of ten links, the others are new; three
    of four prototypes and of four new links are of the same host."""
    host, first = _hosts(PAGES, HOSTS)
    rows: Rows = []
    for page in range(PAGES):
        start, end = int(first[host[page]]), int(first[host[page] + 1])
        is_near = random.random() < 0.75 and page > start
        model = rows[int(random.integers(start if is_near else 0, page))] if page else []
        new = np.where(random.random(10) < 0.75, random.integers(start, end, 10), random.integers(0, PAGES, 10))
        copies = random.random(10) < 0.7
        links = [model[at] if copies[at] and at < len(model) else int(new[at]) for at in range(10)]
        rows.append([*links, *([page + 1] if page + 1 < end else [])])
    return rows, host


def menus(random: np.random.Generator) -> tuple[Rows, Indices]:
    """Hosts are trees with menus: each page leads to its parent, children, siblings, the home page and six sections.
    One page in twenty leads to other hosts, mostly to home pages, popular ones more often."""
    host, first = _hosts(PAGES, HOSTS)
    popular = 1 / np.arange(1, HOSTS + 1)
    popular = random.permutation(popular / popular.sum())
    rows: Rows = []
    for page in range(PAGES):
        start, end = int(first[host[page]]), int(first[host[page] + 1])
        place = page - start
        parent, child = (place - 1) // 8, 8 * place + 1
        near = [0, *range(1, 7), max(parent, 0), *range(child, child + 8), *range(8 * parent + 1, 8 * parent + 9)]
        links = [start + at for at in near if 0 <= at < end - start]
        if random.random() < 0.05:
            homes = first[random.choice(HOSTS, int(random.integers(1, 4)), p=popular)]
            links += [int(home) if random.random() < 0.8 else int(random.integers(PAGES)) for home in homes]
        rows.append(links)
    return rows, host


def journals(random: np.random.Generator) -> tuple[Rows, Indices]:
    """Many small hosts whose pages lead to each other's: three links on the host, six to others, of which seven in ten
    go where others went before."""
    sizes = np.maximum(random.lognormal(1.2, 0.9, 8 * HOSTS).astype(np.int64), 1)
    host = np.repeat(np.arange(len(sizes)), sizes)
    first = np.concatenate(([0], np.cumsum(sizes)))
    rows: Rows = []
    went: list[int] = []
    for page in range(len(host)):
        start, end = int(first[host[page]]), int(first[host[page] + 1])
        near = random.integers(start, end, 3).tolist()
        far = [
            went[int(random.integers(len(went)))] if went and random.random() < 0.7 else int(random.integers(len(host)))
            for _ in range(random.poisson(6))
        ]
        went += far
        rows.append([*near, start, *far, *([page + 1] if page + 1 < end else [])])
    return rows, host


MADE: dict[str, Callable[[np.random.Generator], tuple[Rows, Indices]]] = {
    "copied": copied,
    "menus": menus,
    "journals": journals,
}


def _hosts(pages: int, hosts: int) -> tuple[Indices, Indices]:
    host, _ = host_rule(f"power:{hosts}", np.zeros(pages + 1, np.int64), np.zeros(0, np.int32))
    return host.astype(np.intp), np.searchsorted(host, np.arange(hosts + 1))


def make(folder: Path, name: str) -> Path:
    """Writes one of the graphs that are made by rules."""
    rows, host = MADE[name](np.random.default_rng(list(name.encode())))
    rows = [[target for target in dict.fromkeys(row) if target != page] for page, row in enumerate(rows)]
    names = np.array([f"{name}{number}" for number in range(int(host.max()) + 1)], "S")
    path = folder / f"{name}.npz"
    indices = np.concatenate([np.array(row, np.int32) for row in rows])
    np.savez_compressed(
        path, indptr=np.cumsum([0, *map(len, rows)]), indices=indices, host=host.astype(np.int32), host_names=names
    )
    return path


def manual(folder: Path, package: str) -> Path:
    """Writes the links between the pages of a Debian package, which it downloads; each directory is a host."""
    path = folder / f"{package}.npz"
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["apt-get", "-q", "download", package], cwd=scratch, check=True)
        (file,) = Path(scratch).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(file), scratch], check=True)
        of_directories(path, {"x.test": Path(scratch) / MANUALS[package]})
    lines = path.with_suffix(".urls.gz")
    with gzip.open(lines, "rt", encoding="utf-8") as before:
        urls = [line.strip().removeprefix("http://x.test/") for line in before]
    parts = [url.removeprefix("lib/").partition("/") for url in urls]
    with gzip.open(lines, "wt", encoding="utf-8") as after:
        for top, slash, rest in parts:
            host = "".join(letter if letter.isalnum() else "-" for letter in top.lower()) if slash else "top"
            after.write(f"http://{host}.test/{rest or top}\n")
    return path


def by_domain(folder: Path, hosts: Path) -> Path:
    """Writes a graph of hosts as one of pages: a host is a page of its registrable domain."""
    with gzip.open(hosts.with_suffix(".urls.gz"), "rt", encoding="utf-8") as lines:
        names = [host_of(line.strip()) for line in lines]
    domains, number = np.unique([domain_of(name) or name for name in names], return_inverse=True)
    rows = np.load(hosts)
    path = folder / f"{hosts.stem}-domains.npz"
    np.savez_compressed(
        path,
        indptr=rows["indptr"],
        indices=rows["indices"],
        host=number.astype(np.int32),
        host_names=np.array([f"d{place}" for place in range(len(domains))], "S"),
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the graphs that no constant was chosen on.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", type=Path, help="a graph of hosts, with its names beside it")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in MADE:
        print(make(arguments.folder, name), flush=True)
    for package in MANUALS:
        print(manual(arguments.folder, package), flush=True)
    if arguments.hosts:
        print(by_domain(arguments.folder, arguments.hosts), flush=True)


if __name__ == "__main__":
    main()
