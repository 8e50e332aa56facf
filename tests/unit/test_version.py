"""The version stands in two places, which say the same."""

import tomllib
from pathlib import Path

from gossamer import __version__

TOP = Path(__file__).resolve().parents[2]


def test_the_package_and_its_metadata_have_the_same_version() -> None:
    assert tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]["version"] == __version__
