"""`gossamer testweb` turns its options into a web and a server that runs until a signal stops it."""

import argparse
import dataclasses
import gc
import json
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gossamer.clocks import RealClock
from gossamer.errors import ConfigError, GossamerError
from gossamer.sim.graphs import load
from gossamer.testweb.answer import Joined, Web
from gossamer.testweb.faults import Fault
from gossamer.testweb.graph import GraphWeb
from gossamer.testweb.reference import ReferenceSite
from gossamer.testweb.replay import Replay
from gossamer.testweb.server import Server, ServerOptions
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb

_SHOWN = 3  # start URLs in the ready-made command


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gossamer testweb",
        description="A deterministic web over real HTTP on loopback, for tests, demos and benchmarks.",
    )
    serve = parser.add_argument_group("what is served besides or instead of a synthetic web")
    serve.add_argument(
        "--root", action="append", default=[], metavar="NAME=DIR", help="a directory of HTML as host NAME"
    )
    serve.add_argument("--graph", type=Path, metavar="FILE", help="a link graph: npz, list of links, or a crawl")
    serve.add_argument("--graph-hosts", default="", metavar="RULE", help="other hosts: even:N, power:N or cuts:N")
    serve.add_argument(
        "--synthetic", action="store_true", help="the synthetic web too, where --root or --graph is given"
    )
    serve.add_argument(
        "--reference", type=int, default=0, metavar="PAGES",
        help="also reference.SUFFIX, a website that never changes (gossamer scan --reference)",
    )  # fmt: skip
    server = parser.add_argument_group("server")
    server.add_argument("--address", default="127.0.0.1", help="where to listen")
    server.add_argument("--port", type=int, default=0, help="0: one that is free")
    server.add_argument("--log", type=Path, metavar="FILE", help="append one line per request")
    server.add_argument("--at", type=float, default=0.0, metavar="S", help="the web's time at the start, in seconds")
    server.add_argument("--speed", type=float, default=1.0, help="how fast the web's time goes; 0: it stands still")
    server.add_argument("--idle-s", type=float, default=60.0, help="close connections unused so long")
    server.add_argument(
        "--fault", action="append", default=[], metavar="HOST=KIND",
        help="refuse, hang, reset, cut, garbage or slow:BYTES",
    )  # fmt: skip
    server.add_argument(
        "--cache-mb", type=int, default=64, metavar="MB", help="synthetic pages that are asked for again stay here"
    )
    server.add_argument(
        "--warm", action="store_true", help="prepare everything, and fill the cache, before the first request"
    )
    server.add_argument("--json", action="store_true", help="print where it is as JSON")
    server.add_argument("--stop-on-eof", action="store_true", help="stop when standard input ends")
    web = parser.add_argument_group("the synthetic web (shares are parts of 1)")
    for trait in dataclasses.fields(WebSpec):
        option = f"--{trait.name.replace('_', '-')}"
        meaning = trait.metadata["meaning"].replace("%", "%%")
        kind = type(trait.default)
        web.add_argument(option, type=kind, default=trait.default, help=f"{meaning} ({trait.default})")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit status."""
    given = parser().parse_args(argv)
    try:
        web = _web(given)
        server = Server(web, RealClock(), _options(given))
        if given.stop_on_eof:
            server.stop_on_eof(sys.stdin.fileno())
    except (GossamerError, OSError, OverflowError) as error:
        print(f"gossamer testweb: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a socket for every connection
    print(_announcement(server, web, given.json), flush=True)
    # Nothing here makes cycles worth looking for, least of all in what was built before.
    gc.freeze()
    gc.set_threshold(100_000)
    server.run()
    return 0


def _web(given: argparse.Namespace) -> Web:
    webs: list[Web] = []
    roots = dict(_pair(text, "--root", "NAME=DIR") for text in given.root)
    if roots:
        paths = {name: Path(root) for name, root in roots.items()}
        webs.append(Replay(paths, given.latency_ms))
    if given.graph:
        webs.append(GraphWeb(load(given.graph, given.graph_hosts, given.suffix), given.latency_ms))
    if given.synthetic or not webs:
        values = {trait.name: getattr(given, trait.name) for trait in dataclasses.fields(WebSpec)}
        synthetic = SyntheticWeb(WebSpec(**values), given.cache_mb << 20)
        if given.warm:
            synthetic.warm()
        webs.insert(0, synthetic)
    if given.reference:
        webs.append(ReferenceSite(given.reference, given.suffix))
    return webs[0] if len(webs) == 1 else Joined(webs)


def _options(given: argparse.Namespace) -> ServerOptions:
    faults = dict(_pair(text, "--fault", "HOST=KIND") for text in given.fault)
    return ServerOptions(
        address=given.address,
        port=given.port,
        log_path=given.log,
        at_s=given.at,
        speed=given.speed,
        idle_s=given.idle_s,
        faults={host: Fault.parse(kind) for host, kind in faults.items()},
    )


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ConfigError(f"{option} wants {form}, not {text!r}")
    return name.lower(), value


def _announcement(server: Server, web: Web, as_json: bool) -> str:
    address, starts = f"{server.address}:{server.port}", web.start_urls()
    if as_json:
        return json.dumps({"address": address, "start_urls": starts, "epoch_s": server.epoch_s})
    more = f" (and {len(starts) - 1} more)" if len(starts) > 1 else ""
    seeds = " ".join(starts[:_SHOWN])
    return (
        f"testweb: {starts[0]}{more} on {address}\n"
        f"crawl it with: gossamer crawl {seeds} --testweb {address} --scope any --delay 0.1"
    )
