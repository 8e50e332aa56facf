"""All tests share these fixtures: a loopback server of raw bytes, pywb's interpreter, hypothesis without deadlines.

A run ends with a line that says which conformance cases and graphs it did not have.
"""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import case_files
import hypothesis
import object_stores
import pytest
import tools
from raw_server import loopback as _loopback

from gossamer.testweb.running import RunningWeb

loopback = pytest.fixture(_loopback, name="loopback")

# A loaded machine is slow, not wrong.
hypothesis.settings.register_profile("patient", hypothesis.settings.get_profile("default"), deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="module")
def web(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    """The web of a module, by its SPEC."""
    with RunningWeb(request.module.SPEC, log_path=tmp_path_factory.mktemp("web") / "log") as running:
        yield running


@pytest.fixture(scope="session")
def pywb() -> str:
    """The interpreter of pywb's own environment, which has wacz, too: pywb brings an old brotli module that must not
    meet ours."""
    python = Path(sys.prefix) / "pywb" / "bin" / "python"
    if not python.exists():
        tools.lack("pywb")
    return str(python)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Self-signed, for a.test; key and certificate in one file."""
    openssl = tools.need("openssl")
    directory = tmp_path_factory.mktemp("tls")
    pem, key = directory / "a.pem", directory / "a.key"
    command = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=a.test"
    names = ["-addext", "subjectAltName=DNS:a.test", "-keyout", str(key), "-out", str(pem)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    pem.write_bytes(pem.read_bytes() + key.read_bytes())
    return pem


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if lacking := case_files.missing():
        terminalreporter.write_line(f"not here, so not tested: {lacking}; see tests/cases/README.md")


@pytest.fixture(scope="session")
def object_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], object_stores.Server]]:
    """Starts object stores when a test first asks for them, by kind, and ends them with the run."""
    with contextlib.ExitStack() as stack:
        running: dict[str, object_stores.Server] = {}

        def server(kind: str) -> object_stores.Server:
            if kind not in running:
                folder = tmp_path_factory.mktemp(kind)
                running[kind] = stack.enter_context(object_stores.STORES[kind](folder))
            return running[kind]

        yield server
