"""Which websites a scan waits for: a page that failed is tried again after a minute or so, and somebody may watch."""

from collections.abc import Mapping

from gossamer.crawl.stats import Stats
from gossamer.watch.figures import moment

_LASTING = (
    "gone",
    "rejected",
    "forbidden",
    "no_name",
    "refused_address",
    "bad_redirect",
    "refused_type",
)  # not tried again soon
_QUIET_S = 10.0  # a website of which nothing comes for so long is worth a word


def in_words(stats: Stats) -> str:
    """What keeps a website, as far as it is known: what went wrong that may pass, and until when it waits."""
    kinds = [word.replace("_", " ") for word in stats.errors if word not in _LASTING]
    until = [f"tried again at {moment(stats.waits_until_s)[11:]}"] if stats.waits_until_s else []
    return ", ".join(kinds + until)


class Waiting:
    """`look` it over now and then; `delay_s` is what lies between two pages of a website at least."""

    def __init__(self, delay_s: float) -> None:
        self._quiet_s = max(_QUIET_S, 3 * delay_s)
        self._moved: dict[str, tuple[int, float]] = {}  # by website: pages when last seen to change, and when

    def look(self, under_way: Mapping[str, tuple[int, str]], now_s: float) -> list[str]:
        """Websites under way, with their pages so far and what went wrong; those that stand still, in words."""
        found = []
        for name, (pages, trouble) in under_way.items():
            before, since_s = self._moved.get(name, (-1, now_s))
            if before != pages:
                self._moved[name] = (pages, since_s := now_s)
            if now_s - since_s >= self._quiet_s:
                found.append(f"{name} (no page for {now_s - since_s:.0f} s{': ' + trouble if trouble else ''})")
        return found
