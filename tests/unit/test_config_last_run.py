"""What a run was told comes back the same."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.config import Config
from gossamer.config.last_run import FILE, options, recall, remember
from gossamer.errors import ConfigError

TOLD: dict[str, Any] = {
    "crawl.scope": "any",
    "crawl.exclude": ["*.pdf", '*"\\*'],
    "polite.delay_s": 0.5,
    "polite.robots": False,
    "fetch.contact": "me+you@y.test",
    "crawl.topic": "me & you <x@y.test>",
    "resolve.map": {"*": "127.0.0.1:80", "a b.test": "127.0.0.2"},
    "host.a.test": {"delay_s": 1.0, "pages": 3},
    "host.*.b.test": {"burst": 7},
}


def test_options_come_back(tmp_path: Path) -> None:
    assert recall(tmp_path) is None
    remember(tmp_path, Config().replace(TOLD))
    assert recall(tmp_path) == Config().replace(TOLD)
    remember(tmp_path, Config())
    assert recall(tmp_path) == Config()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_what_concerns_one_run_is_forgotten(tmp_path: Path) -> None:
    once = {"crawl.pages": 5, "crawl.rounds": 6, "crawl.minutes": 7.0, "crawl.seeds": ["a"], "crawl.agent": "b"}
    assert options(Config().replace({**once, **TOLD})).keys() == TOLD.keys()
    remember(tmp_path, Config().replace(once))
    assert recall(tmp_path) == Config()


@given(st.text(st.characters(exclude_categories=("Cc", "Cs"))), st.dictionaries(st.text(), st.text()))
def test_any_text(tmp_path_factory: pytest.TempPathFactory, text: str, table: dict[str, str]) -> None:
    directory = tmp_path_factory.mktemp("any")
    told = Config().replace({"crawl.topic": text, "resolve.map": table})
    remember(directory, told)
    assert recall(directory) == told


def test_a_spoilt_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[crawl]\nwidht = 3")
    with pytest.raises(ConfigError, match=rf"{FILE}: unknown key crawl.widht; did you mean width.*remove that file"):
        recall(tmp_path)
