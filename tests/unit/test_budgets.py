"""The checks of layers and budgets fail when they are violated."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the checks read."""
    for name in ("pyproject.toml", "budgets.toml"):
        shutil.copy(TOP / name, tmp_path)
    for name in ("gossamer", "experiments", "scripts"):
        shutil.copytree(TOP / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.c"))
    return tmp_path


def budgets(clone: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, clone / "scripts" / "check_budgets.py"], capture_output=True, text=True, check=False
    )


def layers(clone: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports_command as run; run()"]
    return subprocess.run([*command, "--no-cache"], cwd=clone, capture_output=True, text=True, check=False)


def test_the_tree_is_within_its_budgets(clone: Path) -> None:
    assert budgets(clone).returncode == 0


def test_a_package_that_grows_is_named(clone: Path) -> None:
    (clone / "gossamer" / "web" / "more.py").write_text("x = 1\n" * 5_000)
    found = budgets(clone)
    assert found.returncode == 1
    assert "gossamer/web has" in found.stderr
    assert "the core has" in found.stderr


def test_a_package_without_a_budget_is_named(clone: Path) -> None:
    (clone / "gossamer" / "misc").mkdir()
    (clone / "gossamer" / "misc" / "__init__.py").write_text("")
    assert "gossamer/misc has no budget" in budgets(clone).stderr


def test_one_module_too_many_is_named(clone: Path) -> None:
    for number in range(30):
        (clone / "gossamer" / "crawl" / f"more{number}.py").write_text("")
    assert "gossamer/crawl has" in budgets(clone).stderr


def test_an_import_that_points_upwards_is_named(clone: Path) -> None:
    assert layers(clone).returncode == 0
    with (clone / "gossamer" / "web" / "url.py").open("a") as file:
        file.write("\n\ndef _up() -> None:\n    from gossamer.cluster import plan  # noqa\n")
    found = layers(clone)
    assert found.returncode == 1
    assert "gossamer.web.url -> gossamer.cluster.plan" in found.stdout
