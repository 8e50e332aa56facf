"""A `Fault` is a way in which a host of the test web misbehaves; faults are switched on per host."""

from dataclasses import dataclass
from typing import Literal, cast, get_args

from gossamer.errors import ConfigError

FaultKind = Literal["refuse", "hang", "reset", "cut", "garbage", "slow"]
_MEANING = {
    "refuse": "closes the connection without an answer",
    "hang": "never answers",
    "reset": "sends half of the answer, then resets the connection",
    "cut": "sends half of the answer, then closes the connection",
    "garbage": "answers something that is not HTTP",
    "slow": "sends so many bytes a second (slow:BYTES)",
}
SLOW_BYTES = 5_000


@dataclass(frozen=True)
class Fault:
    kind: FaultKind
    bytes_per_s: int = SLOW_BYTES  # of a slow host

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Parses a fault by its name on the command line: hang, reset, slow:2000, ..."""
        kind, colon, amount = text.partition(":")
        if kind not in get_args(FaultKind) or (colon and not (kind == "slow" and amount.isdecimal())):
            known = "; ".join(f"{name} {meaning}" for name, meaning in _MEANING.items())
            raise ConfigError(f"no such fault: {text!r}. {known}")
        return cls(cast(FaultKind, kind), max(1, int(amount)) if colon else SLOW_BYTES)
