"""Every type that DuckDB has, in every format: as its own text, or as a number, and never as something else."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gossamer.archive import query
from gossamer.errors import QueryError
from gossamer.watch.rows import answer

SECONDS = "INTERVAL '51:18:42'"
LONG = "INTERVAL '1 year 2 months 3 days 4 hours 5.5 seconds'"
UUID = "550e8400-e29b-41d4-a716-446655440000"


def written(expression: str, out: str, at: Path) -> Path:
    file = at / f"answer.{out}"
    sql = f"SELECT {expression} AS v"
    assert answer(lambda work: work(query.confined(lambda _: [], [])), (), sql, out, file) == 1
    return file


# What SQL says, and what the table, CSV and JSON say.
VALUES = [
    (SECONDS, "51:18:42", "51:18:42", "51:18:42"),
    (LONG, *["1 year 2 months 3 days 04:00:05.5"] * 3),
    ("INTERVAL '-3 days'", *["-3 days"] * 3),
    ("DATE '2026-11-16'::TIMESTAMP - TIMESTAMP '2026-11-13 01:00:00'", *["2 days 23:00:00"] * 3),
    (f"[{SECONDS}]", '["51:18:42"]', '"[""51:18:42""]"', ["51:18:42"]),
    (f"{{'a': [{SECONDS}]}}", '{"a": ["51:18:42"]}', '"{""a"": [""51:18:42""]}"', {"a": ["51:18:42"]}),
    (f"MAP {{1: {SECONDS}}}", '{"1": "51:18:42"}', '"{""1"": ""51:18:42""}"', {"1": "51:18:42"}),
    ("MAP {'a': 1, 'b': 2}", '{"a": 1, "b": 2}', '"{""a"": 1, ""b"": 2}"', {"a": 1, "b": 2}),
    ("MAP {}", "{}", "{}", {}),
    ("1.50::DECIMAL(5, 2)", "1.50", "1.50", 1.5),
    ("0.00000001::DECIMAL(18, 8)", "0.00000001", "0.00000001", 1e-8),
    ("12345678901234567890.123456789::DECIMAL(38, 9)", *["12345678901234567890.123456789"] * 2, 12345678901234567890.0),
    (f"'{UUID}'::UUID", UUID, UUID, UUID),
    ("'\\xAA\\x00b'::BLOB", "3 bytes", "qgBi", "qgBi"),
    ("['größe', NULL]", '["größe", null]', '"[""größe"", null]"', ["größe", None]),
    ("TIMESTAMPTZ '2024-05-06 07:08:09+02'", "2024-05-06 05:08:09+00:00", *["2024-05-06T05:08:09.000Z"] * 2),
    ("TIMESTAMP '2024-05-06 07:08:09.5'", "2024-05-06 07:08:09.500", *["2024-05-06T07:08:09.500Z"] * 2),
    ("TIMESTAMP '2024-05-06 07:08:09.123456'", "2024-05-06 07:08:09.123", *["2024-05-06T07:08:09.123456Z"] * 2),
    ("TIMESTAMP_NS '2024-05-06 07:08:09.123456789'", *["2024-05-06 07:08:09.123456789"] * 3),
    ("DATE '2024-05-06'", *["2024-05-06"] * 3),
    ("TIME '07:08:09'", *["07:08:09"] * 3),
    ("TIMETZ '07:08:09+02'", *["07:08:09+02"] * 3),
    ("(2::HUGEINT ** 126)::HUGEINT", str(2**126), str(2**126), 2**126),
    (f"{2**128 - 1}::UHUGEINT", *[str(2**128 - 1)] * 3),
    (f"{10**40}::BIGNUM", *[str(10**40)] * 3),
    ("'101'::BIT", *["101"] * 3),
    ("'nan'::DOUBLE", "nan", "nan", None),  # JSON has no such number
    ("'-inf'::DOUBLE", "-inf", "-inf", None),
    ("union_value(number := 2)", "2", "2", "2"),
    ("'a'::ENUM('a', 'b')", "a", "a", "a"),
    ("NULL", "", "", None),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "table", "csv", "value"), VALUES, ids=[sql for sql, *_ in VALUES])
def test_every_type_reads_as_itself(tmp_path: Path, expression: str, table: str, csv: str, value: object) -> None:
    assert written(expression, "table", tmp_path).read_text().splitlines()[2].strip() == table
    assert written(expression, "csv", tmp_path).read_text() == f"v\n{csv}\n"
    assert json.loads(written(expression, "json", tmp_path).read_text()) == [{"v": value}]
    assert pq.read_table(written(expression, "parquet", tmp_path)).num_rows == 1


def test_parquet_keeps_what_it_can_hold(tmp_path: Path) -> None:
    file = written("{'t': TIMESTAMP_NS '2024-05-06 07:08:09.123456789', 'm': MAP {1: 2}}", "parquet", tmp_path)
    moment, pairs = pq.read_schema(file).field("v").type
    assert (str(moment.type), str(pairs.type.key_type)) == ("timestamp[ns]", "int32")


@pytest.mark.parametrize("out", ["table", "csv", "json"])
@pytest.mark.parametrize("expression", ["TIMESTAMP 'infinity'", "DATE '99999-01-01'"])
def test_times_that_no_calendar_has_are_refused_with_a_way_out(tmp_path: Path, expression: str, out: str) -> None:
    with pytest.raises(QueryError, match=r"v is outside the years 1 to 9999: write v::VARCHAR"):
        written(expression, out, tmp_path)


def test_columns_beside_an_interval_stay_as_they_are(tmp_path: Path) -> None:
    file = written(f'{SECONDS} AS "the ""span""", 7 AS n, [1.5]', "json", tmp_path)
    assert json.loads(file.read_text()) == [{'the "span"': "51:18:42", "n": 7, "v": [1.5]}]
