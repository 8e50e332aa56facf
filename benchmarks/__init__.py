"""What Gossamer costs, as ratios against a peer or a limit measured in the same run; here, how it is written down."""

import os
import re
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("RESULTS.md")


def machine() -> str:
    """Where, what and when: figures mean nothing without."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    gib = int(memory[1]) / 2**20 if memory else 0
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{cpu[1] if cpu else 'unknown CPU'}, {os.cpu_count()} cores, {gib:.0f} GiB; commit {commit}; {day}"


def table(rows: list[list[str]]) -> str:
    """Markdown that also reads well on a terminal: the first row is the head, the first column text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = row[0].ljust(widths[0])
        lines.append(f"| {' | '.join(cells)} |")
    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def write_section(name: str, text: str) -> None:
    """Replaces one section of RESULTS.md; the others belong to other benchmarks."""
    before = RESULTS.read_text() if RESULTS.exists() else "# Results\n"
    section = f"## {name}\n\n{text.strip()}\n\n"
    found = re.search(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", before, re.MULTILINE | re.DOTALL)
    if found:
        after = before[: found.start()] + section + before[found.end() :]
    else:
        after = f"{before.rstrip()}\n\n{section}"
    RESULTS.write_text(f"{after.rstrip()}\n")
