"""`Topic` computes how near a link is to a topic: by its anchor text, the words of its URL, and its page.

A text is a vector of word counts. Its likeness to the topic is the cosine of the angle between it and the space that
the topic's words span: 1 if all its words are the topic's, 0 if none is, and more words in the topic never lower it.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from math import sqrt
from urllib.parse import unquote

TEXT_CHARS = 20_000  # of a page: what it is about shows early
PAGE_PART = 0.1  # how far a page on the topic vouches for links that say nothing themselves

_WORD = re.compile(r"[^\W\d_]+")
# Written without spaces: pairs of characters do for words there.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
# Stop words: they say nothing about a topic, in the languages of most descriptions.
_LISTED = """a about all an and are as at be by for from how in into is it its of on or that the their this to what
    which who with www http https html htm php index
    als am auf aus bei das dem den der des die ein eine einer eines für im ist mit nach oder über um und von vor zu
    zum zur au aux avec ce ces dans de du elle en est et il la le les ou par pour qui que sur un une
    al con del e el ella es gli i las lo los nel para per por se sobre sono su una uno y
    и в на с по о об от для из к как что не"""
_EMPTY = frozenset(_LISTED.split())


def words(text: str) -> list[str]:
    """Returns words in lower case, compatible forms unified; digits are no words."""
    found: list[str] = []
    for run in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        end = 0
        for unspaced in _UNSPACED.finditer(run):
            found += [run[end : unspaced.start()], *_pairs(unspaced[0])]
            end = unspaced.end()
        found.append(run[end:] if end else run)
    return [word for word in found if word]


def _pairs(run: str) -> Iterable[str]:
    return (run[i : i + 2] for i in range(max(len(run) - 1, 1)))


def url_words(url: str) -> list[str]:
    """Returns the words of host and path, without the scheme and the last label."""
    host, _, path = url.partition("://")[2].partition("/")
    return words(f"{host.rpartition('.')[0]} {unquote(path)}")


class Topic:
    """The topic of a focused crawl."""

    def __init__(self, description: str) -> None:
        self.words = frozenset(words(description)) - _EMPTY

    def likeness(self, found: Iterable[str]) -> float:
        """Returns the cosine, 0 to 1."""
        counts = Counter(word for word in found if word not in _EMPTY)
        own = sum(counts[word] ** 2 for word in self.words if word in counts)
        return sqrt(own / sum(count**2 for count in counts.values())) if own else 0.0

    def page(self, title: str, text: str) -> float:
        """Returns how much a page is about the topic."""
        return max(self.likeness(words(title)), self.likeness(words(text[:TEXT_CHARS])))

    def link(self, url: str, anchor: str, page: float) -> float:
        """Returns how much a link on such a page promises: by its own words, or else by the page's."""
        own = max(self.likeness(words(anchor)), self.likeness(url_words(url)))
        return own + (1 - own) * PAGE_PART * page
