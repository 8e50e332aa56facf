import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from gossamer import config
from gossamer.config import Config
from gossamer.errors import ConfigError


def test_document_is_a_valid_file_with_every_default() -> None:
    values = tomllib.loads(config.document())
    assert Config().replace({f"{s}.{k}": v for s, keys in values.items() for k, v in keys.items()}) == Config()
    known = {
        f.name: {k.name for k in msgspec.structs.fields(getattr(Config(), f.name))}
        for f in msgspec.structs.fields(Config)
        if f.name != "host"
    }
    assert {section: set(keys) for section, keys in values.items()} == known
    given = tomllib.loads("\n".join(line.removeprefix("# ") for line in _own_rules(config.document())))
    assert given == {"host": {"example.org": msgspec.structs.asdict(config.Host())}}


def _own_rules(document: str) -> list[str]:
    """The example of a host with rules of its own, which is a comment."""
    lines = document.splitlines()
    return lines[lines.index('# [host."example.org"]') :]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[crawl]\nwidht = 3", "unknown key crawl.widht; did you mean width?"),
        ("[crwal]\nwidth = 3", "did you mean crawl?"),
        ("[crawl]\ndelay_s = 3", "did you mean polite.delay_s?"),
        ("[crawl]\nwidth = 'many'", "crawl.width must be a whole number, not 'many'"),
        ("[crawl]\nwidth = 0", "crawl.width must be at least 1"),
        ("[crawl]\nwidth = 100000000000000000000", "crawl.width must be at most 10000000"),
        ("[crawl]\nseed = 9223372036854775808", "crawl.seed must be at most"),
        ('[crawl]\nagent = "a/b"', "crawl.agent must be one line of text, like a0"),
        ('[fetch]\ncontact = "a\\r\\nHost: b"', "fetch.contact must be one line of text"),
        ('[fetch]\ncontact = "nonsense"', "must be one line of text, like you@example.org or https://example.org/"),
        ('[fetch]\ncontact = "https://"', "fetch.contact must be"),
        ('[fetch]\ncontact = "me@"', "fetch.contact must be"),
        ('[fetch]\ncontact = "ftp://example.org/"', "fetch.contact must be"),
        ('[crawl]\nhistory = "s3://bucket/before"', "s3://bucket/before is an address"),
        ('[crawl]\nhistory = "gs://bucket"', "gs://bucket is an address"),
        ('[site]\ndisks = ["/mnt/b", "gs://me@bucket"]', "an address has neither credentials nor options in it"),
        ('[fetch]\nagent_name = "a b"', "fetch.agent_name must be one line of text, like Gossamer"),
        ("[fetch]\ntimeout_s = 1e300", "fetch.timeout_s must be at most 1e+09"),
        ("[crawl]\nwidth = true", "crawl.width must be a whole number"),
        ("[crawl]\npurpose = 'x'", "must be one of search, archive, ai-train, ai-input, research, or empty, not 'x'"),
        ("[crawl]\nscope = 'world'", "crawl.scope must be one of host, domain, any"),
        ("[polite]\ndelay_s = nan", "polite.delay_s must be at least 0"),
        ("[crawl]\nseeds = [1]", "crawl.seeds must be a list of strings"),
        ("[crawl]\nexclude = ['/blog/']", "crawl.exclude: '/blog/' can match nothing; write it like '*/blog/*'"),
        ("[fetch]\naccept_types = ['html']", "fetch.accept_types: 'html' can match nothing; write it like 'text/html'"),
        ("[resolve]\nmap = {a = 1}", "resolve.map must map strings to strings"),
        ("crawl = 3", "crawl is a section"),
        ('[host."a.test"]\ndelay = 3', 'unknown key host."a.test".delay; did you mean delay_s?'),
        ('[host."a.test"]\ndelay_s = -1', 'host."a.test".delay_s must be at least 0'),
        ("[host]\ndelay_s = 3", 'write [host."example.org"] above its keys'),
        ('[host."http://a.test/"]\ndelay_s = 3', 'is no host name; write it like "example.org"'),
        ("[crawl", "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "gossamer.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        config.load(file)
    assert message in str(error.value)


def test_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gossamer config"):
        config.load(tmp_path / "none.toml")


def test_values_from_the_command_line() -> None:
    assert config.parse_value("crawl.order", "opic") == "opic"
    assert config.parse_value("polite.delay_s", "0.5") == 0.5
    assert config.parse_value("crawl.sitemaps", "false") is False
    assert config.parse_value("crawl.seeds", '["a", "b"]') == ["a", "b"]
    with pytest.raises(ConfigError, match="whole number"):
        config.parse_value("crawl.width", "lots")
    with pytest.raises(
        ConfigError, match=r"^rules for single hosts are in the file only, under \[host.*: --config FILE$"
    ):
        config.parse_value('host."a.test".auth', "bearer env:TOKEN")
    with pytest.raises(ConfigError, match=r"^rules for single seeds are in the file only, under \[\[seeds\]\]"):
        config.parse_value("seeds", "[]")
    with pytest.raises(ConfigError, match=r"did you mean polite\.delay_s"):
        config.parse_value("polite.delay", "1")


def test_user_agent_names_a_contact() -> None:
    assert (
        Config().replace({"fetch.contact": "https://example.org/bot"}).user_agent.endswith("(+https://example.org/bot)")
    )
    assert "(" not in Config().user_agent


def test_the_page_about_it_is_current() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    assert re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0] == config.document()


def test_plain_values_make_the_same_configuration() -> None:
    """As they go to other processes: by section, and with single keys on top."""
    told = Config().replace({"polite.delay_s": 2, "resolve.map": {"*": "127.0.0.1:1"}, "host.a.test": {"burst": 3}})
    values = json.loads(json.dumps(told.values()))
    assert Config().replace(values) == told
    assert Config().replace({**values, "crawl.agent": "b"}) == told.replace({"crawl.agent": "b"})
    assert told.values()["polite"]["delay_s"] == 2.0
    with pytest.raises(ConfigError, match="crawl is a section"):
        Config().replace({"crawl": 3, "crawl.width": 4})


def test_warnings() -> None:
    assert Config().warnings() == []
    slow = Config().replace({"polite.burst": 10, "polite.burst_delay_s": 20.0, "polite.robots": False})
    assert [text.split()[0] for text in slow.warnings()] == ["polite.burst_delay_s", "polite.robots"]


def test_the_most_agents_are_not_fewer_than_the_least() -> None:
    with pytest.raises(ConfigError, match=r"site.max_agents must be at least site.min_agents \(4\), not 2"):
        config.Config().replace({"site.max_agents": 2, "site.min_agents": 4})
    assert config.Config().replace({"site.min_agents": 4}).site.max_agents == 0, "their number does not change"


def test_words_that_stand_for_values(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[site]\nmax_agents = "unlimited"\n')
    assert config.load(file).site.max_agents == config.UNLIMITED
    given = {"site.max_agents": config.parse_value("site.max_agents", "unlimited")}
    assert config.Config().replace({"site.max_agents": 3}).replace(given).site.max_agents == config.UNLIMITED
    with pytest.raises(ConfigError, match="must be a whole number, not 'many'"):
        config.Config().replace({"site.max_agents": "many"})
