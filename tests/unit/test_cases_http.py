"""These tests read odd bytes on the wire: our cases, and those of the Web Platform Tests where they are.

Sockets are the client's tests.
"""

import case_files
import pytest

from gossamer.web.http import Headers, content_length, content_type, decode_body, location, status_code

WHOLE_BODY = 42  # what the suite's server sends: the length that counts when none is declared

NAMES = {"x-frame-options", "content-length", "header", "header-parsing", "x-frame", "-options"}


@pytest.mark.parametrize("suite", case_files.suites("http_content_length"))
def test_content_length(suite: case_files.Suite) -> None:
    for case in suite.cases:
        length, consistent = content_length(Headers(case["headers_raw"].encode()))
        found = (WHOLE_BODY if length is None else length) if consistent else None
        assert found == case["content_length"], case["id"]


@pytest.mark.parametrize("suite", case_files.suites("http_raw_responses"))
def test_odd_responses_are_read_without_harm(suite: case_files.Suite) -> None:
    for case in suite.cases:
        raw = case_files.body_of(case, "raw")
        head, _, body = raw.partition(b"\r\n\r\n")
        headers = Headers(head.partition(b"\n")[2])  # whether the first line is a status line is asked below
        # The offending line is passed over or read by the letter; no known field comes of it.
        assert {name for name, _ in headers} <= NAMES, case["id"]
        assert content_type(headers) == ("", "")
        assert location(headers) is None
        assert decode_body(body, headers, 1000) == (body, "")
        if "inserted" in case:
            assert content_length(headers) in ((5, True), (None, True))


@pytest.mark.parametrize("suite", case_files.suites("http_raw_responses"))
def test_status_codes(suite: case_files.Suite) -> None:
    cases = [case for case in suite.cases if "expected_status" in case]
    for case in cases:
        assert status_code(case_files.body_of(case, "raw")) == case["expected_status"], case["id"]
    assert len(cases) == 16
