"""`gossamer lab agents`, each part in small: real crawls and a real nats-server, results in every form."""

import json
from pathlib import Path

import pytest

from experiments.harness import main

SMALL = {
    "scaling": ["--agents", "1,2", "--urls", "600", "--hosts", "60", "--width", "100", "--rounds", "1", "--delay",
                "0.1", "--latency-ms", "20"],
    "latency": ["--agents", "1,3", "--rates", "20", "--seconds", "0.5", "--known", "200"],
    "modes": ["--agents", "1,2", "--pages", "200", "--starts", "2", "--seed", "1"],
}  # fmt: skip


@pytest.mark.parametrize(
    "part", ["latency", *(pytest.param(part, marks=pytest.mark.slow) for part in ("modes", "scaling"))]
)
def test_each_part(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "--part", part, *SMALL[part], "--json", "--out", str(tmp_path)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == (4 if part == "modes" else 2)
    for suffix in ("json", "parquet"):
        assert (tmp_path / f"agents-{part}.{suffix}").exists()
    assert list(tmp_path.glob("*.png"))
    check = {"scaling": check_scaling, "latency": check_latency, "modes": check_modes}[part]
    check(rows)


def check_scaling(rows: list[dict[str, float]]) -> None:
    assert [row["agents"] for row in rows] == [1, 2]
    for row in rows:
        assert row["pages_per_s"] > 0
        assert 0 <= row["inject_s"] < float("inf")
        assert row["balance"] > 0, "an agent had nothing to do"
        assert row["cpu_ms"] == pytest.approx(1000 * row["crawler_cores"] / row["pages_per_s"])
        assert row["cpu_ms"] > 0


def check_latency(rows: list[dict[str, float]]) -> None:
    for row in rows:
        assert row["links"] > 0
        assert row["lost"] == 0
        assert 0 < row["look_up_ms"] < row["known_ms"]
        assert row["publish_ms"] < row["known_ms"]


def check_modes(rows: list[dict[str, object]]) -> None:
    alone, exchange, firewall, crossing = rows
    assert alone["coverage"] == exchange["coverage"] == crossing["coverage"] == 1.0
    assert float(str(firewall["coverage"])) < 1.0
    assert alone["overlap"] == exchange["overlap"] == firewall["overlap"] == 0.0
    assert float(str(crossing["overlap"])) > 0.0
    assert float(str(exchange["sent_urls"])) > 0.0
    assert firewall["sent_urls"] == crossing["sent_urls"] == 0.0
