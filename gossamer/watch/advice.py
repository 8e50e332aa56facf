"""This module says, for each outcome that is trouble, what it means and what a person may do about it."""

_ADVICE = {
    "gone": "The page is not there any more (404, 410). Nothing to do; `links` shows which pages still link to it.",
    "rejected": "The server refuses this request (4xx). Nothing to do, unless one host has most of them: look at one.",
    "server_error": "The server fails (5xx). It is tried again later; the host rests longer each time.",
    "throttled": "The host asks us to slow down (429, 503), and we do. If it lasts, raise polite.delay_s for it.",
    "robots_unreachable": "robots.txt cannot be read, so nothing of that host is fetched for a while (RFC 9309).",
    "no_name": "The name does not exist: an old link or a typing error. Nothing to do.",
    "dns_failed": "The name could not be looked up. If many hosts have it, check this machine's resolver and network.",
    "connect_failed": "Nobody answers there. If many hosts have it, check this machine's network or firewall.",
    "tls_failed": "The certificate or the handshake is wrong. Nothing to do, unless this machine's clock is wrong.",
    "timeout": "The answer took longer than fetch.timeout_s. It is tried again; raise that for slow hosts.",
    "broken": "The connection broke, or the answer is not HTTP. It is tried again.",
    "refused_address": "The address is private or forbidden. If it is a network of yours: resolve.private = true.",
    "bad_redirect": "The redirect leads nowhere, or goes in a circle. Nothing to do.",
    "other": "The status fits nowhere in HTTP. Nothing to do.",
    "refused_type": "The content type is none of fetch.accept_types; only its headers were read.",
    "forbidden": "The page is not for us (401, 403, 451). If you may see it, ask its owner to admit the crawler.",
}


def advice(outcome: str) -> str:
    return _ADVICE.get(outcome, "")
