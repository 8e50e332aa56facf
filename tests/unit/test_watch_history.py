from typing import Any

import numpy as np
import pyarrow as pa

from gossamer.watch import history
from gossamer.watch.history import COLUMNS, History, Series

DEFAULTS: dict[str, Any] = {
    "url": "http://a.test/", "host": "a.test", "round": 1, "time": 1_000_000, "outcome": "ok", "http_status": 200,
    "reason": "", "title": "A", "wire_bytes": 100, "elapsed_s": 0.5, "is_robots": False, "country": "", "energy_j": 0.0,
    "carbon_g": 0.0, "kind": "page", "key": 1, "width": None, "height": None, "body_bytes": 100, "warc": "",
    "warc_offset": 0, "warc_bytes": 0, "is_revisit": False,
}  # fmt: skip


def rows(*given: dict[str, Any]) -> pa.Table:
    full = [{**DEFAULTS, **each} for each in given]
    columns = {name: pa.array([row[name] for row in full]) for name in COLUMNS}
    columns["time"] = pa.array([int(1000 * row["time"]) for row in full]).cast(pa.timestamp("ms", "UTC"))
    for name in ("outcome", "country"):
        columns[name] = columns[name].dictionary_encode()
    return pa.table(columns)


def added(series: Series, *times: int) -> Series:
    for time in times:
        series.add(np.array([time]), np.array([1]), np.array([0]), np.array([10.0]))
    return series


def test_a_series_has_a_rate_for_every_span_also_for_those_without_a_visit() -> None:
    found = added(Series(width_s=2), 100, 101, 106).as_dict()
    assert found["t"] == [100, 102, 104, 106]
    assert found["pages"] == [1.0, 0.0, 0.0, 0.5]
    assert found["bytes"] == [10.0, 0.0, 0.0, 5.0]


def test_a_long_series_becomes_coarser_and_loses_no_page() -> None:
    series = added(Series(points=10), *range(1000, 1100, 3))
    found = series.as_dict()
    assert len(found["t"]) <= 11
    assert round(sum(found["pages"]) * found["width_s"]) == len(range(1000, 1100, 3))


def test_a_crawl_that_went_on_years_later_still_has_a_bounded_series() -> None:
    assert len(added(Series(), 0, 10 * 365 * 86400).as_dict()["t"]) <= 601


def test_the_recent_series_forgets_what_is_old() -> None:
    series = added(Series(2, 5, is_recent=True), 100, 200, 208)
    assert series.as_dict()["t"] == [200, 202, 204, 206, 208]


def test_the_tail_of_a_series_is_its_end() -> None:
    series = added(Series(), *range(50))
    assert series.as_dict(tail=3)["t"] == [47, 48, 49]


def test_robots_txt_is_no_page() -> None:
    seen = History()
    seen.add(rows({"is_robots": True, "url": "http://a.test/robots.txt"}))
    assert seen.whole.as_dict()["t"] == []
    assert seen.pages() == []


def test_requisites_are_bytes_and_no_pages() -> None:
    seen = History()
    seen.add(rows({}, {"kind": "requisite", "outcome": "gone", "wire_bytes": 900}, {"kind": None, "wire_bytes": 0}))
    found = seen.whole.as_dict()
    assert (found["pages"], found["trouble"], found["bytes"]) == ([2.0], [0.0], [1000.0])
    assert len(seen.pages()) == 2  # an archive of an earlier version has no kinds: all are pages
    assert (seen.hosts()["biggest"][0]["visits"], seen.hosts()["biggest"][0]["bytes"]) == (2, 1000)
    assert seen.reasons("gone") == []


def test_hosts_stand_out_by_bytes_and_by_time() -> None:
    seen = History()
    seen.add(rows(*[{"host": "big.test", "wire_bytes": 5000}] * 3, *[{"host": "slow.test", "elapsed_s": 9.0}] * 3))
    assert seen.hosts()["biggest"][0]["host"] == "big.test"
    assert seen.hosts()["biggest"][0]["bytes"] == 15000
    assert seen.hosts()["slowest"][0] == {
        "host": "slow.test", "visits": 3, "trouble": 0, "bytes": 300, "mean_s": 9.0
    }  # fmt: skip


def test_memory_for_hosts_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(history, "_HOSTS", 10)
    seen = History()
    seen.add(rows(*[{"host": "often.test"}] * 3, *({"host": f"h{i}.test"} for i in range(50))))
    assert seen.forgotten_hosts == 46
    assert seen.hosts()["biggest"][0]["host"] == "often.test"


def test_trouble_has_its_reasons_and_an_example() -> None:
    seen = History()
    seen.add(rows(*[{"outcome": "timeout", "reason": "no byte for 10 s"}] * 2, {"outcome": "gone", "http_status": 404}))
    assert seen.reasons("timeout") == [{"reason": "no byte for 10 s", "times": 2, "url": "http://a.test/"}]
    assert seen.reasons("gone")[0]["reason"] == "HTTP 404"
    assert seen.reasons("ok") == []


def test_reasons_are_bounded_however_many_a_hostile_server_invents() -> None:
    seen = History()
    seen.add(rows(*({"outcome": "broken", "reason": f"reason {i}"} for i in range(1000))))
    assert len(seen._reasons["broken"]) <= 200
    assert len(seen._examples) <= 200


def test_carbon_is_summed_by_hour_and_place() -> None:
    seen = History()
    seen.add(rows(*({"time": 3600 * i, "country": "FR", "carbon_g": 0.5} for i in (10, 10, 11)), {"carbon_g": 0.25}))
    found = seen.carbon()
    assert found["places"]["FR"][:2] == [1.0, 0.5]
    assert found["places"]["unknown"][-1] == 0.25


def test_the_last_pages_are_the_newest_and_their_text_is_cut() -> None:
    seen = History()
    seen.add(rows({"time": 5, "title": "later"}, {"time": 4, "title": "x" * 5000}))
    assert [len(page["title"]) for page in seen.pages()] == [5, 300]
