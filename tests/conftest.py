"""Fixtures for all tests that speak HTTP over loopback."""

import pytest
from raw_server import loopback as _loopback

loopback = pytest.fixture(_loopback, name="loopback")
