"""What a configuration key is: a field of a dataclass with a meaning and a rule, and how values are checked by it."""

import dataclasses
import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, TypeVar, get_origin, get_type_hints

from gossamer.config.folders import check_folder
from gossamer.errors import ConfigError

T = TypeVar("T")

NOWHERE: Mapping[str, list[str]] = MappingProxyType({})

CONTACT = "you@example.org or https://example.org/about-my-crawl"

# What the items of a list must look like, by an example.
_FORMS = {"*/blog/*": re.compile(r"(\*|https?://).*"), "text/html": re.compile(r"[^\s/;]+/[^\s/;]+")}
# What a string must look like, by an example.
_WORDS = {
    "a0": re.compile(r"[A-Za-z0-9_]{1,64}"),  # no hyphen: it separates names in the names of files
    "Gossamer": re.compile(r"[A-Za-z0-9_-]+"),
    CONTACT: re.compile(r"|(mailto:)?[^\s@]+@[^\s@.]+(\.[^\s@.]+)*|https?://[^\s/?#]+\S*", re.IGNORECASE),
    "": re.compile(r"[^\x00-\x1f\x7f]*"),
}
_LONGEST_S = 1e9  # thirty years; what computes with times stays in range


def key(
    default: Any,
    meaning: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    like: str = "",
    words: Mapping[str, Any] = MappingProxyType({}),
    folder: bool = False,
) -> Any:
    """A configuration key: its default, what it means, and what is allowed. `words` stand for values; a `folder` is a
    directory of this machine, or a list of them."""
    metadata = {"meaning": meaning, "least": least, "most": most, "choices": choices, "like": like, "words": words}
    metadata["folder"] = folder
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def section(part: T, name: str, values: Mapping[str, Any], elsewhere: Mapping[str, list[str]] = NOWHERE) -> T:
    """A section with keys changed; every value is checked. `elsewhere`: the keys of other sections."""
    fields = {f.name: f for f in dataclasses.fields(part)}  # type: ignore[arg-type]
    types = get_type_hints(type(part))
    new = {}
    for leaf, value in values.items():
        if leaf not in fields:
            others = [other for other, known in elsewhere.items() if leaf in known]
            hint = f"; did you mean {others[0]}.{leaf}?" if others else ""
            raise ConfigError(
                f"unknown key {name}.{leaf}{hint}" if hint else unknown(f"{name}.{leaf}", leaf, list(fields))
            )
        new[leaf] = _value(f"{name}.{leaf}", value, types[leaf], fields[leaf].metadata)
    return dataclasses.replace(part, **new)  # type: ignore[type-var]


def _value(name: str, value: Any, kind: Any, rule: Mapping[str, Any]) -> Any:
    kind = get_origin(kind) or kind
    if isinstance(value, str) and value in rule["words"]:
        return rule["words"][value]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{name} must be {KINDS[kind]}, not {value!r}")
    if rule["least"] is not None and not value >= rule["least"]:
        raise ConfigError(f"{name} must be at least {rule['least']:g}, not {value!r}")
    if rule["most"] is not None and value > rule["most"]:
        raise ConfigError(f"{name} must be at most {rule['most']}, not {value!r}")
    if rule["choices"] and value not in rule["choices"]:
        raise ConfigError(f"{name} must be one of {', '.join(rule['choices'])}, not {value!r}")
    if kind is list and not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{name} must be a list of strings")
    if kind is str and not _WORDS.get(rule["like"], _WORDS[""]).fullmatch(value):
        raise ConfigError(
            f"{name} must be one line of text{', like ' + rule['like'] if rule['like'] else ''}, not {value!r}"
        )
    if kind is float and value > _LONGEST_S:
        raise ConfigError(f"{name} must be at most {_LONGEST_S:g}, not {value!r}")
    for item in value if kind is list and rule["like"] else ():
        if not _FORMS[rule["like"]].fullmatch(item):
            raise ConfigError(f"{name}: {item!r} can match nothing; write it like {rule['like']!r}")
    for item in ([value] if kind is str else value) if rule["folder"] else ():
        check_folder(item)
    if kind is dict and not all(isinstance(item, str) for item in value.values()):
        raise ConfigError(f"{name} must map strings to strings")
    return value


def unknown(what: str, name: str, known: list[str]) -> str:
    """That a key is not known, and which may have been meant."""
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"unknown key {what}; {hint}"


def allowed(rule: Mapping[str, Any]) -> str:
    return f" ({', '.join(rule['choices'])})" if rule["choices"] else ""


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        entries = (f"{toml(name)} = {toml(item)}" for name, item in value.items())
        return f"{{ {', '.join(entries)} }}" if value else "{}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)


KINDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
