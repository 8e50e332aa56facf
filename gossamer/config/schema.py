"""This module defines what a configuration key is: a typed field with a meaning and bounds. It checks values by them.

msgspec checks types and bounds. The words of an error are ours: they name the key, and what to write instead.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import tomli_w

from gossamer.config.folders import as_place, check_folder
from gossamer.errors import ConfigError

T = TypeVar("T")

NOWHERE: Mapping[str, list[str]] = MappingProxyType({})

CONTACT = "you@example.org or https://example.org/about-my-crawl"
KINDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}

# What a string, or each item of a list, must look like, by an example of it.
_FORMS = {
    "*/blog/*": re.compile(r"(\*|https?://|re:).*"),
    "*/app/*": re.compile(r"auto|(\*|https?://|re:).*"),
    "text/html": re.compile(r"[^\s/;]+/[^\s/;]+"),
    "a0": re.compile(r"[A-Za-z0-9_]{1,64}"),  # no hyphen: it separates names in the names of files
    "Gossamer": re.compile(r"[A-Za-z0-9_-]+"),
    CONTACT: re.compile(r"|(mailto:)?[^\s@]+@[^\s@.]+(\.[^\s@.]+)*|https?://[^\s/?#]+\S*", re.IGNORECASE),
    "shop:product": re.compile(r"[^\x00-\x1f\x7f]+:[A-Za-z_][\w.]*"),
    "shop:": re.compile(r"|[^\x00-\x1f\x7f]+:[A-Za-z_][\w.]*"),
    "": re.compile(r"[^\x00-\x1f\x7f]*"),
}
_WRONG = {"shop:product": "names no function"}  # what is wrong with an item, if not that it can match nothing
_HINTS: dict[type[Any], dict[str, Any]] = {}  # to resolve them takes longer than to check a value
_LONGEST_S = 1e9  # thirty years; what computes with times stays in range
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]i?B)?", re.IGNORECASE)
MOST_BYTES = 4 * 10**9  # the tables have 32 bits for the length of a record
EXPRESSION = "re:"  # a pattern that begins so is a regular expression


def key(
    meaning: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    like: str = "",
    words: Mapping[str, Any] = MappingProxyType({}),
    folder: bool = False,
    place: bool = False,
) -> msgspec.Meta:
    """Returns the metadata of a key, for `Annotated`. `like` is an example, `words` stand for values, a `folder` is a
    directory of this machine, and a `place` a directory or an address; or lists of them."""
    rule = {"choices": choices, "like": like, "words": words, "folder": folder, "place": place}
    return msgspec.Meta(description=meaning, ge=least, le=most, extra=rule)


def keys(kind: type[Any]) -> dict[str, Any]:
    """Returns the keys of a section, with their annotated types, in order."""
    if kind not in _HINTS:
        hints = get_type_hints(kind, include_extras=True)
        _HINTS[kind] = {name: _given(hint) for name, hint in hints.items()}
    return _HINTS[kind]


def _given(hint: Any) -> Any:
    """Returns the annotated type of a key that may be None, which means that it is not given."""
    return next((part for part in get_args(hint) if hasattr(part, "__metadata__")), hint)


def rule(hint: Any) -> msgspec.Meta:
    """Returns the metadata of an annotated type."""
    found: msgspec.Meta = hint.__metadata__[0]
    return found


def kind(hint: Any) -> Any:
    """Returns the plain type of a key: `list` for a list of strings."""
    return get_origin(hint.__origin__) or hint.__origin__


def section(part: T, name: str, values: Mapping[str, Any], elsewhere: Mapping[str, list[str]] = NOWHERE) -> T:
    """Returns a section with keys changed; every value is checked. `elsewhere` has the keys of other sections."""
    known = keys(type(part))
    new = msgspec.to_builtins(part)
    for leaf, value in values.items():
        if leaf not in known:
            others = [other for other, theirs in elsewhere.items() if leaf in theirs]
            if others:
                raise ConfigError(f"unknown key {name}.{leaf}; did you mean {others[0]}.{leaf}?")
            raise ConfigError(unknown(f"{name}.{leaf}", leaf, list(known)))
        new[leaf] = _value(f"{name}.{leaf}", value, known[leaf])
    return msgspec.convert(new, type(part))


def _value(name: str, value: Any, hint: Any) -> Any:
    """Returns a value that meets the rule of its key."""
    extra = rule(hint).extra or {}
    if isinstance(value, str) and value in extra["words"]:
        return extra["words"][value]
    try:
        value = msgspec.convert(value, hint)
    except msgspec.ValidationError:
        raise ConfigError(f"{name} must {_demand(value, hint)}") from None
    if isinstance(value, float) and value > _LONGEST_S:
        raise ConfigError(f"{name} must be at most {_LONGEST_S:g}, not {value!r}")
    if extra["choices"] and value not in extra["choices"]:
        words = ", ".join(filter(None, extra["choices"])) + ", or empty" * ("" in extra["choices"])
        raise ConfigError(f"{name} must be one of {words}, not {value!r}")
    form = _FORMS.get(extra["like"], _FORMS[""])
    if isinstance(value, str) and not form.fullmatch(value):
        example = f", like {extra['like']}" if extra["like"] else ""
        raise ConfigError(f"{name} must be one line of text{example}, not {value!r}")
    for item in value if isinstance(value, list) and extra["like"] else ():
        if not form.fullmatch(item):
            raise ConfigError(
                f"{name}: {item!r} {_WRONG.get(extra['like'], 'can match nothing')}; write it like {extra['like']!r}"
            )
        if item.startswith(EXPRESSION):
            _check_expression(name, item)
    if extra["folder"] or extra["place"]:
        for item in [value] if isinstance(value, str) else value:
            (check_folder if extra["folder"] else as_place)(item)
    return value


def _check_expression(name: str, item: str) -> None:
    try:
        re.compile(item.removeprefix(EXPRESSION))
    except re.error as error:
        raise ConfigError(f"{name}: {item!r} is no regular expression: {error}") from None


def _demand(value: Any, hint: Any) -> str:
    """Returns what msgspec found a value not to be."""
    plain = kind(hint)
    if plain is list and isinstance(value, list):
        return "be a list of strings"
    if plain is dict and isinstance(value, dict):
        return "map strings to strings"
    try:
        msgspec.convert(value, plain)
    except msgspec.ValidationError:
        return f"be {KINDS[plain]}, not {value!r}"
    least, most = rule(hint).ge, rule(hint).le
    if least is not None and not value >= least:
        return f"be at least {least:g}, not {value!r}"
    return f"be at most {most}, not {value!r}"


def unknown(what: str, name: str, known: list[str]) -> str:
    """Returns a message that a key is not known, and which may have been meant."""
    import difflib  # only for those who mistype

    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"unknown key {what}; {hint}"


def toml(value: Any) -> str:
    """Returns a value as TOML writes it, on one line. The writer breaks lines only between the items of a list."""
    text = tomli_w.dumps({"v": [value, 0]}, indent=0)  # inside a list, a table is on one line, too
    text = text.removeprefix("v = [\n").removesuffix(",\n0,\n]\n")
    return text.replace("[\n", "[").replace(",\n]", "]").replace(",\n", ", ")


def sizes(name: str, given: Mapping[str, Any]) -> dict[str, str | int]:
    """Returns sizes in bytes by content type, as a person writes them: "2GB", "100 MB", 65536."""
    for kind in given:
        if not _FORMS["text/html"].fullmatch(kind):
            raise ConfigError(f"{name}: {kind!r} is no content type; write it like 'video/*'")
    return {kind.lower(): _bytes(f"{name}.{kind}", size) for kind, size in given.items()}


def _bytes(name: str, size: Any) -> int:
    match = _SIZE.fullmatch(str(size).strip())
    if match is None:
        raise ConfigError(f"{name} must be a size like '2GB', '100MB' or 65536, not {size!r}")
    found = int(float(match[1]) * _UNITS[(match[2] or "").upper()])
    if not 1024 <= found <= MOST_BYTES:
        raise ConfigError(f"{name} must be from 1024 bytes to 4GB, not {size!r}")
    return found
