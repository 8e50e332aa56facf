"""This module reads manifests of layouts 3 and 4 (`mark` refuses those before) as if they were of layout 5.

Up to layout 4 there were 256 zones, and manifests listed them. Up to layout 3 the state was a dictionary, of which a
delta had the keys that changed; counters of all kinds were in one; and the messages of the outbox were flat lists.
"""

from collections.abc import Mapping
from typing import Any

from gossamer.archive.state import AgentState, name_as_text
from gossamer.archive.zones import as_ranges, of_earlier

_FULL = {"agent", "number", "epoch", "time_s", "zones", "files", "marks", "sent", "state", "outbox", "applied"}
_LATER = {"sums", "gone", "added", "removed"}  # of fields that a manifest may have, those that came after the first
_RENAMED = {"said": "reported", "heard": "received", "without": "gone", "carbon": "prices"}
_COUNTERS = ("visits", "rounds", "deferred", "wire_bytes", "known", "hosts", "frontier")
_REFUSED = "refused "  # began the names of counters of links
FOURTH = (b'{"format":"full-4"', b'{"format":"delta-4"')  # how manifests of layout 4 begin


def of_fourth(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a manifest of layout 4 as layout 5 has it."""
    return {**body, **_zones(body), "format": body["format"].replace("4", "5")}


def _zones(body: Mapping[str, Any]) -> dict[str, str]:
    return {"zones": as_ranges(of_earlier(body["zones"]))} if "zones" in body else {}


def renamed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a manifest's fields as they are called, and arranged, now."""
    if not body.keys() <= _FULL | _LATER or ("files" not in body and "added" not in body):
        raise ValueError("it is not a manifest")
    state = {_RENAMED.get(name, name): value for name, value in body["state"].items()}
    state = {name: value for name, value in state.items() if name in AgentState.__struct_fields__}
    if "counters" in state:
        state["counters"] = _counters(state["counters"])
    if "seed_files" in state:
        state["seed_files"] = {name_as_text(name): offset for name, offset in state["seed_files"].items()}
    if prices := state.get("prices"):
        groups = {name: places for name, places in prices.items() if name not in ("began_s", "day")}
        state["prices"] = {"began_s": prices.get("began_s"), "day": prices.get("day", 0), "groups": groups}
    return {**body, **_zones(body), "state": state, "outbox": [_letter(*row) for row in body["outbox"]]}


def _counters(flat: Mapping[str, int]) -> dict[str, Any]:
    refused = {name.removeprefix(_REFUSED): times for name, times in flat.items() if name.startswith(_REFUSED)}
    outcomes = {name: n for name, n in flat.items() if name not in _COUNTERS and not name.startswith(_REFUSED)}
    known = {name: flat[name] for name in _COUNTERS if name in flat}
    return {**known, "outcomes": outcomes, "refused": refused}


def _letter(
    name: str, size: int, sender: str, number: int, part: int, to: str, kind: str, parts: int, previous: int, *more: int
) -> list[Any]:
    """Makes a message; those of the first protocol have no version."""
    return [name, size, [sender, number, part, to, "", kind, parts, previous, *(more or [1])]]
