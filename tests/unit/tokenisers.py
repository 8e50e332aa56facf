"""Runs a test through both ways to read a page: the compiled scanner, and the tree that replaces it."""

import pytest

from gossamer.web import html, tree


@pytest.fixture(params=["scanner", "tree"])
def tokeniser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name == "scanner" and html.scan is None:
        pytest.skip("gossamer.web._scan is not built: python setup.py build_ext --inplace")
    monkeypatch.setattr(html, "tokenise", tree.tokenise if name == "tree" else html._scanned)
    return name
