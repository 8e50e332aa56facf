"""`make bench-index` measures an index as crawls have it: on a small one, in a moment."""

from pathlib import Path

import pytest

from benchmarks import bench_index


def test_it_measures_rounds_and_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_index, "WIDTH", 200)
    result = bench_index.measure(tmp_path / "index", 20_000, 4)
    assert len(result.update_s) == len(result.flush_cpu_s) == len(result.generate_s) == 4
    assert min(result.new) > 0
    assert result.restart_s > 0
    assert 10 < result.bytes_per_url < 60
    assert bench_index.summary([result, result])["bytes_per_url"] > 0
