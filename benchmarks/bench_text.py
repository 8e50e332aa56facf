"""Scores what finds the text of pages: F1 of words, and milliseconds a page, on 50 pages made for the purpose.

The pages are made by the ten layouts below, so the figures compare the functions with each other; they do not tell
how good one is on the web: for that there is benchmarks/bench_articles.py. Run: python -m benchmarks.bench_text
"""

import random
import re
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec

from gossamer.web.html import text_of
from gossamer.web.main_text import main_text, markdown

WORDS = re.findall(
    r"\w+",
    "wind thread spider morning field autumn silk carry meadow light valley river stone bridge garden window paper"
    " letter harbour island winter candle kitchen bread market village teacher student engine measure signal number"
    " network crawler archive record page index river mountain forest cloud summer rain evening road station",
)
LINKS = re.findall(
    r"\w+", "Home News Sport Culture About Contact Shop Login Register Help Privacy Terms Archive Topics Video"
)


class Maker:
    """One page's words: `body` is what counts, `noise` is what does not."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.truth: list[str] = []

    def words(self, least: int, most: int) -> str:
        count = self._chance.randint(least, most)
        return " ".join(self._chance.choice(WORDS) for _ in range(count)).capitalize() + "."

    def body(self, least: int = 20, most: int = 60) -> str:
        text = self.words(least, most)
        self.truth += text.lower().rstrip(".").split()
        return text

    def title(self) -> str:
        return self.body(4, 8).rstrip(".")

    def paragraphs(self, least: int = 4, most: int = 9) -> str:
        return "".join(f"<p>{self.body()}</p>" for _ in range(self._chance.randint(least, most)))

    def links(self, count: int = 10) -> str:
        return "".join(f"<li><a href='/{n}'>{self._chance.choice(LINKS)}</a></li>" for n in range(count))

    def noise(self, least: int = 6, most: int = 20) -> str:
        return " ".join(self._chance.choice(LINKS) for _ in range(self._chance.randint(least, most)))


def news(m: Maker) -> str:
    return f"""<header><nav><ul>{m.links()}</ul></nav></header><main><article><h1>{m.title()}</h1>{m.paragraphs()}
    </article></main><aside><h3>{m.noise()}</h3><ul>{m.links(20)}</ul></aside><footer>{m.noise()}</footer>"""


def blog(m: Maker) -> str:
    comments = "".join(f"<li class=comment><p>{m.noise()}</p></li>" for _ in range(8))
    return f"""<div id=header>{m.noise()}</div><div class=sidebar><ul>{m.links(15)}</ul></div><div class=post>
    <h2>{m.title()}</h2><div class=entry-content>{m.paragraphs()}</div></div><div id=comments>
    <ol>{comments}</ol></div>"""


def manual(m: Maker) -> str:
    return f"""<nav class=toc><ul>{m.links(25)}</ul></nav><div role=main><h1>{m.title()}</h1>{m.paragraphs(2, 3)}
    <pre><code>{m.body(8, 15)}\n    {m.body(8, 15)}</code></pre><h2>{m.title()}</h2>{m.paragraphs(2, 4)}</div>"""


def forum(m: Maker) -> str:
    posts = "".join(
        f"<div class=post><div class=author>{m.noise(2, 3)}</div><div class=content><p>{m.body()}</p></div></div>"
        for _ in range(5)
    )
    return f"<div class=menu>{m.noise()}</div><h1>{m.title()}</h1><div id=thread>{posts}</div><div class=footer>x</div>"


def product(m: Maker) -> str:
    return f"""<nav>{m.noise()}</nav><main><h1>{m.title()}</h1><div class=description>{m.paragraphs(2, 3)}</div>
    <ul class=features><li>{m.body(5, 9)}</li><li>{m.body(5, 9)}</li></ul></main><section class=related><h3>More</h3>
    <ul>{m.links(12)}</ul></section>"""


def recipe(m: Maker) -> str:
    steps = "".join(f"<li>{m.body(10, 20)}</li>" for _ in range(6))
    return f"""<div class=topbar><ul>{m.links()}</ul></div><article><h1>{m.title()}</h1><p>{m.body()}</p>
    <ol>{steps}</ol><p>{m.body()}</p></article><div class=newsletter-signup><p>{m.noise()}</p></div>"""


def encyclopedia(m: Maker) -> str:
    rows = "".join(f"<tr><th>{m.body(1, 2)}</th><td>{m.body(2, 4)}</td></tr>" for _ in range(5))
    return f"""<div id=mw-head><ul>{m.links(20)}</ul></div><div id=content><h1>{m.title()}</h1><table class=infobox>
    {rows}</table>{m.paragraphs()}<h2>{m.title()}</h2>{m.paragraphs()}</div><div id=catlinks>
    <ul>{m.links(9)}</ul></div>"""


def consent(m: Maker) -> str:
    return f"""<div class=cookie-banner style="display:none"><p>{m.noise(30, 60)}</p></div><div hidden>{m.noise()}</div>
    <header>{m.noise()}</header><main><h1>{m.title()}</h1>{m.paragraphs()}</main><noscript>{m.noise()}</noscript>"""


def tables(m: Maker) -> str:
    return f"""<table width=100%><tr><td width=20%><ul>{m.links(18)}</ul></td><td><font size=5>{m.title()}</font><br>
    {m.paragraphs()}</td></tr></table><center>{m.noise()}</center>"""


def bare(m: Maker) -> str:
    return f"<h1>{m.title()}</h1>{m.paragraphs(2, 12)}"


LAYOUTS = (news, blog, manual, forum, product, recipe, encyclopedia, consent, tables, bare)


def pages(count: int = 50) -> list[tuple[str, list[str]]]:
    made = []
    for seed in range(count):
        maker = Maker(seed)
        content = LAYOUTS[seed % len(LAYOUTS)](maker)
        made.append((f"<!doctype html><html><head><title>x</title></head><body>{content}</body></html>", maker.truth))
    return made


def f1(found: str, truth: list[str]) -> float:
    words = [word for word in "".join(c if c.isalnum() else " " for c in found.lower()).split() if not word.isdigit()]
    both = sum((Counter(words) & Counter(truth)).values())
    return 2 * both / (len(words) + len(truth)) if words else 0.0


FUNCTIONS: dict[str, Callable[[str], str]] = {
    "text()": lambda html: text_of(html.encode(), "text/html; charset=utf-8"),
    "main_text()": main_text,
    "markdown()": markdown,
}
if find_spec("trafilatura"):  # an extra of its own
    FUNCTIONS["main_text(), trafilatura"] = lambda html: main_text(html, "trafilatura")


def scores(function: Callable[[str], str]) -> tuple[float, float]:
    """Returns the mean F1, and milliseconds of CPU a page, of the second time."""
    made = pages()
    found = [function(html) for html, _ in made]
    began_s = time.process_time()
    for html, _ in made:
        function(html)
    elapsed_s = time.process_time() - began_s
    return sum(f1(text, truth) for text, (_, truth) in zip(found, made, strict=True)) / len(made), elapsed_s * 20


def table() -> str:
    """Returns the scores of all functions, as Markdown."""
    lines = ["| function | F1 of words | ms of CPU a page |", "|---|---|---|"]
    for name, function in FUNCTIONS.items():
        score, milliseconds = scores(function)
        lines.append(f"| `{name}` | {score:.3f} | {milliseconds:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
