"""This module knows the types of items: which columns a dataclass or a TypedDict declares, and whether an item fits."""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

_INT = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
# The word for a type: what a decoder of JSON checks.
SCALARS: dict[str, Any] = {
    "bool": bool,
    "int": _INT,
    "float": float,
    "str": str,
    "bytes": bytes,
    "datetime": datetime,
    "date": date,
}
JSON = "json"  # anything else: the column has it as JSON
_WORDS = {bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes", datetime: "datetime", date: "date"}
_LIST = "list of "


def is_item_type(kind: Any) -> bool:
    """Returns whether a type declares columns: a dataclass, a TypedDict or a msgspec struct."""
    if not isinstance(kind, type):
        return False
    return dataclasses.is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, msgspec.Struct)


def declared(function: Callable[..., Any]) -> dict[str, str]:
    """Returns the columns of the item types in a function's return annotation, such as `Iterator[Product]`."""
    try:
        annotation = get_type_hints(function).get("return")
    except (NameError, TypeError):  # names that only a type checker sees
        return {}
    found: dict[str, str] = {}
    for kind in _parts(annotation):
        found |= columns_of(kind)
    return found


def _parts(annotation: Any) -> list[type]:
    if is_item_type(annotation):
        return [annotation]
    return [kind for part in get_args(annotation) for kind in _parts(part)]


def columns_of(kind: type) -> dict[str, str]:
    """Returns the typed columns of an item type: name and word."""
    return {name: _word(hint) for name, hint in get_type_hints(kind).items()}


def _word(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        rest = [part for part in get_args(hint) if part is not types.NoneType]
        return _word(rest[0]) if len(rest) == 1 else JSON
    if origin is Annotated or (origin is not None and str(origin).endswith("Required")):
        return _word(get_args(hint)[0])
    if origin is list and len(get_args(hint)) == 1:
        word = _word(get_args(hint)[0])
        return _LIST + word if word in SCALARS else JSON
    return _WORDS.get(hint, JSON)


def list_of(word: str) -> str:
    """Returns the word for the items of a list; empty for what is no list."""
    return word.removeprefix(_LIST) if word.startswith(_LIST) else ""


def together(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Returns the columns of several functions. Where they differ about one, it has numbers if both do, else JSON."""
    found: dict[str, str] = {}
    for name, word in (pair for part in parts for pair in part.items()):
        known = found.setdefault(name, word)
        if known != word:
            found[name] = "float" if {known, word} == {"int", "float"} else JSON
    return found


def decoder(columns: Mapping[str, str]) -> msgspec.json.Decoder[Any]:
    """Returns a decoder of items that checks these columns; an item may lack some, and have others."""
    fields = [(f"c{place}", _checked(word), None) for place, word in enumerate(columns.values())]
    names = {f"c{place}": name for place, name in enumerate(columns)}
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, rename=names, array_like=False))


def _checked(word: str) -> Any:
    if word == JSON:
        return msgspec.Raw  # also null
    kind = list[SCALARS[list_of(word)]] if list_of(word) else SCALARS[word]  # type: ignore[misc]
    return kind | None
