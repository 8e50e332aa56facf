"""This module changes the list of sites: the operator gives it a new version, and brings it to all sites.

The first site of the list that is not gone decides between two operators: it takes a list only in the place of the
version that the operator saw. The others take any later one. A site that cannot be reached is named; it has the old
list until the command is repeated.
"""

import re
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from gossamer.cluster.federation import status
from gossamer.cluster.federation_file import Federation, load, parsed
from gossamer.cluster.remote_site import Connections, Refused
from gossamer.cluster.site_list import write_text
from gossamer.cluster.site_service import LIST, NewList
from gossamer.errors import ConfigError, SiteError

_VERSION = re.compile(r"^version\s*=.*\n?", re.MULTILINE)
_TABLE = r"^\[{}\][^\n]*\n(?:(?!\[).*\n?)*"


@dataclass
class Changed:
    """`Changed` is what became of a change."""

    version: int
    taken: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # by site: why it does not have it

    def in_words(self) -> str:
        lines = [f"version {self.version} of the list of sites is at {', '.join(self.taken) or 'no running site'}"]
        lines += [f"  not at {site}: {why}" for site, why in self.missing.items()]
        return "\n".join(
            [*lines, *(["repeat the command when they run, or bring the file there"] if self.missing else [])]
        )


def change(path: Path, text: str, lost: str = "") -> Changed:
    """Makes this text the next version of the list of sites, everywhere but at a site that is lost."""
    latest = max([load(path).shared.version, *(row["version"] or 1 for row in status(load(path)))])
    text = versioned(text, latest + 1)
    new = parsed(path, text)
    new.check()
    found, before = Changed(latest + 1), latest
    with closing(Connections(new)) as connections:
        for site in (name for name, one in new.sites.items() if not one.gone and name != lost):
            try:
                connections.order(site, LIST, NewList(text=text, before=before))
                found.taken.append(site)
            except SiteError as error:
                if before and (isinstance(error, Refused) or site not in new.here):
                    raise SiteError(f"nothing was changed, as {site} decides which list is next: {error}") from None
                found.missing[site] = str(error)
            before = 0
    write_text(path, text)
    return found


def versioned(text: str, version: int) -> str:
    """Returns the text of a file with this version of its list of sites."""
    table = re.search(_TABLE.format("federation"), text, re.MULTILINE)
    if table is None:
        return f"[federation]\nversion = {version}\n\n{text}"
    head, _, rest = table[0].partition("\n")
    return text[: table.start()] + f"{head}\nversion = {version}\n{_VERSION.sub('', rest)}" + text[table.end() :]


def with_site(text: str, name: str, address: str) -> str:
    """Adds a site, below the others."""
    if re.search(_TABLE.format(rf"sites\.{name}"), text, re.MULTILINE):
        raise ConfigError(f"there is a site {name} already")
    end = [found.end() for found in re.finditer(_TABLE.format(r"sites\.\w+"), text, re.MULTILINE)]
    at = end[-1] if end else len(text)
    return text[:at].rstrip("\n") + f'\n\n[sites.{name}]\naddress = "{address}"\n\n' + text[at:]


def with_key(text: str, site: str, key: str, value: str) -> str:
    """Sets a key of a site."""
    table = re.search(_TABLE.format(rf"sites\.{site}"), text, re.MULTILINE)
    if table is None:
        raise ConfigError(f"there is no table [sites.{site}] in the file: edit it, then `gossamer federation set FILE`")
    head, _, rest = table[0].partition("\n")
    rest = re.sub(rf"^{key}\s*=.*\n?", "", rest, flags=re.MULTILINE)
    return text[: table.start()] + f"{head}\n{key} = {value}\n{rest}" + text[table.end() :]


def changed_text(federation: Federation, action: str, words: list[str]) -> str:
    """Returns the text of the file after one of the commands that change it."""
    text, (name, *more) = federation.path.read_text("utf-8"), words or [""]
    usage = {"add-site": "NAME HOST:PORT", "retire-site": "NAME", "lose-site": "NAME", "set": ""}[action]
    if len(words) != len(usage.split()):
        raise ConfigError(f"write `gossamer federation {action} {federation.path.name} {usage}`".rstrip())
    if action == "add-site":
        return with_site(text, name, more[0])
    if action != "set":
        federation.check_site(name)
    if action == "retire-site":
        return with_key(text, name, "weight", "0.0")
    return with_key(text, name, "gone", "true") if action == "lose-site" else text
