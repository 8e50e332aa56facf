"""`gossamer demo` serves a test web on loopback, crawls it, and answers questions from what the crawl wrote."""

import argparse
import os
import shutil
import sys
from dataclasses import replace as replace_spec
from pathlib import Path
from typing import Any

import tomli_w
from rich.console import Console

from gossamer.api import Crawl, stopped_by_signals
from gossamer.cli import options
from gossamer.cli.watch import LISTEN, watch
from gossamer.cluster import federation as federated
from gossamer.cluster.federation_file import load
from gossamer.cluster.location import locate
from gossamer.cluster.nats_server import free_port
from gossamer.config import Config
from gossamer.errors import ArchiveError, ConfigError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.watch import sites
from gossamer.watch.progress import Progress
from gossamer.watch.rows import run as run_query

DIR = "demo-crawl"
HOSTS = 300
PAGES = 6_000
SETTINGS: dict[str, dict[str, Any]] = {
    "crawl": {"scope": "any", "width": 2_000, "patience_s": 3.0},
    # The test web asks for crawl-delays as real hosts do; a demonstration has not that much time.
    "polite": {"delay_s": 0.05, "connections": 200, "backoff_s": 0.5, "crawl_delay_max_s": 1.0},
    "fetch": {"retry_s": 0.5, "retries": 1, "timeout_s": 10.0},
}
FILE = "three-sites.toml"
SITES = {"paris": (48.9, 2.4), "tokyo": (35.7, 139.7), "lima": (-12.0, -77.0)}  # degrees, for the map
QUESTIONS = (
    (
        "Which pages do most other hosts link to?",
        """SELECT links.target_url AS page, count(DISTINCT pages.host) AS hosts, any_value(target.title) AS title
           FROM links JOIN pages ON pages.key = links.source LEFT JOIN pages AS target ON target.key = links.target
           WHERE pages.host <> target.host GROUP BY page ORDER BY hosts DESC, page LIMIT 5""",
    ),
    (
        "Which languages were found, and how much of each?",
        """SELECT language, count(*) AS pages, round(sum(body_bytes) / 1e6, 1) AS megabytes
           FROM pages WHERE status = 'fetched' AND language <> '' GROUP BY language ORDER BY pages DESC LIMIT 6""",
    ),
    (
        "How does a page begin? Its text comes straight out of the WARC file.",
        """SELECT url, substr(text(warc, warc_offset), 1, 60) AS text
           FROM pages WHERE status = 'fetched' AND content_type = 'text/html' ORDER BY links DESC, url LIMIT 3""",
    ),
)


def web_spec() -> WebSpec:
    return WebSpec(seed=7, hosts=HOSTS, pages=PAGES, host_exponent=0.6, latency_ms=20.0, crawl_delay_s=0.1)


def demo_arguments(parser: argparse.ArgumentParser) -> None:
    text = f"a directory that does not exist yet (default: {DIR}, made anew each time)"
    parser.add_argument("--dir", type=options.folder, help=text)
    parser.add_argument("--watch", action="store_true", help="end by serving the dashboard of the sites, until Ctrl-C")


def demo(arguments: argparse.Namespace) -> int:
    console = Console()
    directory = arguments.dir or Path(DIR)
    if directory.exists():
        if arguments.dir or not (directory / "gossamer.json").is_file():
            raise ArchiveError(f"{directory} exists; choose another --dir")
        shutil.rmtree(directory)
    console.print(
        f"A test web of {HOSTS} hosts and {PAGES:,} pages, on loopback. Real HTTP, real robots.txt, real trouble."
    )
    with RunningWeb(web_spec()) as web:
        config = Config().replace({**SETTINGS, "resolve.map": {"*": web.address}})
        crawl = Crawl(directory, [web.start_url], config)
        progress = Progress(console, config)
        with progress:
            stats = crawl.run(progress.update, signals=True)
        progress.finish(stats, crawl.places())
    for question, sql in QUESTIONS:
        console.print(f"\n[bold]{question}[/bold]")
        run_query(directory, sql)
    folder = directory.with_name(f"{directory.name}-sites")
    _second_act(console, folder)
    command = "gossamer" if shutil.which("gossamer") else os.path.relpath(Path(sys.executable).parent / "gossamer")
    console.print("\n[bold]What to try next[/bold]")
    for what, words in (
        ("see it in the browser", f"watch {folder / FILE}[/bold], then open [bold]http://{LISTEN}/"),
        ("a report about the crawl", f"report {directory} --html report.html"),
        ("ask more", f'query {directory} "SELECT ..."'),
        ("all sites at once", f'query {folder / FILE} "SELECT ..."'),
        ("what there is to ask for", f"query {directory} tables"),
        ("the real web", "crawl https://example.org/ --contact YOUR-ADDRESS --pages 100"),
    ):
        console.print(f"  {what:26}[bold]{command} {words}[/bold]", highlight=False, soft_wrap=True)
    if arguments.watch:
        _show_dashboard(console, folder / FILE)
    return 0


def _show_dashboard(console: Console, place: Path) -> None:
    """Serves the dashboard until Ctrl-C."""
    console.print("\n[bold]The dashboard of the three sites is at the address below, until Ctrl-C.[/bold]")
    for listen in (LISTEN, "127.0.0.1:0"):
        try:
            watch(argparse.Namespace(dir=place, listen=listen, token_file=None, with_process=None))
            return
        except ConfigError:  # another dashboard is there
            continue


def _second_act(console: Console, folder: Path) -> None:
    """Shows the same with three sites."""
    console.print(
        f"\n[bold]Second act: {', '.join(SITES)} crawl a web together.[/bold] Each has its own server and archive."
    )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with RunningWeb(replace_spec(web_spec(), hosts=100, pages=2_000)) as web:
        (folder / FILE).write_text(_federation(web.address))
        federation = load(folder / FILE)
        federated.prepare(federation)
        run = federated.FederationRun(federation, [web.start_url])
        progress = Progress(console, federation.config)
        with progress, stopped_by_signals(run):
            stats = run.run(progress.update)
        progress.finish(stats)
    console.print()
    console.print(sites.render(federated.status(federation)))
    console.print("\n[bold]One question to all of them[/bold]")
    run_query(
        locate(folder / FILE),
        "SELECT status, count(*) AS pages, count(DISTINCT host) AS hosts FROM pages GROUP BY status",
    )


def _federation(address: str) -> str:
    sections = {
        **SETTINGS,
        "sites": {
            name: {"address": f"127.0.0.1:{free_port()}", "latitude": north, "longitude": east}
            for name, (north, east) in SITES.items()
        },
        "crawl": {**SETTINGS["crawl"], "width": 500},
        "polite": {**SETTINGS["polite"], "connections": 50},
        "resolve": {"map": {"*": address}},
    }
    return tomli_w.dumps(sections)
