"""This module reads the list of websites: what a line means, a website's name, and which URLs belong to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gossamer.config import Config
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


_DIGESTS = 25_000  # as many pages as a host may have by default; a client has several crawlers


def config_of(website: Website, config: Config) -> Config:
    """Returns the configuration for the crawl of one website. A host with and without `www.` is the same website, and
    its scheme does not matter: the whole domain is in scope, and patterns leave only the two names."""
    values: dict[str, object] = {"crawl.agent": "a0", "site.agents": 1, "crawl.seeds": []}
    values["archive.digests"] = min(config.archive.digests, _DIGESTS)
    if config.crawl.scope == "host":
        names = (website.name, f"www.{website.name}")
        values["crawl.scope"] = "domain"
        if not config.crawl.include:
            values["crawl.include"] = [f"{scheme}://{name}/*" for scheme in ("http", "https") for name in names]
        else:  # the user's own patterns; other names of the domain are left out
            values["crawl.scope"] = "host"
    return config.replace(values)
