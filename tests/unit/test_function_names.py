"""A function has one name, however its file is spelled; a file that an import would not find keeps its path."""

from pathlib import Path

import pytest

from gossamer.functions.loading import canonical, is_same


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("work/shop.py", "work/json.py", "work/numpy.py", "work/lib/shop.py", "elsewhere/shop.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def test_a_file_of_this_directory_goes_by_its_module(here: Path) -> None:
    for place in ("shop", "shop.py", "./shop.py", "lib/../shop.py", "../work/shop.py", f"{here}/work/shop.py"):
        assert canonical(f"{place}:product") == "shop:product"


@pytest.mark.parametrize("name", ["json.py:f", "numpy.py:f", "lib/shop.py:f", "pkg.shop:f", "missing.py:f"])
def test_other_names_stay(name: str) -> None:
    """An import of `json` or `numpy` would find another file."""
    assert canonical(name) == name


def test_a_file_elsewhere_goes_by_its_whole_path(here: Path) -> None:
    assert canonical("../elsewhere/shop.py:f") == f"{here}/elsewhere/shop.py:f"
    assert canonical("./lib/shop.py:f") == canonical(f"{here}/work/lib/shop.py:f") == "lib/shop.py:f"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("lib/shop.py:f", "/work/lib/shop.py:f", True),
        ("/work/lib/shop.py:f", "work/lib/shop.py:f", True),
        ("lib/shop.py:f", "/work/lib/shop.py:g", False),
        ("lib/shop.py:f", "/work/mylib/shop.py:f", False),
        ("/lib/shop.py:f", "/work/lib/shop.py:f", False),
        ("shop:f", "/work/shop.py:f", False),
        ("shop:f", "shop:f", True),
    ],
)
def test_the_path_from_one_directory_is_the_end_of_another(one: str, other: str, expected: bool) -> None:
    assert is_same(one, other) is is_same(other, one) is expected
