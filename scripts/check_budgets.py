"""This check fails when a package has grown beyond its budget of lines in `budgets.toml`.

A new feature says what it takes away. Whoever raises a budget does so in a commit that gives the reason.
"""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def lines(folder: Path) -> int:
    """Counts the lines of all modules in a folder, or of the modules directly in the package itself."""
    files = folder.glob("*.py") if folder == TOP / "gossamer" else folder.rglob("*.py*")
    return sum(path.read_bytes().count(b"\n") for path in files if path.suffix in (".py", ".pyx"))


def modules(folder: Path) -> int:
    return sum(1 for path in folder.glob("*.py") if path.name != "__init__.py")


def complaints() -> Iterator[str]:
    budgets = tomllib.loads((TOP / "budgets.toml").read_text("utf-8"))
    for name, most in budgets["lines"].items():
        if (found := lines(TOP / name)) > most:
            yield f"{name} has {found:,} lines, its budget is {most:,}"
    for name, names in budgets["together"].items():
        if (found := sum(lines(TOP / each) for each in names["folders"])) > names["most"]:
            yield f"{name} has {found:,} lines in all, its budget is {names['most']:,}"
    for name, most in budgets["modules"].items():
        if (found := modules(TOP / name)) > most:
            yield f"{name} has {found} modules, its budget is {most}"
    known = {*budgets["lines"]}
    for folder in sorted((TOP / "gossamer").iterdir()):
        if any(folder.glob("*.py")) and f"gossamer/{folder.name}" not in known:
            yield f"gossamer/{folder.name} has no budget: give it one in budgets.toml"


def main() -> int:
    found = list(complaints())
    for complaint in found:
        print(f"budget: {complaint}; take something away, or raise the budget with a reason", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
