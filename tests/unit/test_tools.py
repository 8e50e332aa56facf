"""A test that lacks a program is skipped where somebody reads that, and fails in CI."""

import pytest
import tools


def test_what_is_missing_fails_in_ci_and_is_skipped_elsewhere() -> None:
    with pytest.raises(pytest.fail.Exception, match="needs promtool"):
        tools.lack("promtool", {"CI": "true"})
    with pytest.raises(pytest.skip.Exception, match="needs promtool"):
        tools.lack("promtool", {})


def test_programs_of_this_environment_are_found_without_its_being_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert tools.find("no-such-program", "helm") == str(tools.BIN / "helm")
    assert tools.find("no-such-program") is None
