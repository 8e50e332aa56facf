"""All tests share these fixtures: a loopback server of raw bytes, pywb's interpreter, hypothesis without deadlines.

A run ends with a line that says which conformance cases and graphs it did not have.
"""

import sys
from pathlib import Path

import case_files
import hypothesis
import pytest
from raw_server import loopback as _loopback

loopback = pytest.fixture(_loopback, name="loopback")

# A loaded machine is slow, not wrong.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def pywb() -> str:
    """The interpreter of pywb's own environment: it brings an old brotli module that must not meet ours."""
    python = Path(sys.prefix) / "pywb" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs pywb: run `make setup`")
    return str(python)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if lacking := case_files.missing():
        terminalreporter.write_line(f"not here, so not tested: {lacking}; see tests/cases/README.md")
