"""These pure functions decide when an agent takes pages and ends a round early; the simulator compiles them, too."""

TOP_UP_S = 0.5  # how often a workbench is topped up that is not nearly empty
STARVING_S, STARVING_COSTS = 0.25, 4.0  # a round with too few pages to fetch ends soon, but commits take a fifth of all
IDLE_S, IDLE_COSTS = 2.0, 10.0  # a round that merely has idle connections is in less of a hurry

BARREN_S, BARREN_COSTS = 10.0, 20.0  # a round without anything for them is in none


def is_top_up_due(outstanding: int, width: int, is_starving: bool, is_idle: bool, is_time: bool) -> bool:
    """Returns whether to top up the workbench: it stays at least half full, and full while connections are idle."""
    is_low = outstanding <= width // 2 and not is_starving
    # A few hosts fill it just to a half: it must not be topped up for every page that it loses.
    is_urgent = is_low and outstanding <= width // 4
    return is_urgent or (is_time and (is_low or is_starving or is_idle))


def ends_early(is_starving: bool, is_idle: bool, promises: bool, since_s: float, cost_s: float) -> bool:
    """Returns whether a round ends early: its links may lead to hosts that would keep idle connections busy. It waits
    so long after the last commit, or so many times what that took. A round that `promises` no such hosts is in no hurry
    at all: in a crawl's tail most pages lead to known pages, or to hosts that are busy already. For pages of other
    agents, a round waits as if it merely had idle connections."""
    if not promises:
        return (is_starving or is_idle) and since_s >= max(BARREN_S, BARREN_COSTS * cost_s)
    if is_starving:
        return since_s >= max(STARVING_S, STARVING_COSTS * cost_s)
    return is_idle and since_s >= max(IDLE_S, IDLE_COSTS * cost_s)
