"""A real browser for tests: Chromium without a window, driven through the pipe of its DevTools protocol."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tools

PATIENCE_S = 60.0
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page. Requests and complaints of the console are kept as they come."""

    def __init__(self, profile: Path) -> None:
        reads, self._out = os.pipe()
        self._in, writes = os.pipe()

        def wired() -> None:  # the protocol is spoken on descriptors 3 and 4
            kept = os.dup(reads), os.dup(writes)
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        self.process = subprocess.Popen(
            [tools.need(*tools.BROWSERS), *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            close_fds=False, preexec_fn=wired, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        self._buffer, self._number = b"", 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = None
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **given: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": given}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self._number:
                assert "error" not in found, found["error"]
                return found["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._in, 1 << 16)
            assert data, "the browser has ended"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        about = found.get("params", {})
        if found.get("method") == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        if found.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"]))
        if found.get("method") == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        if found.get("method") == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(about["args"]))
        return found

    def size(self, width: int, height: int, dark: bool = False, phone: bool = False) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """What a script gives, as soon as that is something."""
        end_s = time.monotonic() + PATIENCE_S
        while not (found := self.evaluate(script)):
            assert time.monotonic() < end_s, f"never: {script}"
            time.sleep(0.05)
        return found

    def picture(self, path: Path, whole: bool = True) -> None:
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._in)
        os.close(self._out)


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    opened = Browser(profile)
    try:
        yield opened
    finally:
        opened.close()
