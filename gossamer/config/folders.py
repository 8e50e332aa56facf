"""`check_folder` refuses the address of another machine where a crawl needs a directory of this one."""

import re
from pathlib import Path

from gossamer.errors import ConfigError

# A scheme of two letters or more, as C:/ is none. A Path has lost one of the two slashes.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def check_folder(name: str | Path) -> str:
    """Returns the name of a directory as it was given."""
    if _ADDRESS.match(str(name)):
        raise ConfigError(
            f"{name} is an address, and Gossamer keeps its files in directories of this machine only: "
            "name one, such as crawl or /data/crawl, and copy it elsewhere when the crawl has ended"
        )
    return str(name)
