"""Archives as earlier versions left them: real ones that are kept here, and manifests written as layout 3 had them."""

import json
import tarfile
from pathlib import Path
from typing import Any

import msgspec

from gossamer.archive.manifest import Delta, Snapshot, file_names, read_document
from gossamer.archive.state import AgentState, encoded
from gossamer.archive.store import Store
from gossamer.archive.zones import in_ranges

KEPT = Path(__file__).parent / "archives"
NAMES = {"reported": "said", "received": "heard", "gone": "without", "prices": "carbon"}


def unpacked(name: str, folder: Path, layout: int = 3) -> Path:
    """One of the crawls that the last version of a layout made of a web of four hosts with two pages each, all linked.
    `alone` has five visits and three pages left. In layout 3, `agents` is the whole of it by two agents, and `north`
    one of two sites. In layout 4, `agents` has five visits by two agents, and three pages left; in `moving`, 72 zones
    of its second agent are on their way to the first one, with four of the pages."""
    with tarfile.open(KEPT / f"layout-{layout}.tar.xz") as packed:
        members = [member for member in packed.getmembers() if member.name.split("/")[0] == name]
        packed.extractall(folder, members, filter="data")
    return folder / name


def rewritten(store: Store, agent: str, drop: tuple[str, ...] = ()) -> None:
    """All manifests of an agent as the dictionaries that they were, without checksums of themselves."""
    before = AgentState()
    for name in file_names(store, agent):
        found = read_document(store, name)
        assert isinstance(found, Snapshot | Delta)
        body = {field: getattr(found, field) for field in found.__struct_fields__ if field != "ranges"}
        zones = found.zones if isinstance(found, Snapshot) else found.zones and in_ranges(found.zones)
        body["zones"] = None if zones is None else sorted({zone % 256 for zone in zones})
        if zones is None:
            del body["zones"]
        changed = {field for field in AgentState.__struct_fields__ if _get(found.state, field) != _get(before, field)}
        body["state"] = {NAMES.get(field, field): _value(field, found.state) for field in sorted(changed)}
        body["outbox"] = [[n, size, *_row(message)] for n, size, message in found.outbox]
        before = found.state
        store.put(name, encoded({field: value for field, value in body.items() if field not in drop}))


def _get(state: AgentState, field: str) -> Any:
    return getattr(state, field)


def _value(field: str, state: AgentState) -> Any:
    found = msgspec.to_builtins(_get(state, field))
    if field == "counters":
        refused = {f"refused {name}": times for name, times in found.pop("refused", {}).items()}
        return {**found.pop("outcomes", {}), **refused, **found}
    if field == "prices":
        return {**found.pop("groups", {}), **found}
    return found


def _row(message: Any) -> list[Any]:
    return [
        message.sender,
        message.number,
        message.part,
        message.to,
        message.kind,
        message.parts,
        message.previous,
        message.protocol,
    ]


def states(directory: Path) -> dict[str, dict[str, Any]]:
    """What manifests of layout 3 say, by agent, without any code of the package."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(directory.glob("manifest/*/*.json")):
        state = found.setdefault(path.parent.name, {})
        state |= json.loads(path.read_bytes())["state"]
    return found
