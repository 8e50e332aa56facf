"""Encoding conformance: html5lib's cases. The bar is 95 %; we pass all."""

import case_files

from gossamer.web.charset import declared_charset


def test_every_encoding() -> None:
    cases = case_files.load("charset_declared")["cases"]
    wrong = {}
    for case in cases:
        got = declared_charset(case_files.body_of(case, "body"), case["content_type"])
        if got != case["encoding"]:
            wrong[case["id"]] = got
    assert wrong == {}
    assert len(cases) == 82
