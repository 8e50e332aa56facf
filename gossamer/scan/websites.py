"""This module reads the list of websites: what a line means, a website's name, and which URLs belong to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gossamer.config import Config
from gossamer.crawl.scope import WebsiteRules, bare
from gossamer.crawl.seeds import check_text, lines
from gossamer.errors import SeedError
from gossamer.web.url import domain_of, host_of, normalise, origin_of

_SHOWN = 3  # lines that an error quotes


@dataclass(frozen=True)
class Website:
    name: str  # of the website, and of what is kept about it
    start: str  # URL of the page that depth is counted from

    @property
    def folder(self) -> str:
        """Returns its name as a file's: it may have a port."""
        return quote(self.name, safe=".-_")

    @staticmethod
    def site(host: str, scope: str) -> str:
        """Returns what all hosts of a website have in common, and those of no other website in the same crawl."""
        return domain_of(host) if scope == "domain" else bare(host)


@dataclass(frozen=True)
class Listed:
    """`Listed` is the content of a list."""

    websites: list[Website]
    duplicates: list[str]  # lines that name a website again
    invalid: list[str]  # lines that are no web address


def name_of(url: str, scope: str) -> str:
    """Returns the website that a normalised URL belongs to. By host: its name without `www.`, with the port if it is
    unusual; by domain: the registrable domain."""
    if scope == "domain":
        return domain_of(host_of(url))
    return origin_of(url).partition("//")[2].removeprefix("www.")


def read_list(paths: Iterable[str | Path], scope: str) -> Listed:
    """Reads one website per line: a host name, or the URL to begin with. Blank lines and # lines do not count."""
    found: dict[str, Website] = {}
    duplicates, invalid = [], []
    for name in paths:
        path = Path(name)
        if not path.is_file():
            raise SeedError(f"{name} is no file; write the websites to scan into one, one host name or URL per line")
        for line in lines(path.read_bytes(), check_text(path)):
            url = normalise(line if "://" in line else f"http://{line}/")
            if url is None:
                invalid.append(line)
                continue
            website = Website(name_of(url, scope), url)
            if website.name in found:
                duplicates.append(line)
            else:
                found[website.name] = website
    if not found:
        shown, is_one = ", ".join(repr(line) for line in invalid[:_SHOWN]), len(invalid) == 1
        wrong = f": {shown} {'is no web address' if is_one else 'are no web addresses'}" if invalid else ""
        raise SeedError(f"nothing to scan{wrong}; write one host name or URL per line, such as example.org")
    return Listed(list(found.values()), duplicates, invalid)


def rules_of(website: Website, config: Config, now_s: float) -> WebsiteRules:
    """Returns the rules of a website as a seed. A host with and without `www.` is the same website, and its scheme does
    not matter, but its port does."""
    include = None
    if config.crawl.scope == "host" and not config.crawl.include:
        names = (website.name, f"www.{website.name}")
        include = tuple(f"{scheme}://{name}/*" for scheme in ("http", "https") for name in names)
    return WebsiteRules(bare(host_of(website.start)), now_s, pages=config.crawl.pages or None, include=include)


def crawl_config(config: Config, keep: bool) -> Config:
    """Returns the configuration of a client's crawl. What limits a crawl is for each website by itself."""
    values: dict[str, object] = {"crawl.agent": "a0", "site.agents": 1, "crawl.seeds": []}
    values |= {"crawl.pages": 0, "crawl.minutes": 0.0}
    if config.crawl.scope == "host":  # a domain may have many websites then
        values |= {"limits.hosts_per_domain": 0, "limits.pages_per_domain": 0}
    if not keep:  # no record may refer to one of another website, which may be removed by then
        values["archive.digests"] = 0
    return config.replace(values)
