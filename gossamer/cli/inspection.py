"""This module looks at one URL as the crawler does: with its resolver, guard, client, robots rules and parser."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from gossamer.clocks import Clock, RealClock
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.crawl.reader import VERDICTS, Reader
from gossamer.crawl.scope import Scope
from gossamer.errors import SeedError
from gossamer.fetch.client import Client, Request, Response
from gossamer.fetch.politeness import UNCONTACTED
from gossamer.fetch.purpose import Purpose
from gossamer.fetch.resolver import Resolver
from gossamer.fetch.robots_answer import next_hop, read_robots
from gossamer.web.http import Headers
from gossamer.web.preferences import AI_TXT, TDMREP, line_of_file, rules_of_file
from gossamer.web.robots import Rules, verdict_of_status
from gossamer.web.url import domain_of, host_of, normalise, origin_of, page_key, path_of, trap

if TYPE_CHECKING:  # whoever tries no function need not wait for it
    from gossamer.functions.trial import Trial


def inspect(url: str, config: Config, clock: Clock | None = None) -> dict[str, Any]:
    """Fetches robots.txt and, if a crawl would, the page; follows redirects and reports each hop."""
    clock = clock or RealClock()
    start = normalise(url)
    if start is None:
        raise SeedError(f"{url!r} is not a web address; write it like https://example.org/")
    with ExitStack() as stack:
        trial = _trial(config, stack)
        client = Client(config, clock, Resolver(config.resolve, clock))
        stack.callback(client.close)
        hops: list[dict[str, Any]] = []
        current = start
        while True:
            seen = _see(client, current, config, trial)
            if seen["outcome"] != "moved" or len(hops) >= config.fetch.hops:
                break
            hops.append({"url": current, "http_status": seen["http_status"], "location": seen["location"]})
            current = seen["location"]
    return {"url": url, "redirects": hops, **seen}


def _trial(config: Config, stack: ExitStack) -> "Trial | None":
    """Loads the functions that are to be tried, if there are any."""
    if not (config.extract.functions or config.extract.links):
        return None
    from gossamer.functions.trial import Trial

    return stack.enter_context(Trial(config))


def _see(client: Client, url: str, config: Config, trial: "Trial | None" = None) -> dict[str, Any]:
    host = host_of(url)
    seen: dict[str, Any] = {
        "normalised": url,
        "key": page_key(url),
        "host": host,
        "domain": domain_of(host),
        "trap": trap(url, config.limits),
    }
    robots = _robots(client, url, config)
    seen["robots"] = robots
    if robots["verdict"] != "allowed" and config.polite.robots:
        return seen | {"outcome": _unfetched(robots), "reason": robots["reason"]}
    asks, why = _asked(client, url, robots, config)
    if why and config.polite.robots:
        return seen | {
            "outcome": Outcome.REFUSED_USE.name.lower(),
            "reason": why,
            "preferences": asks.splitlines(),
        }
    response = _fetch(client, url)
    response.request.asks = asks
    visit = Reader(config, Scope(config.crawl.scope, [host])).read(response)
    links = [{"url": link, "verdict": VERDICTS[code]} for link, code in zip(visit.urls, visit.verdicts, strict=True)]
    made = trial.run(response) if trial and visit.outcome is Outcome.OK else {}
    return seen | {
        "outcome": visit.outcome.name.lower(),
        "reason": visit.reason,
        "http_status": response.http_status,
        "address": response.address,
        "headers": [list(pair) for pair in Headers(response.head)],
        "content_type": visit.mime,
        "charset": visit.charset,
        "title": visit.title,
        "language": visit.language,
        "canonical": visit.canonical,
        "location": visit.location,
        "noindex": visit.noindex,
        "preferences": visit.preferences.splitlines(),
        "not_for": visit.not_for.split(),
        "truncated": visit.truncated,
        "wire_bytes": response.size,
        "body_bytes": visit.body_bytes,
        "elapsed_s": round(response.elapsed_s, 4),
        "links": links,
        **made,
    }


def _robots(client: Client, url: str, config: Config) -> dict[str, Any]:
    address = origin_of(url) + "/robots.txt"
    response = _last_hop(client, address)
    at = response.request.url
    status, body, failure = read_robots(response)
    found: dict[str, Any] = {"url": address, "http_status": response.http_status}
    found |= {"line": "", "reason": "", "crawl_delay_s": None, "asks": "", "files": [TDMREP, AI_TXT]}
    found["outcome"] = response.outcome.name.lower()
    kind = verdict_of_status(status)
    if kind == "allow_all":
        why = f"robots.txt answers {response.http_status}"
        if response.outcome in (Outcome.MOVED, Outcome.BAD_REDIRECT):
            why = "robots.txt redirects to no file"
        return found | {"verdict": "allowed", "reason": f"{why}: everything is allowed"}
    if kind == "deny_all":
        why = (failure and failure[1]) or f"robots.txt answers {status}"
        if response.outcome in UNCONTACTED and host_of(at) == host_of(url):
            return found | {"verdict": "unreachable", "reason": why}
        return found | {
            "verdict": "unreachable",
            "outcome": Outcome.ROBOTS_UNREACHABLE.name.lower(),
            "reason": f"{why}: nothing may be fetched for now",
        }
    rules = Rules.parse(body, config.fetch.agent_name)
    allowed, line = rules.decide(path_of(url))
    found |= {"line": line, "crawl_delay_s": rules.crawl_delay_s, "sitemaps": rules.sitemaps}
    found |= {"asks": rules.asks(path_of(url)), "files": [file for file in (TDMREP, AI_TXT) if rules.allows(file)]}
    return found | {
        "verdict": "allowed" if allowed else "denied",
        "reason": "" if allowed else f"robots.txt: {line}",
    }


def _asked(client: Client, url: str, robots: dict[str, Any], config: Config) -> tuple[str, str]:
    """Returns what robots.txt and files of the page's origin say about its use, and why a crawl with this purpose does
    not fetch it. With a purpose we ask for the file that the crawl asks for, without one for all that there are."""
    purpose, asks = Purpose.of(config.crawl), str(robots["asks"])
    for file in robots["files"]:
        if purpose.name and (file != purpose.file or purpose.refusal(asks)):
            continue
        status, body, failure = read_robots(_last_hop(client, origin_of(url) + file))
        if failure is None and verdict_of_status(status) == "rules":
            rules = rules_of_file(file, body, config.fetch.agent_name)
            asks = "\n".join(filter(None, (asks, line_of_file(file, rules.decide(path_of(url))[1]))))
    return asks, purpose.refusal(asks)


def _unfetched(robots: dict[str, Any]) -> str:
    """Returns the outcome of a page that robots.txt, or its absence, keeps us from fetching."""
    return Outcome.DENIED.name.lower() if robots["verdict"] == "denied" else str(robots["outcome"])


def _last_hop(client: Client, url: str) -> Response:
    """Fetches robots.txt, or another file with rules, wherever it is."""
    response = _fetch(client, url, is_robots=True)
    while location := next_hop(response):
        response = _fetch(client, location, is_robots=True, hops=response.request.hops + 1)
    return response


def _fetch(client: Client, url: str, is_robots: bool = False, hops: int = 0) -> Response:
    client.start(Request(page_key(url), url, host_of(url), hops=hops, is_robots=is_robots), reuse=False)
    while True:
        for response in client.poll(1.0):
            return response
