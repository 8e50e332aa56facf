"""This module makes text in pieces beforehand: sections and titles of a topic in a language, encoded once."""

import numpy as np

from gossamer.testweb.mix import draws, stream
from gossamer.testweb.words import COMMON, LANGUAGES, TOPIC_WORDS

POOL = 127  # a prime: every step width visits all sections, so pages seldom share many
_PARAGRAPHS = 3  # of a section
_OWN_WORDS = {language: [line.split() for line in lines] for language, lines in TOPIC_WORDS.items()}
_OWN_SHARE = 90  # of 256 words
# Closes the paragraph before, so that links may follow its text.
_OPEN = b"</p>\n<p>"
OPENING = len(_OPEN)


class Prose:
    """`Prose` has pools of sections, made when first needed: a function of random seed, language, topic and charset."""

    def __init__(self, seed: int, section_bytes: int) -> None:
        self._seed = seed
        self._bytes = section_bytes
        self._pools: dict[tuple[str, int, str], list[bytes]] = {}

    def sections(self, language: str, topic: int, charset: str) -> list[bytes]:
        key = (language, topic, charset)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._make(language, topic, charset)
        return pool

    def _make(self, language: str, topic: int, charset: str) -> list[bytes]:
        """Draws words at random, in sentences of uneven length."""
        own, common = _OWN_WORDS[language][topic], COMMON[language].split()
        words = own + common
        word_bytes = 1 + sum(len(word.encode(charset)) for word in common) / len(common)
        length = max(1, round(self._bytes / _PARAGRAPHS / word_bytes))  # of a paragraph
        count = POOL * _PARAGRAPHS
        bits = stream(self._seed * 1_000 + topic * 10 + LANGUAGES.index(language), count * length)
        drawn = draws(bits, 0)
        is_own = (bits & np.uint64(255)) < _OWN_SHARE
        number = np.where(
            is_own, drawn % np.uint64(len(own)), drawn % np.uint64(len(common)) + np.uint64(len(own))
        ).astype(np.int64)
        ends = (bits >> np.uint64(8)) % np.uint64(12) == 0
        ends[length - 1 :: length] = True
        begins = np.roll(ends, 1)
        number += len(words) * (ends + 2 * begins)
        raised = [word.capitalize() for word in words]
        shapes = [*words, *(f"{word}." for word in words), *raised, *(f"{word}." for word in raised)]
        text = [word.encode(charset) for word in shapes]
        picked = [text[n] for n in number.tolist()]
        paragraphs = [_OPEN + b" ".join(picked[n * length : (n + 1) * length]) + b"\n" for n in range(count)]
        return [b"".join(paragraphs[n : n + _PARAGRAPHS]) for n in range(0, count, _PARAGRAPHS)]


def title(language: str, topic: int, bits: int, number: int) -> str:
    """Returns a page's title, from its own bits."""
    words = _OWN_WORDS[language][topic]
    one, two = words[1 + (bits >> 40) % 8], words[1 + (bits >> 48) % 8]
    return f"{one.capitalize()}, {two} {number} · {words[0]}" if number else f"{words[0]} · {one}, {two}"
