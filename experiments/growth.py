"""This module crawls one web with few agents and with many, in turns, and counts what each page costs: messages between
agents, commits, CPU. `python -m experiments.growth --agents 2 16 --pages 6000 --repeat 3`

With `--speakers 2 4` it crawls with so many sites of four agents, and tells what it costs to speak for a site.

With `--idle 8` it runs so many sites that have nothing to say, and counts the bytes between them for a while.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from experiments.agents_scaling import events
from experiments.processes import cpu_s, family
from experiments.sites_lab import first_pages
from experiments.sites_runs import Setting, crawl
from gossamer.cluster import federation as federated
from gossamer.cluster.federation_file import load
from gossamer.cluster.nats_server import free_port
from gossamer.crawl.stats import Stats
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

_SAMPLE_S = 0.3


def crawled(web: RunningWeb, agents: int, directory: Path, width: int) -> dict[str, float]:
    """One crawl to its end, and its cost; that of the process that serves the pages is not in it."""
    settings = {
        "crawl.scope": "any", "crawl.sitemaps": "false", "crawl.patience_s": 3, "polite.robots": "false",
        "polite.delay_s": 0, "limits.depth": 250, "limits.depth_dynamic": 250, "limits.pages_per_host": 0,
        "limits.pages_per_domain": 0, "limits.hosts_per_domain": 0, "resolve.map": f'{{"*" = "{web.address}"}}',
    }  # fmt: skip
    words = ["--dir", str(directory), "--agents", str(agents), "--width", str(width), "--quiet"]
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    start_s = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "gossamer", "crawl", *web.start_urls, *words], stdout=subprocess.DEVNULL
    )
    seen: dict[int, tuple[str, float]] = {}
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        for each in family(process.pid):
            seen[each] = _role(each, process.pid), cpu_s([each])
        time.sleep(_SAMPLE_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    found = events(directory)
    commits = [event for event in found if event["event"] == "commit"]
    pages = sum(event["visits"] for event in commits)
    return {
        "agents": agents,
        "pages": pages,
        "seconds": time.monotonic() - start_s,
        "cpu_ms_per_page": 1000 * (used.ru_utime + used.ru_stime) / pages,
        "after_start_ms": 1000 * (used.ru_utime + used.ru_stime - _start_s(found)) / pages,
        **{
            f"{role}_ms": 1000 * sum(cpu for name, cpu in seen.values() if name == role) / pages
            for role in ("supervisor", "server", "agents")
        },
        "started": sum(name == "agents" for name, _ in seen.values()),
        "commits": len(commits),
        "without_pages": sum(not event["visits"] for event in commits),
        "messages": sum(event["sent_messages"] for event in commits),
        "bytes": sum(event["sent_bytes"] for event in commits),
    }


def _start_s(found: list[dict[str, Any]]) -> float:
    """The CPU that agents used before they began to crawl; what follows in a process uses more than what was before."""
    used_s: dict[str, float] = {}
    start_s = 0.0
    for event in found:
        if event["event"] == "begin" and event["cpu_s"] < used_s.get(event["agent"], inf):
            start_s += event["cpu_s"]
        used_s[event["agent"]] = event.get("cpu_s", used_s.get(event["agent"], inf))
    return start_s


def _role(pid: int, supervisor: int) -> str:
    if pid == supervisor:
        return "supervisor"
    try:
        return "server" if "nats-server" in Path(f"/proc/{pid}/cmdline").read_text() else "agents"
    except OSError:
        return "agents"


def growth(counts: list[int], pages: int, repeat: int, width: int) -> None:
    spec = WebSpec.plain(seed=1, hosts=max(20, pages // 30), pages=pages, links=20.0, local=0.7, page_bytes=8_000.0)
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as scratch, RunningWeb(spec) as web:
        for turn in range(repeat):
            for agents in counts:
                rows.append(crawled(web, agents, Path(scratch) / f"{turn}-{agents}", width))
                _show(rows[-1])
    print("medians")
    medians = {
        n: {key: statistics.median(row[key] for row in rows if row["agents"] == n) for key in rows[0]} for n in counts
    }
    for row in medians.values():
        _show(row)
    first, last = medians[counts[0]], medians[counts[-1]]
    for key in ("messages", "commits", "cpu_ms_per_page", "after_start_ms"):
        print(f"{key}: {last[key] / max(1e-9, first[key]):.2f} times")


def _show(row: dict[str, float]) -> None:
    print("  ".join(f"{key} {value:,.6g}" for key, value in row.items()), flush=True)


def speaker(sites: int, agents: int, pages: int) -> None:
    """The CPU that the agent which speaks for its site takes beyond that of the others for their pages, and that of the
    supervisor after its start, which passes on what it asks and is answered; both for each page of the site."""
    spec = WebSpec.plain(seed=1, hosts=max(50, pages // 100), pages=pages, links=30.0, local=0.8, page_bytes=8_000.0)
    start_s: dict[str, float] = {}
    used_s: dict[str, float] = {}

    def look(stats: Stats) -> None:
        used = used_s if stats.visits else start_s
        for pid in family():
            with suppress(OSError, ValueError):
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                if words[words.index("site") + 1] == "run" and cpu_s([pid]):
                    used[words[words.index("--name") + 1]] = cpu_s([pid])

    with tempfile.TemporaryDirectory() as scratch, RunningWeb(spec) as web:
        seeds = Path(scratch) / "seeds.txt"
        seeds.write_text("".join(f"{url}\n" for url in first_pages(min(50, spec.hosts))))
        setting = Setting(sites, agents=agents, connections=16, width=max(50, 500 // agents))
        done = crawl(setting, Path(scratch) / "sites", seeds, web.address, look)
        speaks, others = [0.0, 0], [0.0, 0]
        for directory in done.directories:
            for event in events(directory):
                of = speaks if event["agent"].endswith("_a0") else others
                of[0] -= event["cpu_s"] if event["event"] == "begin" else 0.0
                of[0] += event["cpu_s"] if event["event"] == "end" and "cpu_s" in event else 0.0
                of[1] += event["visits"] if event["event"] == "commit" else 0
        crossed = done.crossed()
    own_ms = 1000 * others[0] / others[1]
    all_pages = speaks[1] + others[1]
    speaking_ms = (1000 * speaks[0] - own_ms * speaks[1]) / all_pages
    supervisor_ms = 1000 * (sum(used_s.values()) - sum(start_s.values())) / all_pages
    links = (crossed["urls"] + crossed["keys"]) / all_pages
    _show({"sites": sites, "agents": agents, "pages": all_pages, "links_crossing_per_page": links, "own_ms": own_ms,
           "speaking_ms": speaking_ms, "supervisor_ms": supervisor_ms, "speaker_pages_per_s": 1000 / speaking_ms,
           "supervisor_pages_per_s": 1000 / supervisor_ms})  # fmt: skip


def idle(sites: int, seconds: float, settle_s: float) -> None:
    """All sites but the first are done; that one rests, as its only host fails and is tried again in some minutes."""
    setting = replace(Setting(), sites=sites)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        behind = {name: free_port() for name in setting.names}
        proxies = {name: stack.enter_context(closing(setting.proxy(port))) for name, port in behind.items()}
        path = folder / "sites.toml"
        nobody = f"127.0.0.1:{free_port()}"
        text = setting.file({name: proxy.port for name, proxy in proxies.items()}, behind, nobody)
        text = (
            text.replace("patience_s = 3.0", "patience_s = 36000.0")
            + '[fetch]\ncontact = "me@example.org"\nretry_s = 1800\n'
        )
        path.write_text(text)
        federated.prepare(load(path))
        running: list[subprocess.Popen[Any]] = []

        def end() -> None:
            for process in running:
                process.terminate()
            for process in running:
                process.wait()

        stack.callback(end)
        for name in setting.names:
            words = [sys.executable, "-m", "gossamer", "site", "run", "--quiet", "--name", name, str(path)]
            words += ["http://h0.test/"] if name == setting.names[0] else []
            running.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(settle_s)  # sites that begin have something to say
        assert all(process.poll() is None for process in running), "a site has ended"

        def crossed() -> dict[str, int]:
            return {name: proxy.sent + proxy.received for name, proxy in proxies.items()}

        before, cpu, start_s = crossed(), _cpu(running), time.monotonic()
        time.sleep(seconds)
        passed_s, after = time.monotonic() - start_s, crossed()
        rates = {name: (after[name] - before[name]) / passed_s for name in after}
        mean, most = sum(rates.values()) / sites, max(rates.values())
        print(f"{sites} sites idle for {passed_s:.0f} s: {mean:,.0f} B/s per site, both ways; most {most:,.0f}")
        print(f"CPU of a site: {100 * (_cpu(running) - cpu) / passed_s / sites:.1f} % of a core")


def _cpu(running: list["subprocess.Popen[Any]"]) -> float:
    return cpu_s(pid for process in running for pid in family(process.pid))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=[2, 16])
    parser.add_argument("--pages", type=int, default=6000)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--speakers", type=int, nargs="+", default=[], metavar="SITES")
    parser.add_argument("--idle", type=int, default=0, metavar="SITES")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=120.0, metavar="SECONDS", help="before the bytes are counted")
    given = parser.parse_args()
    for sites in given.speakers:
        speaker(sites, 4, given.pages)
    if given.speakers:
        return
    if given.idle:
        idle(given.idle, given.seconds, given.settle)
    else:
        growth(given.agents, given.pages, given.repeat, given.width)


if __name__ == "__main__":
    main()
