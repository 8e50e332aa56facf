"""These tests compare what publishers ask with the documents that define each dialect, one case for each rule."""

import json
from pathlib import Path
from typing import Any

import case_files
import pytest
from answers import answer, reader
from tokenisers import tokeniser  # noqa: F401

from gossamer.columns import Outcome
from gossamer.config import PURPOSES
from gossamer.web.preferences import RULES, Reservations, line_of_file, rules_of_file
from gossamer.web.robots import LIMIT_BYTES, Rules

pytestmark = pytest.mark.usefixtures("tokeniser")


def read(case: dict[str, Any], purpose: str = "") -> Any:
    headers = {"Content-Type": ["text/html"], **case.get("headers", {})}
    fields = [f"{name}: {value}" for name, values in headers.items() for value in values]
    response = answer(case.get("body", case.get("html", "<p>x")).encode("latin-1"), *fields)
    lines = [Rules.parse(case.get("robots", "").encode(), "Gossamer").asks(case["path"])]
    if file := case.get("file"):
        decided = rules_of_file(file["name"], file["body"].encode(), "Gossamer").decide(case["path"])
        lines.append(line_of_file(file["name"], decided[1]))
    response.request.asks = "\n".join(filter(None, lines))
    return reader(crawl__purpose=purpose).read(response)


def test_every_dialect() -> None:
    wrong: dict[str, Any] = {}
    for case in case_files.suite("preferences").cases:
        visit = read(case)
        assert visit.outcome is Outcome.OK, case["id"]
        found = {"not_for": visit.not_for, "lines": visit.preferences.splitlines()}
        for name, value in found.items():
            if name in case and case[name] != value:
                wrong[f"{case['id']} {name}"] = value
        for purpose in PURPOSES:
            refused = purpose in case["not_for"].split() and purpose not in case.get("stored_for", [])
            visit = read(case, purpose)
            is_kept = (visit.outcome, bool(visit.response.body)) == (Outcome.OK, True)
            if is_kept is refused:
                wrong[f"{case['id']} for {purpose}"] = visit.reason
            elif refused:
                assert visit.reason.startswith(f"not for {purpose}: ")
                assert visit.reason.partition(": ")[2] in visit.preferences.splitlines()
                assert (visit.title, visit.digest, len(visit.targets)) == ("", 0, 0)
    assert wrong == {}


def test_the_page_in_the_docs_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "preferences.md").read_text()
    for rule in RULES:
        assert f"| {rule.dialect} | `{rule.says}` | {', '.join(rule.refuses)}" in page


TOO_LARGE = '{"tdm-reservation": 1} for all others, as it is too large'


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf \n"])
def test_of_a_file_that_is_too_large_the_rules_that_were_read_count(start: bytes) -> None:
    free, mine = {"location": "/free", "tdm-reservation": 0}, {"location": "/mine", "tdm-reservation": 1}
    rest = [{"location": "/" + "x" * 10_000, "tdm-reservation": 0}] * 60
    whole = start + json.dumps([free, "no rule", mine, *rest, {"location": "/late", "tdm-reservation": 0}]).encode()
    assert len(whole) > LIMIT_BYTES
    for end in range(LIMIT_BYTES, LIMIT_BYTES + 60):  # wherever it is cut
        found = Reservations.parse(whole[:end])
        assert found.decide("/free/1") == (True, json.dumps(free))
        assert found.decide("/mine/1") == (False, json.dumps(mine))
        assert found.decide("/late") == found.decide("/other") == (False, TOO_LARGE)
    for other in (
        b"<html>" + b"x" * LIMIT_BYTES,
        b'{"a": ' + b"1" * LIMIT_BYTES,
        b"[" * LIMIT_BYTES,
        b"x" * LIMIT_BYTES,
    ):
        assert Reservations.parse(start + other).decide("/")[1] in ("", TOO_LARGE)
    assert Reservations.parse(b"<html>" + b"x" * LIMIT_BYTES).decide("/") == (True, ""), "it is no list"


def test_hostile_statements_cost_little() -> None:
    many = b"User-agent: *\n" + b"".join(b"Content-Usage: / train-ai=n, x%d=y\n" % n for n in range(10_000))
    assert len(Rules.parse(many, "x").asks("/").splitlines()) == 4
    same = b"User-agent: *\n" + b"Content-Usage: / train-ai=n\n" * 15_000
    assert len(Rules.parse(same, "x").asks("/").splitlines()) == 1
    no = b"User-agent: *\n" + b"".join(b"Content-Signal: search=yes, x%d=yes\n" % n for n in range(9))
    assert "ai-train=no" in Rules.parse(no + b"Content-Signal: ai-train=no\n", "x").asks("/"), "the tenth line, a no"
    rules = [{"location": f"/{n}/*x*y", "tdm-reservation": 1} for n in range(20_000)]
    assert Reservations.parse(json.dumps(rules).encode()).decide("/19999/xy") == (False, TOO_LARGE)
    assert Reservations.parse(b"[" * 100_000).decide("/") == (True, "")
    fields = ["X-Robots-Tag: " + "noai, " * 1_000] * 50
    visit = reader().read(answer(b"<meta name=robots content='" + b"noai," * 100_000 + b"'>", *fields))
    assert len(visit.preferences) < 5_000
