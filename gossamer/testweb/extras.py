"""This module makes what a synthetic host serves besides pages: robots.txt, sitemaps, a style sheet, a log-in form."""

import zlib
from html import escape

from gossamer.testweb.answer import NOT_FOUND, Answer, moved, text
from gossamer.testweb.assets import FOLDER, asset
from gossamer.testweb.hosts import OWN_AGENT, Host, Robots
from gossamer.testweb.plan import Plan

SITEMAP_URLS = 1_000  # a larger host has a sitemap index, its parts compressed
_MOVED_ROBOTS = "/about/robots.txt"
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_STYLE = text(200, "body { font: 1em serif; margin: 2em }\n", "text/css")
_LOGO = text(
    200,
    '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><circle cx="4" cy="4" r="3"/></svg>\n',
    "image/svg+xml",
)
_LOGIN = text(
    200,
    '<!DOCTYPE html>\n<title>Log in</title>\n<meta name="robots" content="noindex,nofollow">\n'
    '<form action="/login" method="post"><input name="user"></form>\n',
    "text/html; charset=utf-8",
)


def extra(plan: Plan, host: Host, path: str) -> Answer:
    """Returns the answer to a path that is no page."""
    if path == "/robots.txt":
        return moved(301, _MOVED_ROBOTS) if host.robots_moved else robots(host)
    if path == _MOVED_ROBOTS and host.robots_moved:
        return robots(host)
    if host.sitemap and path.startswith("/sitemap"):
        return _sitemap(plan, host, path)
    if plan.spec.requisites and path.startswith(FOLDER):
        return asset(path)
    if path == "/style.css":
        return _STYLE
    if path == "/logo.svg":
        return _LOGO
    if path.startswith("/login?"):
        return _LOGIN
    return NOT_FOUND


def robots(host: Host) -> Answer:
    if host.robots is Robots.MISSING:
        return NOT_FOUND
    if host.robots is Robots.BROKEN:
        return text(500, "Out of order.\n")
    lines = [f"# robots.txt of {host.name}", "User-agent: *"]
    lines += host.rules.lines() if host.robots is Robots.RULES else ["Disallow:"]
    delay = [f"Crawl-delay: {host.crawl_delay_s:g}"] if host.crawl_delay_s else []
    lines += [*delay, "", "User-agent: greedybot", "Disallow: /"]
    if host.robots is Robots.RULES and host.own_rules:
        lines += ["", f"User-agent: {OWN_AGENT}", *host.own_rules.lines(), *delay]
    if host.sitemap:
        lines += ["", f"Sitemap: http://{host.name}/sitemap.xml"]
    return text(200, "\n".join(lines) + "\n")


def _sitemap(plan: Plan, host: Host, path: str) -> Answer:
    first, end = int(plan.offsets[host.number]), int(plan.offsets[host.number + 1])
    parts = -(-(end - first) // SITEMAP_URLS)
    if path == "/sitemap.xml":
        if parts == 1:
            return text(200, _urlset(plan, host, first, end), "application/xml")
        names = "".join(f"<sitemap><loc>http://{host.name}/sitemap-{n}.xml.gz</loc></sitemap>\n" for n in range(parts))
        return text(200, f"{_XML}<sitemapindex {_XMLNS}>\n{names}</sitemapindex>\n", "application/xml")
    number = path.removeprefix("/sitemap-").removesuffix(".xml.gz")
    if not (number.isdecimal() and path == f"/sitemap-{int(number)}.xml.gz" and int(number) < parts > 1):
        return NOT_FOUND
    start = first + int(number) * SITEMAP_URLS
    urls = _urlset(plan, host, start, min(end, start + SITEMAP_URLS))
    compress = zlib.compressobj(1, zlib.DEFLATED, 31)  # 31: gzip, with no time in its header
    body = compress.compress(urls.encode()) + compress.flush()
    return Answer(200, b"Content-Type: application/gzip\r\n", body)


def _urlset(plan: Plan, host: Host, first: int, end: int) -> str:
    urls = "".join(
        f"<url><loc>{escape(f'http://{host.name}{plan.path(page)}')}</loc></url>\n" for page in range(first, end)
    )
    return f"{_XML}<urlset {_XMLNS}>\n{urls}</urlset>\n"
