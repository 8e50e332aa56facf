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


def check_mark(path: Path, read_only: bool = False) -> dict[str, Any]:
    """The mark of an archive that can be used; otherwise an error that says why not. To be read only, it may have been
    written by an earlier version."""
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
        layout = None
    if not isinstance(layout, int) or layout < 1:
        raise ArchiveError(
            f"{path / MARK} is damaged: restore it from a copy, or let `gossamer repair {path} --apply` write it anew; "
            "or choose another --dir"
        ) from None
    if layout > LAYOUT:
        raise ArchiveVersion(
            f"{path} has layout {layout}, this Gossamer knows layouts up to {LAYOUT}; "
            "use the version that wrote it, or choose another --dir"
        )
    if layout < LAYOUT and not read_only:
        raise ArchiveVersion(
            f"{path} has layout {layout}, this Gossamer writes layout {LAYOUT}: it can be read (query, status, export, "
            "versions, show), but not crawled on; use the version that wrote it, or choose another --dir"
        )
    if not is_trusted(path):
        raise ArchiveError(
            f"{path} was not synced yet (archive.unsynced) when the machine went down: remove it, and begin again"
        )
    return mark
