"""This module starts a browser that reaches no network, and tells how much memory it takes.

The user root starts it in a network namespace of its own, as the user nobody, inside Chromium's own sandbox. Others
start it inside that sandbox, with a proxy that does not exist and a resolver that finds no name.
"""

import contextlib
import fcntl
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gossamer.errors import ConfigError

_NOBODY = 65534
_PREFIX, _LOCK = "gossamer-render-", "lock"
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-web-security",  # what pages may read of other origins is for people's secrets: here are none
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    "--js-flags=--max-old-space-size=512",
)


def find_browser(name: str) -> str:
    """Returns the path of the browser, or says what to install."""
    found = shutil.which(name)
    if found is None:
        raise ConfigError(
            f"crawl.render needs a browser, and there is no {name} (render.browser): apt install chromium"
        )
    try:
        import playwright.async_api  # noqa: F401
    except ImportError:
        raise ConfigError("crawl.render needs Playwright: pip install 'gossamer-crawler[render]'") from None
    return found


class Folder:
    """`Folder` is where a browser has its files. Its lock is held as long as this process lives: whoever makes the next
    folder ends the browsers of processes that were killed, and removes what they left."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        for other in self.path.parent.glob(f"{_PREFIX}*"):
            if other != self.path:
                _remove_abandoned(other)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(path: Path) -> None:
    """Removes a folder, if nobody has its lock, and ends the browser that was in it."""
    try:
        if path.is_symlink() or path.stat().st_uid != os.geteuid():
            return
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)  # one that has none is being made
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if f"{path}/".encode() in command.read_bytes():
                    os.kill(int(command.parent.name), 9)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


class Launcher:
    """`Launcher` makes the program that Playwright starts, in a folder of its own."""

    def __init__(self, browser: str, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        self._pid = folder / "pid"
        is_root = os.geteuid() == 0
        self.is_apart = is_root and _may("unshare", "--net", "true")
        self._changes_user = is_root and _may(*_AS_NOBODY, "true")
        self._has_sandbox = not is_root or self._changes_user

    def options(self) -> dict[str, Any]:
        """Returns what Playwright's `launch` needs."""
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        if self._changes_user:
            self._folder.chmod(0o711)
            os.chown(home, _NOBODY, _NOBODY)
        before = ["unshare", "--net"] if self.is_apart else []
        before += _AS_NOBODY if self._changes_user else []
        program = " ".join(shlex.quote(each) for each in [*before, self._browser])
        script = self._folder / "browser"
        script.write_text(
            f"#!/bin/sh\necho $$ > {shlex.quote(str(self._pid))}\n"
            f'exec {program} "$@" --user-data-dir={shlex.quote(str(home / "profile"))}\n'
        )
        script.chmod(0o755)
        environment = {"HOME": str(home), "PATH": os.environ.get("PATH", ""), "TMPDIR": str(home)}
        return {
            "executable_path": str(script),
            "chromium_sandbox": self._has_sandbox,
            "args": list(_FLAGS),
            "env": environment,
            "handle_sigint": False,
            "handle_sigterm": False,
            "handle_sighup": False,
        }

    def memory_mb(self) -> float:
        """Returns the memory that the browser and its children hold for themselves; 0 if it does not run."""
        return sum(_own_mb(pid) for pid in self._family())

    def kill(self) -> None:
        """Ends the browser and its children at once."""
        for pid in self._family():
            try:
                os.kill(pid, 9)
            except OSError:
                continue

    def _family(self) -> list[int]:
        try:
            first = int(self._pid.read_text())
        except (OSError, ValueError):
            return []
        children: dict[int, list[int]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(path.read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(path.parent.name))
        if os.getpid() not in _ancestors(first):
            return []  # the number has been given to somebody else
        found = [first]
        for pid in found:
            found += children.get(pid, [])
        return found


_AS_NOBODY = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--"]


def _may(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        found.append(pid)
    return found


def _own_mb(pid: int) -> float:
    """Returns the memory of a process that it shares with no other, as far as the kernel tells."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    sizes = {line.partition(":")[0]: line.split()[1] for line in lines if line.startswith(("RssAnon", "RssShmem"))}
    return sum(map(int, sizes.values())) / 1024
