"""An archive's mark, the file that makes a directory one: its layout, and whether what is in it can be trusted."""

import json
from pathlib import Path
from typing import Any

from gossamer.errors import ArchiveError, ArchiveVersion

LAYOUT = 3
MARK = "gossamer.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """Another one after the machine was down."""
    return _BOOT.read_text().strip()


def read_mark(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / MARK).read_bytes())
    return found


def is_trusted(path: Path) -> bool:
    """Whether all that was written can be there: it was synced, or the machine has not been down since."""
    try:
        mark = read_mark(path)
        return "boot" not in mark or bool(mark["boot"] == this_boot())
    except (OSError, ValueError, TypeError):
        return False


def holds_scans(path: Path) -> bool:
    """Whether it is a directory of scans (`gossamer scan`), and not of a crawl."""
    return (path / "scans").is_dir() and not (path / MARK).exists()


def is_federation(path: Path) -> bool:
    """Whether it is the file of a federation, which stands for the directories of its sites."""
    return path.suffix == ".toml" and path.is_file()


def check_mark(path: Path) -> dict[str, Any]:
    """The mark of an archive that can be used; otherwise an error that says why not."""
    try:
        mark = read_mark(path)
        layout = mark["layout"]
    except (FileNotFoundError, NotADirectoryError):
        if holds_scans(path):
            raise ArchiveError(
                f"{path} holds scans, not a crawl: `gossamer query {path} tables` says what can be asked, "
                "`gossamer plan` what the next one will take"
            ) from None
        if path.suffix == ".toml" and not path.exists():  # the file of a federation was meant
            raise ArchiveError(f"there is no file {path}") from None
        raise ArchiveError(f"{path} holds no crawl; `gossamer crawl --dir {path} URL` starts one") from None
    except (ValueError, KeyError, TypeError):
        raise ArchiveError(f"{path / MARK} is damaged; restore it or choose another --dir") from None
    if layout != LAYOUT:
        raise ArchiveVersion(
            f"{path} has layout {layout}, this Gossamer reads layout {LAYOUT}; "
            "use the version that wrote it, or choose another --dir"
        )
    if not is_trusted(path):
        raise ArchiveError(
            f"{path} was not synced yet (archive.unsynced) when the machine went down: remove it, and begin again"
        )
    return mark
