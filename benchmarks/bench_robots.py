"""robots.txt: our parser against Protego, to parse and to answer, on a typical and on two hostile files."""

import json
import time
from collections.abc import Callable

from protego import Protego

from gossamer.web.robots import Rules

ORIGIN = "https://example.com"


def typical() -> bytes:
    """About 2 KB: a handful of agents, a '*' group with plain and wildcard rules, sitemaps."""
    lines = ["# robots.txt of example.com"]
    for agent in ("AhrefsBot", "MJ12bot", "SemrushBot", "DotBot"):
        lines += [f"User-agent: {agent}", "Disallow: /", ""]
    lines += ["User-agent: Googlebot", "User-agent: bingbot", "Allow: /search/about", "Disallow: /search", ""]
    lines += ["User-agent: *", "Crawl-delay: 2", "Allow: /wp-admin/admin-ajax.php"]
    lines += [f"Disallow: /section-{n:02d}/private-area/" for n in range(35)]
    lines += ["Disallow: /*?sort=", "Disallow: /*.pdf$", "Disallow: /*/print/", "Disallow: /search*page="]
    lines += ["", f"Sitemap: {ORIGIN}/sitemap_index.xml", f"Sitemap: {ORIGIN}/news.xml"]
    return "\n".join(lines).encode()


def plain_500k() -> bytes:
    rules = (f"Disallow: /d{n:06d}/{n % 97}\n" for n in range(22_000))
    return ("User-agent: *\n" + "".join(rules)).encode()


def wild_500k() -> bytes:
    rules = (f"Disallow: /a*a*a*a*a*a*{n:06d}b\n" for n in range(15_000))
    return ("User-agent: *\n" + "".join(rules)).encode()


FILES = {"typical": typical(), "plain 500 KB": plain_500k(), "wild 500 KB": wild_500k()}
PATHS = {
    "typical": [
        "/",
        "/section-07/page?id=3",
        "/section-07/private-area/x",
        "/docs/manual.pdf",
        "/a/b/c.html",
    ],
    "plain 500 KB": ["/", "/d011000/38/page", "/x/y/z?q=1"],
    "wild 500 KB": ["/" + "a" * 1900, "/aaaaaaaaaaaa000001b", "/x"],
}


def microseconds(work: Callable[[], object], budget_s: float = 0.4) -> float:
    """The fastest of several timings."""
    best, end = float("inf"), time.perf_counter() + budget_s
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main() -> None:
    result: dict[str, float] = {}
    print(f"{'file':14} {'':8} {'Gossamer':>12} {'Protego':>12} {'ratio':>8}   (microseconds)")
    for name, body in FILES.items():
        text = body.decode()
        ours, theirs = Rules.parse(body, "Gossamer"), Protego.parse(text)
        for path in PATHS[name]:
            assert ours.allows(path) == theirs.can_fetch(ORIGIN + path, "Gossamer"), path
        paths, urls = PATHS[name], [ORIGIN + path for path in PATHS[name]]
        timings = {
            "parse": (
                microseconds(lambda body=body: Rules.parse(body, "Gossamer")),  # type: ignore[misc]
                microseconds(lambda text=text: Protego.parse(text)),  # type: ignore[misc]
            ),
            "answer": (
                microseconds(lambda: [ours.allows(path) for path in paths]) / len(paths),  # noqa: B023
                microseconds(lambda: [theirs.can_fetch(url, "Gossamer") for url in urls]) / len(urls),  # noqa: B023
            ),
        }
        for what, (us, them) in timings.items():
            print(f"{name:14} {what:8} {us:12.2f} {them:12.2f} {them / us:8.1f}")
            result[f"{name} {what}".replace(" ", "_")] = round(them / us, 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
