"""`Proxies` decides by which proxy a host is reached. A proxy looks names up itself: the address guard cannot."""

from gossamer.config import Config
from gossamer.config.host_overrides import of_host
from gossamer.config.secrets import NO_PROXY, PROXY, is_reference, read_secret
from gossamer.errors import ConfigError


class Proxies:
    """`Proxies` has the proxy of every host, with its credentials; only libcurl gets to see them."""

    def __init__(self, config: Config) -> None:
        """Reads the secrets that the configuration refers to; a mistake there is an error."""
        self._for_all = _proxy("fetch.proxy", config.fetch.proxy)
        self._by_host = {
            host: _proxy(f'host."{host}".proxy', given["proxy"])
            for host, given in config.host.items()
            if "proxy" in given
        }
        self.are_any = bool(self._for_all or self._by_host)

    def of(self, host: str) -> str:
        """Returns the proxy's address as libcurl takes it; empty: there is none."""
        own = of_host(self._by_host, host) if self._by_host else None
        return self._for_all if own is None else own


def _proxy(name: str, value: str) -> str:
    if value == NO_PROXY:
        return ""
    if not is_reference(value):
        return value
    found = read_secret(name, value)
    if not PROXY.fullmatch(found):
        raise ConfigError(f"{name}: what {value} has must be like http://user:password@proxy.example.org:3128")
    return found
