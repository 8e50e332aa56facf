"""This module reads a `Config` from a TOML file or from the command line, and writes the file with every key."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from gossamer.config.schema import KINDS, keys, kind, rule, toml, unknown
from gossamer.config.sections import KEYS, SECTIONS, Config, Host, Seed
from gossamer.errors import ConfigError


def load(path: Path) -> Config:
    """Reads a TOML file."""
    return Config().replace(read_toml(path, "does not exist; `gossamer config` prints a file to start from"))


def read_toml(path: Path, missing: str) -> dict[str, Any]:
    """Returns the content of a TOML file. `missing` is what an error says where there is none."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} {missing}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def parse_value(name: str, text: str) -> Any:
    """Returns the value of `section.key` given as text, as on the command line."""
    part, _, leaf = name.partition(".")
    if part in ("host", "seeds"):
        header = "[[seeds]]" if part == "seeds" else '[host."example.org"]'
        raise ConfigError(f"rules for single {part.rstrip('s')}s are in the file only, under {header}: --config FILE")
    if leaf not in KEYS.get(part, ()):
        raise ConfigError(unknown(name, name, [f"{s}.{k}" for s, leaves in KEYS.items() for k in leaves]))
    hint = keys(SECTIONS[part])[leaf]
    if kind(hint) is str or text in (rule(hint).extra or {})["words"]:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        raise ConfigError(f"{name} must be {KINDS[kind(hint)]}, not {text!r}") from None


def meaning(name: str, base: Config | None = None) -> str:
    """Returns what `section.key` means, with its default, which a command may have changed."""
    part, _, leaf = name.partition(".")
    default = getattr(getattr(base or Config(), part), leaf)
    words = rule(keys(SECTIONS[part])[leaf]).description
    return f"{words}{f' (default: {default})' if default not in ([], '') else ''}"


def document() -> str:
    """Returns a TOML file with every key, its meaning and its default."""
    lines = ["# Gossamer's configuration: every key with its default."]
    for name, part in SECTIONS.items():
        lines += ["", f"# {part.__doc__}", f"[{name}]"]
        for leaf, hint in keys(part).items():
            choices = ", ".join((rule(hint).extra or {})["choices"])
            lines.append(f"# {rule(hint).description}{f' ({choices})' if choices else ''}")
            lines.append(f"{leaf} = {toml(getattr(part(), leaf))}")
    of_host = msgspec.structs.asdict(Host())
    for part, header, values in ((Seed, "[[seeds]]", _SEED), (Host, '[host."example.org"]', of_host)):
        lines += ["", *(f"# {line.strip()}" for line in str(part.__doc__).splitlines()), f"# {header}"]
        lines += [f"# {leaf} = {toml(values[leaf])}  # {rule(hint).description}" for leaf, hint in keys(part).items()]
    return "\n".join(lines) + "\n"


_SEED = {
    "url": "https://example.org/",
    "scope": "host",
    "depth": 2,
    "pages": 500,
    "include": ["*/blog/*"],
    "exclude": ["re:[?&]sort="],
    "json": {"q": "shoes", "page": 1},
    "data": "q=shoes&page=1",
}
