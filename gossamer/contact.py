"""Who crawls must be said before anybody's server is visited."""

from gossamer.config import Config
from gossamer.errors import ConfigError

WHO = "https://example.org/about-my-crawl"
_ON_THE_COMMAND_LINE = f"--contact {WHO} (or an e-mail address), or fetch.contact in the file"


def check_contact(config: Config, remedy: str = _ON_THE_COMMAND_LINE, doing: str = "crawling") -> None:
    """Whoever crawls a web of their own, by `resolve.map`, need not say it. `remedy`: how it is said."""
    if not (config.fetch.contact or config.resolve.map):
        raise ConfigError(f"say who is {doing}, so that the people whose servers you visit can reach you: {remedy}")
