"""These tests compare declared encodings with the standard: our cases, and html5lib's where they are. All must pass."""

import case_files
import pytest

from gossamer.web.charset import declared_charset


@pytest.mark.parametrize("suite", case_files.suites("charset_declared"))
def test_every_encoding(suite: case_files.Suite) -> None:
    wrong = {}
    for case in suite.cases:
        got = declared_charset(case_files.body_of(case, "body"), case["content_type"])
        if got != case["encoding"]:
            wrong[case["id"]] = got
    assert wrong == {}
