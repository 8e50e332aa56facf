"""A pool of workers gives every page a result, whatever the functions do to the processes that run them."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.errors import ConfigError
from gossamer.functions.pool import Pool, _Worker
from gossamer.functions.protocol import Result, Setup, Task, frame

HERE = str(Path(__file__).parent)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
PAGES = 9


@contextlib.contextmanager
def pool(*names: str, workers: int = 1, links: str = "", **values: float) -> Iterator[Pool]:
    functions = [f"page_functions:{name}" for name in names]
    found = Pool(Setup(functions={name: name for name in functions}, links=links, path=[HERE], **values), workers)  # type: ignore[arg-type]
    found.start()
    try:
        yield found
    finally:
        found.close()


def page(number: int, body: bytes = b"<h1>A page</h1><a href=/x>There</a>") -> Task:
    return Task(number, f"https://example.org/{number}", 200, 1e9, 1, HEAD, body)


def alive(group: int) -> list[str]:
    """Processes of a group; those that are dead, and nobody has asked for, do not count."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = each.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(each.parent.name)
    return found


def results(found: Pool, pages: int = PAGES) -> dict[int, Result]:
    for number in range(1, pages + 1):
        found.put(page(number))
    while not found.wait(1.0):
        pass
    made = {result.number: result for result in found.take()}
    assert sorted(made) == list(range(1, pages + 1))
    return made


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("crashes", "crashed"),
        ("exits", "crashed"),
        ("closes", "crashed"),
        ("hangs_hard", "timeout"),
        ("eats", "memory"),
    ],
)
def test_a_bad_page_and_eight_good_ones(name: str, kind: str) -> None:
    with pool(name, time_s=0.2) as found:
        made = results(found)
    assert [error.kind for error in made[2].errors] == [kind]
    assert all(len(made[number].items) == 1 and not made[number].errors for number in made if number != 2)


def test_whoever_closes_our_pipes_is_the_culprit() -> None:
    """However late the pool looks."""
    worker = _Worker(b"", False)
    worker.given = {number: page(number) for number in range(1, PAGES + 1)}
    os.set_blocking(worker.to, True)
    setup = Setup(functions={"closes": "page_functions:closes"}, path=[HERE])
    os.write(worker.to, frame(setup) + frame([*worker.given.values()]))
    worker.process.wait(60)
    assert worker.culprit() == (2, 0)
    worker.close()


def test_what_pages_leave_in_memory_costs_no_later_page() -> None:
    with pool("leaks", memory_mb=64) as found:
        made = results(found)
    assert all(len(result.items) == 1 and not result.errors for result in made.values())


@pytest.mark.parametrize("name", ["shouts", "forks"])
def test_bad_habits_harm_nobody(name: str) -> None:
    with pool(name, time_s=60.0) as found:
        made = results(found)
        group = found._workers[0].process.pid
    assert all(len(result.items) == 1 and not result.errors for result in made.values())
    end_s = time.monotonic() + 60
    while alive(group) and time.monotonic() < end_s:  # it was killed; the system may take a moment
        time.sleep(0.01)
    assert not alive(group)  # what it forked, to sleep for an hour, is gone with it


def test_workers_end_with_the_pool() -> None:
    with pool("hangs_hard", workers=2) as found:
        for number in range(1, 100):
            found.put(page(number))
        found.flush()
        while not found._workers or not found._workers[0].given:
            time.sleep(0.01)
        groups = [worker.process.pid for worker in found._workers]
    assert not [group for group in groups if alive(group)]


def test_several_workers_share_the_pages() -> None:
    with pool("heading", workers=2) as found:
        made = results(found, 500)
    assert {result.items[0][1] for result in made.values()} == {b'{"heading":"A page","links":1}'}


def test_a_links_function_refuses_and_weighs() -> None:
    with pool(links="page_functions:few") as found:
        found.put(page(1, b"<a href=/1>x</a><a href=/1b></a><a href=/2></a>"))
        assert found.wait(30)
        (result,) = found.take()
    assert len(result.refused) == 1
    assert [weight for _, weight in result.weights] == [2.0]


def test_a_module_that_hangs_when_it_is_imported_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(3600)\n")
    monkeypatch.setattr("gossamer.functions.pool._START_S", 2.0)
    found = Pool(Setup(functions={"slow:product": "slow:product"}, path=[str(tmp_path)], time_s=0.1), 1)
    with pytest.raises(ConfigError, match=r"the module of slow:product is not loaded after 2 s .*when it is imported"):
        found.start()
