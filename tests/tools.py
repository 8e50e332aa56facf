"""Programs that tests need and that no Python package brings. `make test` installs them (`scripts/install`).

Where one is missing its tests are skipped; in CI, where nobody reads what was skipped, they fail.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

BIN = Path(sys.executable).parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find(*names: str) -> str | None:
    """The path of a program, by the first of its names that is known: of this environment, or of the system."""
    places = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return next((found for name in names if (found := shutil.which(name, path=places))), None)


def need(*names: str) -> str:
    return find(*names) or lack(names[0])


def lack(what: str, environment: Mapping[str, str] = os.environ) -> NoReturn:
    """Ends a test that cannot run for want of something."""
    words = f"needs {what}: `make test` installs it"
    if environment.get("CI"):
        pytest.fail(words, pytrace=False)
    pytest.skip(words)
