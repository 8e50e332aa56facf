"""This module finds what a page is about: its main text, without navigation and notices, as plain text or Markdown; its
language, and what it says of its licence.

Resiliparse finds the main text by default, trafilatura if it is asked for; both are imported when they are first needed
(`pip install 'gossamer-crawler[text]'`).
"""

import re
from collections.abc import Callable
from html import unescape
from importlib import import_module
from typing import Any

from gossamer.errors import ConfigError
from gossamer.web.text import MARKUP, text_of
from gossamer.web.tree import Nesting

EXTRACTORS = ("resiliparse", "trafilatura")
_MISSING = "{} is not installed: pip install 'gossamer-crawler[{}]'"
_DEEPEST = 1_000  # elements in elements: the time to build a tree is quadratic in it
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)")
# Elements that end by themselves, or have no content: they are never deep in one another.
_FLAT = frozenset(
    re.findall(
        r"\w+",
        "area base br col dd dt embed hr img input li link meta option optgroup p param source tbody td tfoot th thead"
        " tr track wbr",
    )
)
_UNSHOWN = ['[style*="display:none"]', '[style*="display: none"]', '[aria-hidden="true"]', "dialog:not([open])"]
_LEAST_LETTERS = 20  # of a text whose language can be told
_LANGUAGE_CHARACTERS = 5_000  # that are enough to tell it
_LICENCE_BYTES = 1 << 20
_LICENCES = 5
_NAMED = re.compile(r"""\s([a-zA-Z:.-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_LICENCE_TAG = re.compile(r"<(?:a|link|meta)\s[^<>]{1,2000}+>", re.IGNORECASE)
_LICENCE_WORD = re.compile(r"licen[cs]e|rights?", re.IGNORECASE)
_LICENCE_JSON = re.compile(r'"license"\s*+:\s*+(?:"([^"]{1,500}+)"|\{[^{}]*?"(?:@id|url)"\s*+:\s*+"([^"]{1,500}+)")')
_LICENCE_NAMES = frozenset(
    ["license", "licence", "dcterms.license", "dc.rights", "dcterms.rights", "copyright", "rights"]
)


def main_text(html: str, extractor: str = EXTRACTORS[0]) -> str:
    """Returns the main text. A page that is nested too deep for a tree gives its whole text."""
    if _is_deep(html):
        return _whole(html)
    if extractor == "trafilatura":
        return _trafilatura()(html, output_format="txt") or ""
    return str(_resiliparse()(html, main_content=True, comments=False, skip_elements=_UNSHOWN)).strip()


def markdown(html: str, extractor: str = EXTRACTORS[0]) -> str:
    """Returns the main text as Markdown: headings, lists, code and links stay what they are."""
    if _is_deep(html):
        return _whole(html)
    if extractor == "trafilatura":
        return _trafilatura()(html, output_format="markdown", include_links=True) or ""
    form = {"preserve_formatting": "minimal_html", "links": True}
    return _as_markdown(_resiliparse()(html, main_content=True, comments=False, skip_elements=_UNSHOWN, **form))


def language_of(text: str) -> str:
    """Returns the language of a text, as two letters; "" if it cannot be told."""
    text = text[:_LANGUAGE_CHARACTERS]
    if sum(map(str.isalpha, text)) < _LEAST_LETTERS:
        return ""
    found = str(_imported("py3langid", "text").classify(text)[0])
    return "" if found == "zxx" else found


def licences_of(html: str) -> list[str]:
    """Returns what a page says of its licence: rel=license, meta elements, JSON-LD. They are hints, as they stand."""
    html, found = html[:_LICENCE_BYTES], dict[str, None]()
    for tag in filter(_LICENCE_WORD.search, _LICENCE_TAG.findall(html)):
        given = _attributes(tag)
        if "license" in given.get("rel", "").lower().split():
            found[given.get("href", "")] = None
        elif (given.get("name") or given.get("property", "")).lower() in _LICENCE_NAMES:
            found[given.get("content", "")] = None
    found |= {a or b: None for a, b in _LICENCE_JSON.findall(html)}
    return [text.strip()[:500] for text in found if text.strip()][:_LICENCES]


def _attributes(tag: str) -> dict[str, str]:
    return {name.lower(): unescape(a or b or c) for name, a, b, c in _NAMED.findall(tag)}


def check_extractor() -> None:
    """Raises an error if main texts cannot be found."""
    _resiliparse()


def _resiliparse() -> Callable[..., str]:
    found: Callable[..., str] = _imported("resiliparse.extract.html2text", "text").extract_plain_text
    return found


def _trafilatura() -> Callable[..., str | None]:
    found: Callable[..., str | None] = _imported("trafilatura", "trafilatura").extract
    return found


def _imported(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ConfigError(_MISSING.format(name.partition(".")[0], extra)) from None


def _whole(html: str) -> str:
    return text_of(html.encode("utf-8", "replace"), "text/html; charset=utf-8")


def _is_deep(html: str) -> bool:
    """Returns whether elements may be nested too deep."""
    if html.count("<") <= _DEEPEST:
        return False
    nesting = Nesting(_DEEPEST)
    for slash, name in _TAG.findall(html):
        if name.lower() not in _FLAT:
            nesting.add(bool(slash), name.lower())
            if nesting.is_deep:
                return True
    return False


def _as_markdown(minimal: str) -> str:
    """Returns the few elements that Resiliparse leaves as Markdown."""
    made, place, is_code, targets, numbers = list[str](), 0, False, list[str](), list[int]()
    for match in MARKUP.finditer(minimal):
        made.append(_escaped(minimal[place : match.start()], is_code))
        place, tag = match.end(), (match[1] or "").lower()
        if tag in ("pre", "/pre"):
            is_code = tag == "pre"
            made.append("\n```\n" if is_code else "```\n")
        elif tag in _HEADINGS:
            made.append("\n" + "#" * _HEADINGS[tag] + " ")
        elif tag in ("ul", "ol"):
            numbers.append(0 if tag == "ol" else -1)
        elif tag in ("/ul", "/ol"):
            numbers = numbers[:-1]
        elif tag == "li":
            made.append(_bullet(numbers))
        elif tag == "a":
            targets.append(_attributes(match[0]).get("href", ""))
            made.append("[")
        elif tag == "/a" and targets:
            made.append(f"]({targets.pop().replace(' ', '%20').replace(')', '%29')})")
        elif tag == "br":
            made.append("  ")
    made.append(_escaped(minimal[place:], is_code))
    return re.sub(r"\n{3,}", "\n\n", "".join(made)).strip()


_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPECIAL = re.compile(r"([\\`*_\[\]])")


def _escaped(text: str, is_code: bool) -> str:
    text = unescape(text)
    return text if is_code else _SPECIAL.sub(r"\\\1", text)


def _bullet(numbers: list[int]) -> str:
    if numbers and numbers[-1] >= 0:
        numbers[-1] += 1
        return f"{numbers[-1]}. "
    return "- "
