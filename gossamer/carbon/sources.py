"""This module makes carbon signals by name."""

import difflib
from collections.abc import Callable
from pathlib import Path

from gossamer.carbon.feeds import FEEDS, FeedSignal, Patience
from gossamer.carbon.grid import Mean, Mix, Solar
from gossamer.carbon.signals import Replay, Signal, load
from gossamer.errors import ConfigError

OFFLINE: dict[str, Callable[[], Signal]] = {"mix": Mix, "mean": Mean, "solar": Solar}
NAMES = (*OFFLINE, *FEEDS)


def signal(
    name: str,
    fallback: str = "mix",
    token: str = "",
    url: str = "",
    patience: Patience | None = None,
    stale_s: float = 0,
) -> Signal:
    """Returns the signal `name`, of NAMES or a CSV or Parquet file. `fallback`, an offline one, fills its gaps, and
    stands in for values of a file that are older than `stale_s`, unless that is 0."""
    if name in OFFLINE:
        return OFFLINE[name]()
    if fallback not in OFFLINE:
        raise ConfigError(f'there is no offline signal "{fallback}"; take one of {", ".join(OFFLINE)}')
    otherwise = OFFLINE[fallback]()
    if name in FEEDS:
        if not token and name != "uk":
            raise ConfigError(f'signal "{name}" needs a token')
        return FeedSignal(FEEDS[name](token, url), otherwise, patience)
    if name.endswith((".csv", ".parquet")):
        return Replay(load(Path(name)), otherwise, stale_s)
    near = difflib.get_close_matches(name, NAMES, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(NAMES)}, and files (.csv, .parquet)"
    raise ConfigError(f'there is no signal "{name}"; {hint}')
