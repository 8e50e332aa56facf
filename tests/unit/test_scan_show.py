"""What a person sees of a scan, and what its command says of itself."""

import io

import pytest
from rich.console import Console

from gossamer.cli.app import main
from gossamer.scan.coordinator import View
from gossamer.scan.show import Display
from gossamer.scan.waiting import Waiting, in_words


def test_a_website_that_stands_still_is_named_with_its_trouble() -> None:
    waiting = Waiting(delay_s=1.0)
    assert waiting.look({"a.test": (3, "")}, 0.0) == []
    assert waiting.look({"a.test": (4, "server error"), "b.test": (0, "")}, 9.0) == []
    assert waiting.look({"a.test": (5, "server error"), "b.test": (0, "")}, 18.0) == []
    assert waiting.look({"a.test": (5, "server error"), "b.test": (0, "")}, 28.0) == [
        "a.test (no page for 10 s: server error)",
        "b.test (no page for 19 s)",
    ]
    assert Waiting(delay_s=30.0).look({"a.test": (1, "")}, 0.0) == []


def test_what_will_not_pass_is_not_waited_for() -> None:
    outcomes = {"ok": 5, "gone": 3, "throttled": 1}
    assert in_words(outcomes, 1_700_000_000.0) == "throttled, tried again at 22:13:20 UTC"
    assert in_words(outcomes, None) == "throttled"


def test_what_is_waited_for_is_shown() -> None:
    stream = io.StringIO()
    waits = [f"{name}.test (no page for 12 s)" for name in "abcd"]
    with Display(Console(file=stream, width=200)) as display:
        display.update(View(20.0, 5, 1, [], waits))
    shown = stream.getvalue()
    assert "waiting for a.test (no page for 12 s), b.test (no page for 12 s), c.test" in shown
    assert "and 1 more" in shown


def test_the_command_shows_its_own_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["scan", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "to its domain, or any (default: host)" in said
    assert "(default: breadth-first)" in said
