"""The configuration names secrets and never has one in it; what cannot be sent is refused with a clear message."""

from pathlib import Path
from typing import Any

import pytest

from gossamer.config import Config
from gossamer.config.last_run import FILE, remember
from gossamer.errors import ConfigError
from gossamer.fetch.fields import Fields
from gossamer.fetch.request import Request

SECRET = "s3cret-0f-a-test"


def told(**host: Any) -> Config:
    return Config().replace({"host.a.test": host})


def sent(config: Config, url: str = "https://a.test/", host: str = "a.test") -> tuple[bytes, bytes]:
    head = Fields(config).of(Request(1, url, host), True)
    assert head.sent == b"".join(line + b"\r\n" for line in head.lines)
    return head.sent, head.stored


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fetch.headers": {"X Y": "1"}}, "'X Y' is no name of a header field"),
        ({"fetch.headers": {"X-Y": "1\r\nX: 2"}}, "X-Y must be one line of text"),
        ({"fetch.headers": {"X-Y": ""}}, "X-Y must be one line of text"),
        ({"fetch.headers": {"X-Y": 1}}, "must map strings to strings"),
        ({"fetch.headers": {"user-agent": "Mozilla"}}, "fetch.agent_name and fetch.contact are for that"),
        ({"fetch.headers": {"Content-Length": "3"}}, "Gossamer sets it itself"),
        ({"fetch.headers": {"X-Key": "env:KEY"}}, 'write it under [host."example.org"]'),
        ({"fetch.headers": {"Authorization": SECRET}}, "Authorization is a secret: write env:NAME"),
        ({"host.a.test": {"headers": {"Authorization": SECRET}}}, "Authorization is a secret: write env:NAME"),
        ({"host.a.test": {"headers": {"Cookie": SECRET}}}, "--cookies FILE"),
        ({"host.a.test": {"auth": f"bearer {SECRET}"}}, 'must be like "bearer env:API_TOKEN"'),
        ({"host.a.test": {"auth": "digest env:X"}}, 'must be like "bearer env:API_TOKEN"'),
    ],
)
def test_what_cannot_be_sent(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config().replace(given)
    assert message in str(error.value)
    assert SECRET not in str(error.value), "a secret in the wrong place is not shown"


def test_secrets_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(ConfigError, match="environment variable NOWHERE is empty or not set"):
        Fields(told(auth="bearer env:NOWHERE"))
    with pytest.raises(ConfigError, match=r"nowhere\.txt, which cannot be read: No such file"):
        Fields(told(auth=f"bearer file:{tmp_path}/nowhere.txt"))
    monkeypatch.setenv("LINES", f"{SECRET}\r\nX-Injected: 1")
    with pytest.raises(ConfigError, match="more than one line") as error:
        Fields(told(headers={"X-Key": "env:LINES"}))
    assert SECRET not in str(error.value)
    monkeypatch.setenv("LOGIN", SECRET)
    with pytest.raises(ConfigError, match="user:password") as error:
        Fields(told(auth="basic env:LOGIN"))
    assert SECRET not in str(error.value)


def test_they_are_sent_and_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", SECRET)
    (tmp_path / "login").write_text("me:pässword\n")
    config = told(headers={"X-Key": "env:KEY", "X-Client": "test"}, auth=f"basic file:{tmp_path}/login")
    head, stored = sent(config)
    assert f"X-Key: {SECRET}\r\n".encode() in head
    assert b"Authorization: Basic bWU6cMOkc3N3b3Jk\r\n" in head
    assert b"X-Key: (not stored)\r\n" in stored
    assert b"Authorization: (not stored)\r\n" in stored
    assert b"X-Client: test\r\n" in stored
    assert sent(config.replace({"archive.secrets": True})) == (head, head)
    remember(tmp_path, config)
    assert "X-Client" in (tmp_path / FILE).read_text()
    assert SECRET not in (tmp_path / FILE).read_text()


def test_other_hosts_and_plain_http_do_not_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", SECRET)
    config = told(headers={"X-Key": "env:KEY", "X-Client": "test"}, auth="bearer env:KEY")
    for url, host in (("https://b.test/", "b.test"), ("https://x.a.test/", "x.a.test"), ("http://a.test/", "a.test")):
        assert SECRET.encode() not in sent(config, url, host)[0]
    assert b"X-Client: test" in sent(config, "http://a.test/")[0]
    assert b"X-Client" not in sent(config, "https://b.test/", "b.test")[0]
    assert "cleartext = true" in Fields(config).remark(Request(1, "http://a.test/", "a.test"))
    open_ = told(auth="bearer env:KEY", cleartext=True)
    assert SECRET.encode() in sent(open_, "http://a.test/")[0]
    assert Fields(open_).remark(Request(1, "http://a.test/", "a.test")) == ""


def test_other_ports_do_not_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect may lead to a server of somebody else on the same machine."""
    monkeypatch.setenv("KEY", SECRET)
    url, own = "https://a.test:8443/", {"auth": "bearer env:KEY", "headers": {"X-Key": "env:KEY"}, "cleartext": True}
    assert SECRET.encode() not in sent(told(**own), url)[0]
    assert SECRET.encode() not in sent(told(**own), "http://a.test:8080/")[0]
    assert "ports = [8443]" in Fields(told(**own)).remark(Request(1, url, "a.test"))
    assert SECRET.encode() in sent(told(**own, ports=[8443]), url)[0]
    assert SECRET.encode() in sent(told(**own, ports=[8443]), "https://a.test/")[0]


def test_later_fields_take_the_place_of_earlier_ones() -> None:
    config = Config().replace({"fetch.headers": {"accept": "text/plain"}, "host.*.a.test": {"headers": {"DNT": "1"}}})
    config = config.replace({"fetch.headers": {"accept": "text/plain", "dnt": "0"}})
    head, _ = sent(config, "https://x.a.test/", "x.a.test")
    assert head.lower().count(b"\r\naccept: text/plain\r\n") == 1
    assert b"Accept: text/html" not in head
    assert b"DNT: 1\r\n" in head
    assert b"dnt: 0\r\n" not in head
    assert b"dnt: 0\r\n" in sent(config, "https://b.test/", "b.test")[0]


def test_unconditional_requests_share_one_head() -> None:
    """So that a handle of libcurl sees that nothing changed."""
    fields = Fields(told(headers={"DNT": "1"}))
    for host in ("a.test", "b.test"):
        requests = [Request(number, f"https://{host}/{number}", host) for number in range(2)]
        assert fields.of(requests[0], True) is fields.of(requests[1], True)
