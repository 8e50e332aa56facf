"""This module reads a `Config` from a TOML file or from the command line, and writes the file with every key."""

import tomllib
from pathlib import Path
from typing import Any

from gossamer.config.schema import KINDS, keys, kind, rule, toml, unknown
from gossamer.config.sections import KEYS, SECTIONS, Config, Host, Seed, check_renamed
from gossamer.errors import ConfigError


def load(path: Path) -> Config:
    """Reads a TOML file."""
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; `gossamer config` prints a file to start from") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    return Config().replace(values)


def parse_value(name: str, text: str) -> Any:
    """Returns the value of `section.key` given as text, as on the command line."""
    check_renamed([name])
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
    lines += ["", *(f"# {line.strip()}" for line in str(Seed.__doc__).splitlines()), "# [[seeds]]"]
    for leaf, hint in keys(Seed).items():
        lines.append(f"# {leaf} = {toml(_SEED[leaf])}  # {rule(hint).description}")
    lines += ["", *(f"# {line.strip()}" for line in str(Host.__doc__).splitlines()), '# [host."example.org"]']
    for leaf, hint in keys(Host).items():
        lines.append(f"# {leaf} = {toml(getattr(Host(), leaf))}  # {rule(hint).description}")
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
_RULES = """
## Rules for single seeds

A seed can have its own depth, scope, limit of pages and patterns. In the file:

```toml
[[seeds]]
url = "https://example.org/"
depth = 2
scope = "host"
pages = 500
```

The same as a line of a seeds file (`include=` and `exclude=` may be repeated):

```
https://example.org/ depth=2 scope=host pages=500
```

On the command line, for `gossamer crawl` and `gossamer add`, options follow their URL:

```
gossamer crawl https://example.org/ depth=2 scope=host pages=500 https://example.net/
```

And in Python: `Crawl("crawl", [Seed("https://example.org/", depth=2, scope="host", pages=500)])`.

With `json` or `data` a seed is a POST ([how](requests.md#post)). In a seeds file they come last: the body is the
rest of the line.

What a seed leaves out is as for all. The rules belong to the seed's **website**: its host with and without `www.`, or
with `scope=domain` its registrable domain.

- A link is judged by the rules of the website that its page is on. So `depth` counts links within the website, from
  its own seeds; `limits.depth_dynamic` holds besides.
- Pages of such a website are reached only from its own seeds, pages and sitemaps. Links from other websites are not
  followed there (verdict `scope`): what is crawled of it does not depend on who else mentions it.
- With `scope=host` and `scope=domain` no link leads out of the website. With `scope=any` links lead to other websites,
  while `depth` allows; pages there go by the settings for all.
- `pages` limits how many pages of the website become known, the best first. It takes the place of
  `limits.pages_per_host` and `limits.pages_per_domain`. If agents share the website's hosts, each counts its own.
- Other seeds of the same website have the same rules, with or without options. If they bring other options, the later
  ones hold, and Gossamer says so. `gossamer add` changes the rules of a running crawl; a later run may change them too.
- If both a host and its domain have rules, those of the host hold on that host.
"""


def page() -> str:
    """Returns the text of docs/configuration.md."""
    return f"""# The configuration

One TOML file, given with `--config`; `gossamer config` prints this one. Any key can also be given on the command line
as `--set section.key=value`, except the rules of single hosts; the most used ones have a flag of their own
(`gossamer crawl --help`). A crawl that resumes without a file begins with the options of its last run.

```toml
{document()}```
{_RULES}"""
