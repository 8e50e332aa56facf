"""Two lists of sites, and what a site concludes from those of others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gossamer.archive.state import Members
from gossamer.cluster.changing import versioned, with_key, with_site
from gossamer.cluster.federation_file import Federation, parsed
from gossamer.cluster.site_list import take, why_fenced, why_waiting
from gossamer.errors import ConfigError


def members(version: int, **weights: float) -> Members:
    return Members(version, weights, "ring")


HERE = "192.0.2.7:4222"


def test_a_site_learns_from_a_later_list_that_it_is_gone_or_elsewhere() -> None:
    mine, later = members(2, paris=1.0, lima=1.0), members(3, paris=1.0, lima=0.0)
    assert "version 3 of the list of sites lima is gone" in why_fenced("lima", HERE, mine, later, {"lima": ""})
    moved = why_fenced("lima", HERE, mine, later, {"lima": "192.0.2.9:4222"})
    assert "lima is at 192.0.2.9:4222 now" in moved
    assert "bring the new file here" in moved
    for theirs, addresses in (
        (later, {"lima": HERE}),
        (later, {}),  # an older Gossamer does not say
        (members(2, paris=1.0, lima=0.0), {"lima": ""}),
        (members(1, paris=1.0), {"lima": ""}),
        (None, {"lima": ""}),
    ):
        assert why_fenced("lima", HERE, mine, theirs, addresses) == ""


def test_of_two_lists_with_one_version_one_counts() -> None:
    one, other = members(2, paris=1.0, oslo=1.0, lima=1.0), members(2, paris=1.0, oslo=1.0, lima=3.0)
    assert why_waiting("paris", one, {"oslo": other}) == "", "the first site goes on"
    waiting = why_waiting("oslo", other, {"paris": one})
    assert waiting.startswith("paris follows another version 2 of the list of sites than oslo: bring one file to all")
    assert "federation.version = 3" in waiting
    assert "oslo, lima follow another" in why_waiting("paris", one, {"oslo": other, "lima": other})
    assert why_waiting("lima", other, {"paris": one, "oslo": other}) == "", "most follow it"
    assert why_waiting("lima", other, {"paris": members(1, paris=1.0), "oslo": members(3, paris=1.0)}) == ""
    assert why_waiting("paris", one, {}) == ""


TEXT = """# ours
[federation]
partitioner = "ring"
version = 4  # of the list
[sites.paris]
address = "192.0.2.7:4222"
weight = 2.0
[sites.lima]
address = "192.0.2.8:4222"

[fetch]
contact = "me@gossamer-tests.org"
"""


def test_commands_change_the_text_of_the_file_and_nothing_else_in_it(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    assert parsed(path, versioned(TEXT, 5)) == replaced(parsed(path, TEXT), version=5)
    assert parsed(path, versioned(TEXT.replace("[federation]", "[federation]  # all"), 5)).shared.version == 5
    alone = TEXT[TEXT.index("[sites.paris]") :]
    assert parsed(path, versioned(alone, 2)).shared.version == 2
    retired = parsed(path, with_key(TEXT, "paris", "weight", "0.0")).sites
    assert (retired["paris"].weight, retired["lima"].weight) == (0.0, 1.0)
    lost = parsed(path, with_key(TEXT, "lima", "gone", "true")).sites
    assert [name for name, site in lost.items() if site.gone] == ["lima"]
    more = parsed(path, with_site(TEXT, "oslo", "192.0.2.9:4222"))
    assert list(more.sites) == ["paris", "lima", "oslo"]
    assert more.config == parsed(path, TEXT).config
    for text in (TEXT, "[fetch]\n"):
        with pytest.raises(ConfigError):
            with_key(text, "rome", "gone", "true")
    with pytest.raises(ConfigError, match="already"):
        with_site(TEXT, "lima", "192.0.2.9:4222")


def replaced(federation: Federation, **keys: Any) -> Federation:
    return replace(federation, shared=replace(federation.shared, **keys))


def test_a_site_takes_the_next_list_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text(TEXT)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="its list is version 4, and not 3 any more"):
        take(path, versioned(TEXT, 5), 3)
    with pytest.raises(ConfigError, match="version 4 already"):
        take(path, versioned(with_key(TEXT, "lima", "gone", "true"), 4), 0)
    with pytest.raises(ConfigError, match="must begin with those that the crawl has had"):
        take(path, versioned(TEXT.replace("lima", "rome"), 5), 4)
    with pytest.raises(ConfigError, match="TOML"):
        take(path, "[", 4)
    assert path.read_text() == TEXT
    take(path, versioned(TEXT, 5), 4)
    take(path, versioned(TEXT, 5), 4)  # again
    assert path.read_text() == versioned(TEXT, 5)
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]
