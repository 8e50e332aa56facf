"""The mark is the file that makes a directory an archive: its layout and its writer."""

from pathlib import Path

import msgspec

from gossamer.errors import ArchiveError, ArchiveVersion

LAYOUT = 5
MIGRATED = 3  # the first layout that can be read, and that `gossamer migrate` brings up to date
MARK = "gossamer.json"
SCRATCH = "tmp/"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_READERS = "query, status, export, versions, show, verify"


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Later layouts may add fields: only these must be the same in all of them."""

    layout: int
    gossamer: str = ""  # the version that made it, or brought it up to date; before layout 4 none is recorded
    created: float = 0.0
    migrating: bool = False  # some manifests may still be of the layout that it had
    repaired: float = 0.0  # when; caches of an archive with another mark are emptied, as files may have changed


def this_boot() -> str:
    """Returns an identifier that changes when the machine was down."""
    return _BOOT.read_text().strip()


def shield(path: Path, name: str) -> None:
    """Makes a file that will be `name`, if that may have cookies in it, before it is written: for its owner only."""
    if "cookies-" in name or name.endswith(".zones"):
        path.touch(0o600)


def holds_scans(path: Path) -> bool:
    """Returns whether it is a directory of scans (`gossamer scan`), and not of a crawl."""
    return (path / "scans").is_dir() and not (path / MARK).exists()


def is_federation(path: Path) -> bool:
    """Returns whether it is the file of a federation, which stands for the directories of its sites."""
    return path.suffix == ".toml" and path.is_file()


def check_mark(path: Path, read_only: bool = False) -> Mark:
    """Returns the mark of an archive that can be used; otherwise raises an error that explains why not. To be read
    only, it may have been written by an earlier version."""
    return judged(_known_mark(path), path, read_only)


def decode_mark(data: bytes) -> Mark | None:
    """Returns the mark, None if it cannot be read."""
    try:
        return msgspec.json.decode(data, type=Mark)
    except msgspec.MsgspecError:
        return None


def judged(mark: Mark | None, path: Path | str, read_only: bool = False) -> Mark:
    """Returns the mark of the archive at `path` if its layout can be used."""
    mark = judged_to_migrate(mark, path)
    if (mark.layout < LAYOUT or mark.migrating) and not read_only:
        why = f"has layout {mark.layout}, of an earlier Gossamer" if mark.layout < LAYOUT else "is half migrated"
        raise ArchiveVersion(
            f"{path} {why}: `gossamer migrate {path}` brings it up to date; until then it can be read ({_READERS})"
        )
    return mark


def check_migrates(path: Path) -> Mark:
    """Returns the mark of an archive that is up to date or can be brought there."""
    return judged_to_migrate(_known_mark(path), path)


def judged_to_migrate(mark: Mark | None, path: Path | str) -> Mark:
    """Returns the mark if its layout is this one, or one that can be migrated."""
    if mark is None or mark.layout < 1:
        raise ArchiveError(
            f"{path}/{MARK} is damaged: restore it from a copy, or let `gossamer repair {path} --apply` write it anew; "
            "or choose another --dir"
        )
    if MIGRATED <= mark.layout <= LAYOUT:
        return mark
    is_later = mark.layout > LAYOUT
    by = f"Gossamer {mark.gossamer}" if mark.gossamer else f"{'a later' if is_later else 'an earlier'} Gossamer"
    known = f"up to {LAYOUT}" if is_later else f"from {MIGRATED} on"
    raise ArchiveVersion(
        f"{path} has layout {mark.layout}, written by {by}; this Gossamer knows layouts {known}: use the version that "
        "wrote it, or choose another --dir"
    )


def _known_mark(path: Path) -> Mark | None:
    """Returns the mark of a directory, None if it is damaged; an error says what else is there if there is none."""
    try:
        return decode_mark((path / MARK).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if holds_scans(path):
            raise ArchiveError(
                f"{path} holds scans, not a crawl: `gossamer query {path} tables` says what can be asked, "
                "`gossamer plan` what the next one will take"
            ) from None
        if path.suffix == ".toml" and not path.exists():  # the file of a federation was meant
            raise ArchiveError(f"there is no file {path}") from None
        raise no_crawl(path) from None


def no_crawl(path: Path | str) -> ArchiveError:
    return ArchiveError(f"{path} holds no crawl; `gossamer crawl --dir {path} URL` starts one")
