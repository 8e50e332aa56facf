"""What the experiment about many agents makes of their logs."""

import pytest

from experiments import growth


def event(agent: str, name: str, **more: float) -> dict[str, object]:
    return {"agent": agent, "event": name, **more}


def test_starting_is_what_a_process_used_before_it_began() -> None:
    found = [
        event("crawl", "agent started"),
        event("a0", "begin", cpu_s=0.5),
        event("a1", "begin", cpu_s=0.4),
        event("a0", "commit"),
        event("a1", "begin", cpu_s=0.6),  # the same process, as zones have moved
        event("a1", "end", cpu_s=3.0),
        event("a1", "begin", cpu_s=0.3),  # another
        event("a0", "end", cpu_s=2.0),
        event("crawl", "end"),
    ]
    assert growth._start_s(found) == pytest.approx(0.5 + 0.4 + 0.3)
