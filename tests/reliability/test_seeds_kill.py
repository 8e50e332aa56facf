"""Seeds outlive a crawl that dies at any file operation before its first commit, with one agent and with two."""

from pathlib import Path

import pytest
from dying import Death
from support import Command, statuses

from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec.plain(seed=3, hosts=4, pages=20, links=6.0, page_bytes=1_000.0)
FOREVER = 100_000


def lines_until_commit(command: Command, report: Path) -> list[str]:
    """What a crawl does with files until its first commit, as the process that the user started sees it."""
    with command.forked(Death(FOREVER, command.directory, report)) as process:
        process.join(60)
        assert process.exitcode == 0, command.said()
    lines = report.read_text().splitlines()
    ends = [i for i, line in enumerate(lines) if line == "committed" or "manifest/" in line or line.startswith("end")]
    return lines[: ends[0]] if ends else lines


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("from_file", [False, True])
def test_seeds_outlive_a_death_before_the_first_commit(tmp_path: Path, agents: int, from_file: bool) -> None:
    with RunningWeb(SPEC) as web:
        seeds = web.start_urls
        if from_file:
            (tmp_path / "seeds.txt").write_text("".join(f"{url}\n" for url in web.start_urls))
            seeds = [str(tmp_path / "seeds.txt")]
        options = ["--delay", "0", "--scope", "any", "--agents", str(agents)]
        plain = Command(web, tmp_path / "plain", options, seeds)
        lines = lines_until_commit(plain, tmp_path / "report")
        everything = statuses(plain.directory)
        durable = next(i for i, line in enumerate(lines) if line.startswith("link inbox/")) + 2
        # The first kill after which seeds must be there, the last one before the commit, and some between.
        for at in sorted({durable, len(lines), *range(durable, len(lines), 1 + (len(lines) - durable) // 4)}):
            command = Command(web, tmp_path / f"died-{at}", options, seeds)
            with command.forked(Death(at, command.directory, tmp_path / f"report-{at}")) as process:
                process.join(60)
                assert process.exitcode == -9, command.said()
            assert (command.directory / "last-run.toml").exists(), "with the options, such as who is crawling"
            again = Command(web, command.directory, options, seeds=[])
            again.finish(60)
            assert statuses(again.directory) == everything, f"died of {lines[at - 1]}"


@pytest.mark.parametrize("agents", ["1", "2"])
def test_a_crawl_that_has_no_seeds_says_so(tmp_path: Path, agents: str) -> None:
    """It died before it could remember any: whoever goes on without naming them is told, not left with nothing."""
    with RunningWeb(SPEC) as web:
        command = Command(web, tmp_path / "crawl", ["--agents", agents])
        with command.forked(Death(6, command.directory, tmp_path / "report")) as process:
            process.join(60)
        assert (command.directory / "gossamer.json").exists()
        again = Command(web, command.directory, ["--agents", agents], seeds=[])
        with again.forked() as process:
            process.join(60)
            assert process.exitcode not in (0, None)
        assert "nothing to crawl: give at least one URL" in again.said()
