"""Fixtures for all tests: a loopback server of raw bytes, pywb's interpreter, hypothesis without deadlines."""

import sys
from pathlib import Path

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
