"""Who crawls must be said before anybody's server is visited."""

import ipaddress

from gossamer.config import Config, Resolve
from gossamer.errors import ConfigError
from gossamer.fetch.resolver import checked_map

WHO = "https://example.org/about-my-crawl"
_ON_THE_COMMAND_LINE = f"--contact {WHO} (or an e-mail address), or fetch.contact in the file"


def check_contact(config: Config, remedy: str = _ON_THE_COMMAND_LINE, doing: str = "crawling") -> None:
    """Whoever crawls a web of their own need not say it. `remedy`: how it is said."""
    if not (config.fetch.contact or _is_own(config.resolve)):
        raise ConfigError(f"say who is {doing}, so that the people whose servers you visit can reach you: {remedy}")


def _is_own(resolve: Resolve) -> bool:
    """Whether `resolve.map` leads to addresses only that nobody else's server can have."""
    addresses = [ipaddress.ip_address(address) for address, _ in checked_map(resolve).values()]
    return bool(addresses) and not any(address.is_global for address in addresses)
