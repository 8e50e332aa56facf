"""`Purpose` decides, before a page is fetched, whether its publisher refuses what the crawl is for."""

from dataclasses import dataclass

from gossamer.config import Crawl
from gossamer.web.preferences import Said, asked, line_of_file

_NOTHING = Said()


@dataclass(frozen=True, slots=True)
class Purpose:
    """`Purpose` has what the pages of a crawl are for, and the file that origins are asked for besides robots.txt."""

    name: str = ""
    file: str = ""

    @classmethod
    def of(cls, crawl: Crawl) -> "Purpose":
        return cls(crawl.purpose, crawl.opt_out_file if crawl.purpose else "")

    def with_line(self, asks: str, line: str) -> str:
        """Returns what is asked, with the line of that file that decides."""
        return "\n".join(filter(None, (asks, line_of_file(self.file, line))))

    def refusal(self, asks: str) -> str:
        """Returns why a page is not fetched; empty: it is."""
        return asked(asks, _NOTHING, "").refusal(self.name) if asks and self.name else ""
