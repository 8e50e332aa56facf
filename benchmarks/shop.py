"""A small shop as files, for the replaying test web: categories with several pages, and products with reviews.

Everything about a product follows from its number, so that whoever scrapes the shop can be checked: `items`.
"""

from pathlib import Path
from typing import Any

HOST = "shop.example"
_PER_PAGE = 20
_CATEGORIES = ("lamps", "chairs", "tables", "clocks", "rugs")
_COLOURS = ("red", "green", "blue", "black", "white", "grey", "brown")
_WORDS = "It stands well in any room, is easy to clean, and was made to last for longer than its guarantee says. "


def items(products: int) -> list[dict[str, Any]]:
    """What a scraper must find, by name."""
    found = [
        {
            "name": _name(number),
            "price": round(5 + number * 7.31 % 400, 2),
            "sku": f"SKU-{number:05d}",
            "stock": number % 4 != 0,
            "tags": [_category(number), _COLOURS[number % len(_COLOURS)]],
        }
        for number in range(products)
    ]
    return sorted(found, key=lambda item: item["sku"])


def build(folder: Path, products: int, reviews: int = 40) -> Path:
    """Writes the shop; `reviews` make the pages as large as real ones (about 30 kB)."""
    for category in _CATEGORIES:
        numbers = [number for number in range(products) if _category(number) == category]
        pages = [numbers[start : start + _PER_PAGE] for start in range(0, len(numbers), _PER_PAGE)]
        for place, page in enumerate(pages, 1):
            rows = "".join(
                f'<li class="card"><a class="product" href="/product/{number}.html">{_name(number)}</a></li>\n'
                for number in page
            )
            after = f'<a class="next" href="/{category}/page{place + 1}.html">next</a>' if place < len(pages) else ""
            _write(folder / category / f"page{place}.html", category.title(), f"<ul>\n{rows}</ul>\n{after}")
    for item in items(products):
        number = int(item["sku"][4:])
        _write(folder / "product" / f"{number}.html", item["name"], _product(item, reviews))
    links = "".join(
        f'<li><a class="category" href="/{name}/page1.html">{name.title()}</a></li>' for name in _CATEGORIES
    )
    _write(folder / "index.html", "A shop", f"<ul>{links}</ul>")
    return folder


def _product(item: dict[str, Any], reviews: int) -> str:
    tags = "".join(f'<li class="tag">{tag}</li>' for tag in item["tags"])
    texts = "".join(
        f'<div class="review" id="r{place}"><span class="stars">{place % 5 + 1}</span><p>{_WORDS * (place % 5 + 2)}</p>'
        f'<a class="user" href="/users/{place}" rel="nofollow">user {place}</a></div>\n'
        for place in range(reviews)
    )
    stock = "in stock" if item["stock"] else "sold out"
    return (
        f'<p class="price">€ {item["price"]:.2f}</p><p class="sku">{item["sku"]}</p><p class="stock">{stock}</p>\n'
        f'<ul class="tags">{tags}</ul>\n<div class="reviews">\n{texts}</div>'
    )


def _write(path: Path, title: str, main: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nav = "".join(f'<a href="/{name}/page1.html">{name.title()}</a> ' for name in _CATEGORIES)
    path.write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f'<body><nav><a href="/">Home</a> {nav}</nav>\n<main><h1>{title}</h1>\n{main}\n</main></body></html>\n'
    )


def _category(number: int) -> str:
    return _CATEGORIES[number % len(_CATEGORIES)]


def _name(number: int) -> str:
    return f"{_COLOURS[number % len(_COLOURS)].title()} {_category(number)[:-1]} {number}"
