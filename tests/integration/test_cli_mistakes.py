"""The mistakes that users make: each gets one clear message on standard error, a way out, and no traceback."""

from pathlib import Path
from typing import Any

import pytest
from commands import complaint, run, succeed

from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

QUICK = ("--scope", "any", "--delay", "0", "--set", "crawl.patience_s=0.1", "--set", "polite.backoff_s=0.1")


SPEC = WebSpec.plain(seed=22, hosts=2, pages=6, page_bytes=1_000.0, links=4.0)


@pytest.fixture(scope="module")
def done(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory `crawl`, finished, inside this one."""
    here = tmp_path_factory.mktemp("done")
    succeed("crawl", web.start_url, "--testweb", web.address, *QUICK, "--quiet", at=here)
    return here


def test_mistaken_seeds(tmp_path: Path) -> None:
    said = complaint("crawl", "--testweb", "127.0.0.1:1", at=tmp_path)
    assert "nothing to crawl: give at least one URL, or a file of URLs" in said
    for seed in ("htp:/example", "nosuchfile.txt", "mailto:me@gossamer-tests.org"):
        said = complaint("crawl", seed, "--testweb", "127.0.0.1:1", "--dir", "x", at=tmp_path)
        assert f"'{seed}' is neither a file nor a web address" in said
        assert "https://example.org/" in said
    assert not (tmp_path / "x").exists()
    for data in (b"", b"\n# nothing\n", b"\x1f\x8b\0\0", b"example.org\n"):
        (tmp_path / "few.txt").write_bytes(data)
        for command in (("crawl", "few.txt", "--testweb", "127.0.0.1:1", "--dir", "x"), ("scan", "few.txt")):
            if command[0] == "crawl" or data != b"example.org\n":  # to a scan, names are websites
                said = complaint(*command, at=tmp_path)
                assert "write one" in said
    assert [path.name for path in tmp_path.iterdir()] == ["few.txt"]


def test_a_seed_that_cannot_be_reached(tmp_path: Path) -> None:
    command = ("crawl", "http://a.test/", *QUICK, "--quiet", "--dir")
    said = complaint(*command, "refused", "--testweb", "127.0.0.1:1", at=tmp_path)
    assert "no server answered: http://a.test/" in said
    assert "Could not connect to server" in said
    said = complaint(*command, "elsewhere", "--set", 'resolve.map={"b.test" = "127.0.0.1:1"}', at=tmp_path)
    assert "a.test is not in resolve.map" in said
    said = complaint(
        "crawl", "http://127.0.0.1:8080/", "--contact", "me@gossamer-tests.org", *QUICK, "--quiet", at=tmp_path
    )
    assert "127.0.0.1 is loopback" in said


def test_directories_that_are_not_ours(web: RunningWeb, done: Path, tmp_path: Path) -> None:
    command = ("crawl", web.start_url, "--testweb", web.address, "--dir")
    other = tmp_path / "other"
    other.mkdir()
    (other / "gossamer.json").write_text('{"layout": 99, "created": 0}')
    readers: list[tuple[Any, ...]] = [
        ("status", "other"), ("query", "other", "SELECT 1"), ("export", "other", "--urls", "-"),
        ("add", "other", web.start_url), (*command, "other"),
    ]  # fmt: skip
    for arguments in readers:
        said = complaint(*arguments, at=tmp_path)
        assert "other has layout 99, written by a later Gossamer; this Gossamer knows layouts up to 5" in said
        assert "use the version that wrote it" in said
    (other / "gossamer.json").write_text("not JSON")
    assert "is damaged" in complaint("status", "other", at=tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    assert "full is not empty and holds no crawl; choose another --dir" in complaint(*command, "full", at=tmp_path)
    assert "full holds no crawl" in complaint("add", "full", web.start_url, at=tmp_path)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]
    assert "is a file" in complaint(*command, tmp_path / "full" / "thesis.tex", at=tmp_path)
    for reading in (
        ("status", "none"),
        ("add", "none", web.start_url),
        ("query", "none", "SELECT 1"),
        ("export", "none", "--cdxj", "-"),
    ):
        said = complaint(*reading, at=tmp_path)
        assert "none holds no crawl; `gossamer crawl --dir none URL` starts one" in said
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delay_s = [", "is not valid TOML"),
        ("[polite]\ndelay = 3", "unknown key polite.delay; did you mean delay_s?"),
        ("[polite]\nwidth = 3", "did you mean crawl.width?"),
        ("[polit]\ndelay_s = 3", "unknown key [polit]; did you mean polite?"),
        ("polite = 3", "polite is a section"),
        ('[polite]\ndelay_s = "long"', "polite.delay_s must be a number, not 'long'"),
        ("[polite]\ndelay_s = -1", "polite.delay_s must be at least 0"),
        ('[crawl]\nscope = "world"', "crawl.scope must be one of host, domain, any"),
        ('[resolve.map]\n"*" = "nowhere"', "is not an address"),
        ('[crawl]\nseeds = ["nonsense"]', "'nonsense' is neither a file nor a web address"),
    ],
)  # fmt: skip
def test_mistakes_in_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "my.toml").write_text(text)
    contact = ("--contact", "me@gossamer-tests.org")
    assert message in complaint("crawl", "http://a.test/", "--config", "my.toml", *contact, at=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--config", "missing.toml"), "missing.toml does not exist; `gossamer config` prints a file to start from"),
        (("--config", "."), "Is a directory"),
        (("--set", "polite.delay=1"), "unknown key polite.delay; did you mean polite.delay_s?"),
        (("--set", "polite.delay_s"), "write --set section.key=value"),
        (("--set", "polite.delay_s=often"), "polite.delay_s must be a number, not 'often'"),
        (("--set", "crawl.pages=1.5"), "crawl.pages must be a whole number"),
        (("--set", "resolve.map=127.0.0.1"), "resolve.map must be a table"),
        (("--delay", "often"), "--delay: polite.delay_s must be a number"),
        (("--scope", "world"), "crawl.scope must be one of host, domain, any"),
        (("--pages", "-1"), "crawl.pages must be at least 0"),
        (("--order", "opick", "--testweb", "127.0.0.1:1"), 'there is no order "opick"; did you mean opic?'),
        (("--order", "no.such:thing", "--testweb", "127.0.0.1:1"), 'write "module:name" of a Strategy'),
        (("--testweb", "nowhere"), "'nowhere' is not an address; write it like \"127.0.0.1:8080\""),
        (("--testweb", "93.184.215.14:80"), "93.184.215.14:80: a test web is on this machine, as in 127.0.0.1:8080"),
        (("--testweb", "10.0.0.1:80"), "to send names to other servers of yours, use resolve.map"),
        (("--testweb", "[2001:db8::1]:80"), "a test web is on this machine"),
        (("--set", 'resolve.map={"*" = "93.184.215.14:80"}'), "say who is crawling"),
        (("--contact", "nonsense"), "fetch.contact must be one line of text, like you@example.org or https://example.org"),
        (("--contact", "me@gossamer-tests.org", "--dir", "ftp://box/crawl"), "of this machine, or at s3:// (Amazon"),
        (("--contact", "me@gossamer-tests.org", "--dir", "s3:///crawl"), "write it like s3://BUCKET/FOLDER"),
        (("--dir", "s3://me:hush@bucket/crawl"), "s3://...: an address has neither credentials nor options in it"),
        (("--dir", "az://box/crawl?sig=hush"), "az://...: an address has neither credentials nor options in it"),
        (("--set", 'site.disks=["az://me:hush@box/crawl"]'), "an address has neither credentials nor options in it"),
        (("--set", "crawl.history=az://box/crawl"), "az://box/crawl is an address"),
        (("--speed", "9"), "gossamer crawl: error: unrecognized arguments: --speed 9"),
        (("--pagse", "9"), "unrecognized arguments: --pagse 9; did you mean --pages?"),
        ((), "say who is crawling"),
        ((), "--contact https://example.org/about-my-crawl"),
    ],
)  # fmt: skip
def test_mistakes_on_the_command_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in complaint("crawl", "http://a.test/", *arguments, at=tmp_path)


def test_resuming_what_never_began(tmp_path: Path) -> None:
    """It was killed before it made its directory: a contact is not what is missing."""
    assert "nothing to crawl: give at least one URL" in complaint("crawl", "--dir", "c", at=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SELEC 1",), 'syntax error at or near "SELEC"'),
        (("SELECT * FROM page",), "pages, visits, links, hosts, targets, robots, frontier, signals, items, files"),
        (("SELECT colour FROM pages",), "pages: key, url, host"),
        (("DROP TABLE pages",), "a query only reads the crawl"),
        (("COPY pages TO 'x.csv'",), "a query only reads the crawl"),
        (("",), "nothing to run; for example:"),
        (("SELECT 1", "--format", "parquet"), "name a file to write to"),
        (("SELECT 1", "--format", "csv", "--out", "no/such/x.csv"), "no/such does not exist; make it first"),
        (("SELECT 1", "--format", "xml"), "invalid choice: 'xml'"),
    ],
)  # fmt: skip
def test_mistakes_in_questions(done: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in complaint("query", "crawl", *arguments, at=done)


def test_exports_replace_nothing_unasked(done: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    for kind in ("--urls", "--cdxj", "--text"):
        assert "exists; choose another name, or overwrite it with --force" in complaint(
            "export", "crawl", kind, mine, at=done
        )
    assert "is a file; end its name in .warc.gz" in complaint("export", "crawl", "--warc", mine, at=done)
    assert "is a directory; name a file" in complaint("export", "crawl", "--urls", tmp_path, at=done)
    assert "does not exist; make it first" in complaint("export", "crawl", "--urls", tmp_path / "no" / "x", at=done)
    assert mine.read_text() == "precious"
    assert "required" in complaint("export", "crawl", mine, at=done)
    forced = run("export", "crawl", "--urls", mine, "--force", at=done)
    assert (forced.returncode, forced.stdout) == (0, b"")
    assert mine.read_text().startswith("http://h0.test/\n")


def test_other_mistakes(done: Path, tmp_path: Path) -> None:
    assert "'nonsense' is neither a file nor a web address" in complaint("add", "crawl", "nonsense", at=done)
    assert "'nonsense' is not a web address" in complaint("inspect", "nonsense", at=done)
    assert "invalid choice: 'crwal'; did you mean crawl?" in complaint("crwal", at=done)
    assert "invalid choice: 'nonsense' (choose from" in complaint("nonsense", at=done)
    assert "invalid choice: 'statsu'; did you mean status?" in complaint("federation", "statsu", "f.toml", at=done)
    assert "invalid choice: 'rnu'; did you mean run?" in complaint("site", "rnu", "f.toml", "--name", "a", at=done)
    assert "invalid choice: 'retier'; did you mean retire?" in complaint("agents", "crawl", "retier", "a1", at=done)
    assert "there is no file jion; did you mean `gossamer scan join FILE`?" in complaint("scan", "jion", "f", at=done)
    assert "invalid choice: 'ordre'; did you mean order?" in complaint("lab", "ordre", at=done)
    assert "required: COMMAND" in complaint(at=done)
    assert "a web needs 1 host" in complaint("testweb", "--hosts", "0", at=done)
    assert "there is no such directory" in complaint("testweb", "--root", "a.test=/no/such", at=done)


@pytest.mark.parametrize(
    "command",
    [
        ("demo", "--dir"),
        ("scan", "sites.txt", "--dir"), ("plan", "sites.txt", "--from"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_what_needs_a_directory_refuses_an_address(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "sites.txt").write_text("a.test\n")
    address = "s3://bucket/crawl"
    filled = [word.format(address) for word in command]
    said = complaint(*filled, *([] if address in filled else [address]), at=tmp_path)
    assert f"{address} is an address, and this must be a directory of this machine" in said
    assert [path.name for path in tmp_path.iterdir()] == ["sites.txt"]
