"""`gossamer watch` shows a crawl in the browser, and serves its metrics, its health and events."""

import argparse
import contextlib
import ipaddress
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.cli import options
from gossamer.clocks import RealClock
from gossamer.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

    from gossamer.watch.server import Server

LISTEN = "127.0.0.1:9464"
_TOKEN = "GOSSAMER_WATCH_TOKEN"
_TOKEN_CHARACTERS = 16
_PARENT_S = 1.0


def watch_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_default_crawl(parser)
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="HOST:PORT",
        help=f"where to serve it (default: {LISTEN}); port 0: a free one",
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE",
        help=f"a file with the token that everybody must know who looks; or set {_TOKEN}. Needed to listen elsewhere"
        " than on this machine's own addresses",
    )  # fmt: skip
    parser.add_argument("--with-process", type=int, metavar="PID", help=argparse.SUPPRESS)  # ends when that one does


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Adds --watch to a command that crawls."""
    text = f"also show it in the browser: run `gossamer watch` while it crawls (default: {LISTEN})"
    parser.add_argument("--watch", nargs="?", const=LISTEN, metavar="HOST:PORT", help=text)


@contextlib.contextmanager
def watching(listen: str | None, crawl: object) -> Iterator[None]:
    """Runs `gossamer watch` beside a crawl, as a process of its own that ends with it."""
    if listen is None:
        yield
        return
    _check_reach(*_address(listen)[:1], _token(None))
    line = [
        sys.executable,
        "-m",
        "gossamer",
        "watch",
        str(crawl),
        "--listen",
        listen,
        "--with-process",
        str(os.getpid()),
    ]
    # A session of its own: Ctrl-C is for the crawl, which still has a round to commit.
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def watch(arguments: argparse.Namespace) -> int:
    host, port = _address(arguments.listen)
    token = _token(arguments.token_file)
    _check_reach(host, token)
    import asyncio  # here and below: `gossamer crawl` has --watch, and starts without it

    from gossamer.watch.observer import Observer
    from gossamer.watch.server import Server

    with contextlib.closing(Observer(arguments.dir)) as observer:
        if arguments.with_process is None:  # else it begins now
            observer.check()
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(_serve(Server(observer, RealClock(), token), host, port, arguments.with_process))
    return 0


async def _serve(server: "Server", host: str, port: int, parent: int | None) -> None:
    import asyncio

    serving = asyncio.create_task(server.serve(host, port, _announce))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    ending = asyncio.create_task(_end_with(parent, serving)) if parent is not None else None
    try:
        await serving
    except OSError as error:
        free = f"--listen {host}:0 takes a free port"
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}; {free}") from None
    finally:
        if ending is not None:
            ending.cancel()


def _announce(host: str, port: int, has_token: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    print(f"watch: http://{shown}:{port}/{'?token=...' if has_token else ''}", file=sys.stderr, flush=True)


def _check_reach(host: str, token: str) -> None:
    if not token and not _is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from elsewhere: write a token of {_TOKEN_CHARACTERS} characters or more into a "
            f"file, and give --token-file FILE (or set {_TOKEN}); or listen on 127.0.0.1, and reach it through ssh -L"
        )


async def _end_with(parent: int, serving: "asyncio.Task[None]") -> None:
    """Ends with the process that started us, however that ends."""
    import asyncio

    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_S)
    serving.cancel()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"--listen {text}: write HOST:PORT, such as {LISTEN}")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(file: Path | None) -> str:
    found = file.read_text("utf-8").strip() if file else os.environ.get(_TOKEN, "").strip()
    if (file or found) and not re.fullmatch(rf"[A-Za-z0-9._~-]{{{_TOKEN_CHARACTERS},}}", found):
        raise ConfigError(
            f"the token of gossamer watch must have {_TOKEN_CHARACTERS} characters or more, letters and digits; "
            "`openssl rand -hex 16` makes one"
        )
    return found
