"""A job on a private Ray cluster of this machine; the whole contract is in tests/contract/test_engine.py (slow)."""

from pathlib import Path
from queue import Queue

import pytest

from gossamer.cluster.engine import Job
from gossamer.cluster.ray_engine import RayEngine

PATIENCE_S = 120.0
ECHO = "import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1], flush=True)\n"


@pytest.mark.timeout(300)
def test_a_job_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job_echo.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lines: Queue[bytes | None] = Queue()
    handle = RayEngine().start(Job("echo", "job_echo", task=b"ab"), lines.put)
    assert lines.get(timeout=PATIENCE_S) == b"ba"
    handle.send(b"cd")
    assert lines.get(timeout=PATIENCE_S) == b"dc"
    assert handle.kill() == "signal 9"
    assert lines.get(timeout=PATIENCE_S) is None
    handle.close()
