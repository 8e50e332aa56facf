import errno
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gossamer.clocks import VirtualClock
from gossamer.event_log import EventLog


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_are_json_lines(tmp_path: Path) -> None:
    with EventLog(tmp_path / "logs" / "crawl.log", VirtualClock(1_750_000_000.5)) as log:
        log.event("start", pages=3, where=Path("/x"), text="ü\n")
        log.event("end")
    assert entries(tmp_path / "logs" / "crawl.log") == [
        {
            "time": "2025-06-15T15:06:40.500Z",
            "level": "info",
            "event": "start",
            "pages": 3,
            "where": "/x",
            "text": "ü\n",
        },
        {"time": "2025-06-15T15:06:40.500Z", "level": "info", "event": "end"},
    ]


def test_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "crawl.log"
    with EventLog(path, VirtualClock(), file_bytes=1000, files=3) as log:
        for number in range(200):
            log.event("visit", number=number)
    files = [path, tmp_path / "crawl.log.1", tmp_path / "crawl.log.2"]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(file.stat().st_size <= 1000 for file in files)
    numbers = [entry["number"] for file in reversed(files) for entry in entries(file)]
    assert numbers == list(range(numbers[0], 200))


def test_one_file(tmp_path: Path) -> None:
    with EventLog(tmp_path / "crawl.log", VirtualClock(), file_bytes=200, files=1) as log:
        for number in range(20):
            log.event("visit", number=number)
    assert [path.name for path in tmp_path.iterdir()] == ["crawl.log"]
    assert entries(tmp_path / "crawl.log")[-1]["number"] == 19


def test_a_log_goes_on_after_a_crash_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "crawl.log"
    path.write_text('{"event":"a"}\n{"event":"hal')
    with EventLog(path, VirtualClock()) as log:
        log.event("b")
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()[::2]] == ["a", "b"]


def test_a_full_file_is_rotated_at_opening(tmp_path: Path) -> None:
    path = tmp_path / "crawl.log"
    path.write_text("x" * 100 + "\n")
    with EventLog(path, VirtualClock(), file_bytes=120) as log:
        log.event("a")
    assert (tmp_path / "crawl.log.1").exists()
    assert [entry["event"] for entry in entries(path)] == ["a"]


def test_events_that_cannot_be_written_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(tmp_path / "crawl.log", VirtualClock())

    def full(line: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(log, "_append", full)
        log.event("a")
        log.event("b")
    log.event("c")
    log.event("d")
    log.close()
    found = entries(tmp_path / "crawl.log")
    assert [(entry["event"], entry.get("dropped")) for entry in found] == [("c", 2), ("d", None)]


def test_threads(tmp_path: Path) -> None:
    with EventLog(tmp_path / "crawl.log", VirtualClock()) as log:
        threads = [threading.Thread(target=lambda: [log.event("x") for _ in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(entries(tmp_path / "crawl.log")) == 400
