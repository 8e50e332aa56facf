"""`Federation` is the content of its file: which sites there are, where, at what price, and what they crawl."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from gossamer.archive.mark import is_federation
from gossamer.archive.places import exists
from gossamer.cluster.keys import RESERVED
from gossamer.config import BY_STORE, PROCESSES, Config
from gossamer.config.folders import Address, Place, as_place
from gossamer.config.schema import key, section
from gossamer.errors import ConfigError
from gossamer.placement.partitioners import NAMES, check_places

NOWHERE = 999.0  # degrees
_MOST_SITES = 250  # the host map has a byte for each host


@dataclass(frozen=True)
class Site:
    """`Site` is one place of ours."""

    address: Annotated[str, key("where other sites reach its nats-server: HOST:PORT")] = ""
    listen: Annotated[str, key("where its nats-server listens, if that is not its address: HOST:PORT")] = ""
    directory: Annotated[
        str, key("holds this site's crawl, or its address; default: its name, beside the file", place=True)
    ] = ""
    agents: Annotated[int, key("processes that share its part of the crawl", least=1, most=200)] = 1
    weight: Annotated[float, key("its share of the hosts; 0: it gives away those it has", least=0)] = 1.0
    egress_per_gb: Annotated[float, key("price of a gigabyte that it sends, in a common currency", least=0)] = 0.0
    cpu_per_hour: Annotated[
        float, key("price of an hour of one of its cores; it counts beside egress_per_gb", least=0)
    ] = 0.0
    wait_per_hour: Annotated[float, key("price of an hour in which it waits for a page, or for a link", least=0)] = 0.0
    latitude: Annotated[float, key("where it is, in degrees, for partitioners by distance", least=-90)] = NOWHERE
    longitude: Annotated[float, key("the same", least=-180)] = NOWHERE
    gone: Annotated[bool, key("it is switched off for good: nobody speaks with it, its archive is still read")] = False
    countries: Annotated[list[str], key("for the partitioner region: countries of its hosts (two letters)")] = field(
        default_factory=list
    )


@dataclass(frozen=True)
class Shared:
    """`Shared` holds what all sites agree on."""

    partitioner: Annotated[str, key("which site a host belongs to", choices=NAMES)] = "ring"
    version: Annotated[int, key("of the list of sites: raise it when sites or weights change", least=1)] = 1
    replicas: Annotated[int, key("how many sites keep everything; 2 survive the loss of one", least=1, most=9)] = 1
    remote_s: Annotated[float, key("a site elsewhere that is silent for so long is left out", least=0.1)] = 15.0
    remote_mb: Annotated[float, key("most that one command fetches from sites elsewhere", least=0)] = 10_000.0
    rebalance_hours: Annotated[float, key("hosts may change sites so often; 0: only by command", least=0)] = 0.0
    rebalance_mb: Annotated[float, key("a rebalance moves no more than that", least=0)] = 100.0
    keys: Annotated[str, key("folder of the certificates by which sites know each other, beside the file")] = "keys"


@dataclass(frozen=True)
class Federation:
    path: Path
    shared: Shared
    sites: Mapping[str, Site] = field(default_factory=dict)
    config: Config = field(default_factory=Config)

    @property
    def keys(self) -> Path:
        return self._beside(self.shared.keys)

    def directory(self, site: str) -> Place:
        found = as_place(self.sites[site].directory or site)
        return self._beside(found) if isinstance(found, Path) else found

    @property
    def here(self) -> list[str]:
        """Returns the sites whose archives are on this machine, or in a bucket."""
        return [site for site in self.sites if exists(self.directory(site))]

    @property
    def elsewhere(self) -> list[str]:
        """Returns the others, unless they are gone."""
        here = self.here
        return [name for name, site in self.sites.items() if name not in here and not site.gone]

    def config_of(self, site: str) -> Config:
        """Returns the configuration for the agents of a site."""
        values = {"crawl.agent": home_of(site), "site.agents": self.sites[site].agents}
        if self.config.crawl.pages:
            weights = {name: 0.0 if one.gone else one.weight for name, one in self.sites.items()}
            share = weights[site] / sum(weights.values())
            # A site that takes no hosts visits nothing; a limit would end it before it has given away those it has.
            values["crawl.pages"] = max(1, round(self.config.crawl.pages * share)) if share else 0
        return self.config.replace(values)

    def check_site(self, site: str) -> None:
        if site not in self.sites:
            raise ConfigError(f"{self.path.name} has no site {site}; it has {', '.join(self.sites)}")

    def check(self) -> None:
        """Raises an error if nobody can crawl like this: no site begins with it, and no list of sites becomes it."""
        from gossamer.crawl.opening import WHO, check_contact  # only for those who crawl
        from gossamer.frontier.scoring import check_scores
        from gossamer.frontier.strategies import strategy

        check_contact(self.config, f'contact = "{WHO}" (or an e-mail address) under [fetch] of {self.path.name}')
        agents = sum(site.agents for site in self.sites.values())  # of those that are gone, the links are gone
        check_scores(strategy(self.config.crawl.order), self.config, agents)

    def _beside(self, name: str | Path) -> Path:
        return self.path.parent / name

    @property
    def first(self) -> str:
        """Returns the site that reads the seeds."""
        return next(iter(self.sites))


def home_of(site: str) -> str:
    """Returns the agent that speaks for a site."""
    return f"{site}_a0"


def load(path: Path) -> Federation:
    try:
        return parsed(path, path.read_text("utf-8"))
    except (FileNotFoundError, IsADirectoryError):
        raise ConfigError(f"{path} is no file; docs/federation.md shows what is in the file of a federation") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def parsed(path: Path, text: str) -> Federation:
    """Returns what the file of that name would mean with this text."""
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    shared = section(Shared(), "federation", _table(values.pop("federation", {}), "federation"))
    tables = _table(values.pop("sites", {}), "sites")
    if not tables:
        raise ConfigError(f"{path} has no site: write one table for each, such as [sites.paris]")
    if len(tables) > _MOST_SITES:
        raise ConfigError(f"{path} has {len(tables)} sites; {_MOST_SITES} are the most")
    sites = {}
    for name, given in tables.items():
        if not re.fullmatch(r"[a-z][a-z0-9]{0,30}", name):
            raise ConfigError(f"[sites.{name}]: a site's name is a word of small letters and digits")
        if name in RESERVED:
            raise ConfigError(f"[sites.{name}]: no site can be called {name}, as a certificate has that name")
        sites[name] = section(Site(), f"sites.{name}", _table(given, f"sites.{name}"))
        for leaf in ("address", "listen"):
            text = getattr(sites[name], leaf)
            if not re.fullmatch(r"[^\s:]+:\d{1,5}", text) and (text or leaf == "address"):
                raise ConfigError(f'sites.{name}.{leaf}: write it like {leaf} = "192.0.2.7:4222"')
    at: dict[str, str] = {}
    for name, site in sites.items():
        if site.address in at:
            raise ConfigError(f"{at[site.address]} and {name} have the same address, {site.address}")
        at[site.address] = name
    _check_apart(Federation(path.resolve(), shared, sites))
    check_places(shared.partitioner, {name: asdict(site) for name, site in sites.items()})
    config = Config().replace(values)
    if config.site.exchange == BY_STORE or config.site.engine != PROCESSES:
        raise ConfigError(
            f"{path}: site.exchange and site.engine are for a crawl that is not in a federation; its sites use "
            "nats-server and processes: remove both keys"
        )
    if config.crawl.render:
        raise ConfigError(
            f"{path}: crawl.render is for a crawl that is not in a federation: a page's scripts may be on hosts of "
            "another site, which alone can be polite to them; remove the key"
        )
    return Federation(path.resolve(), shared, sites, config)


def _check_apart(federation: Federation) -> None:
    """Raises an error if two sites would write to one archive, or if replicas are asked for where there can be none."""
    at: dict[str, str] = {}
    for name in federation.sites:
        place = federation.directory(name)
        there = str(place.resolve() if isinstance(place, Path) else place)
        if there in at:
            raise ConfigError(f"{at[there]} and {name} have the same directory, {place}: give each site its own")
        at[there] = name
        if isinstance(place, Address) and federation.shared.replicas > 1:
            raise ConfigError(
                f"federation.replicas is for sites in directories; {name} is at {place}, which its store keeps: "
                "remove federation.replicas, or give the site a directory"
            )


def check_directory(path: Place) -> Place:
    """Returns the directory or address of a crawl: not the file of a federation, which stands for several."""
    if isinstance(path, Path) and is_federation(path):
        federation = load(path)
        names = ", ".join(str(federation.directory(name)) for name, site in federation.sites.items() if not site.gone)
        raise ConfigError(f"{path} is the file of a federation: write the directory of one of its sites ({names})")
    return path


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a section: write its keys under [{name}]")
    return value
