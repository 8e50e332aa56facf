"""This package turns one TOML file into typed sections; `Config` is what all other packages see of it."""

from gossamer.config.file import document as document
from gossamer.config.file import load as load
from gossamer.config.file import meaning as meaning
from gossamer.config.file import page as page
from gossamer.config.file import parse_value as parse_value
from gossamer.config.schema import toml as toml
from gossamer.config.sections import BY_STORE as BY_STORE
from gossamer.config.sections import CROSS_OVER as CROSS_OVER
from gossamer.config.sections import FIREWALL as FIREWALL
from gossamer.config.sections import KEEP_ALIVE_S as KEEP_ALIVE_S
from gossamer.config.sections import NEVER as NEVER
from gossamer.config.sections import PROCESSES as PROCESSES
from gossamer.config.sections import PULL as PULL
from gossamer.config.sections import REFRESH as REFRESH
from gossamer.config.sections import Archive as Archive
from gossamer.config.sections import Carbon as Carbon
from gossamer.config.sections import Config as Config
from gossamer.config.sections import Crawl as Crawl
from gossamer.config.sections import Fetch as Fetch
from gossamer.config.sections import Host as Host
from gossamer.config.sections import Index as Index
from gossamer.config.sections import Limits as Limits
from gossamer.config.sections import Polite as Polite
from gossamer.config.sections import Refresh as Refresh
from gossamer.config.sections import Resolve as Resolve
from gossamer.config.sections import Site as Site
