"""`Waiting` finds what a scan waits for: failed pages are tried again after a minute or so; people may watch."""

from collections.abc import Iterable, Mapping

from gossamer.crawl.stats import CALM
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
_QUIET_S = 10.0  # a website without progress for so long is reported


def in_words(outcomes: Iterable[str], until_s: float | None) -> str:
    """Returns why a website waits, as far as it is known: what went wrong that may pass, and until when it waits."""
    kinds = [word.replace("_", " ") for word in outcomes if word and word not in (*CALM, *_LASTING)]
    until = [f"tried again at {moment(until_s)[11:]}"] if until_s else []
    return ", ".join(kinds + until)


class Waiting:
    """Call `look` now and then; `delay_s` is the least time between two pages of a website."""

    def __init__(self, delay_s: float) -> None:
        self._quiet_s = max(_QUIET_S, 3 * delay_s)
        self._moved: dict[str, tuple[int, float]] = {}  # by website: pages when last seen to change, and when

    def look(self, under_way: Mapping[str, tuple[int, str]], now_s: float) -> list[str]:
        """Takes websites under way, with pages so far and what went wrong; returns those that stand still, as text."""
        found = []
        for name, (pages, trouble) in under_way.items():
            before, since_s = self._moved.get(name, (-1, now_s))
            if before != pages:
                self._moved[name] = (pages, since_s := now_s)
            if now_s - since_s >= self._quiet_s:
                found.append(f"{name} (no page for {now_s - since_s:.0f} s{': ' + trouble if trouble else ''})")
        return found
