"""Files without manifests: what a crash in the middle of a merge leaves."""

import pytest

from gossamer.archive.store import Memory
from gossamer.repair.found_files import archived, labels

PARTS = {f"tables/hostmap-a0-{number:08d}.bin": bytes([number, 0, 0, 0, 0, 0, 0]) for number in (1, 2, 3)}
WHOLE = "tables/hostmap-a0-00000001-00000003-00000004.bin"


@pytest.mark.parametrize(("left", "found"), [(3, [*PARTS]), (2, [WHOLE]), (1, [WHOLE]), (0, [WHOLE])])
def test_no_entry_of_a_host_map_is_lost_with_parts_that_were_deleted(left: int, found: list[str]) -> None:
    store = Memory()
    store.put(WHOLE, b"".join(PARTS.values()))
    for name in [*PARTS][:left]:
        store.put(name, PARTS[name])
    assert archived(store, labels(store), "a0") == {"hostmap": found}
