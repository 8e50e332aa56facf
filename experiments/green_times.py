"""This module repeats Figures 3 and 4 of LEADS D1.4 with downloads that take the time of their size: K = l + p / b,
with l = 100 ms and b = 1 Mbit/s, one after the other on one thread.

Energies are normalised to [0, 1] as in the paper, and linear in the size; staleness is in seconds. A row of every array
is a run, with a clock of its own.
"""

from typing import Any

import numpy as np

from experiments.green_choice import green_value
from experiments.harness import Block, Results, columns
from gossamer.arrays import F64
from gossamer.carbon.sun import day_index

LATENCY_S, BYTES_PER_S = 0.1, 1e6 / 8
MEDIAN_BYTES, SPREAD = 30_000.0, 1.2  # as in experiments/green_web.py
PAGES, WEBS, LAMBDAS = 1000, 3, 11
DAY_S = 86_400.0
WARM_S, END_S = 0.25 * DAY_S, 1.25 * DAY_S  # a day is measured: the pages come in turn a hundred times before
SUNRISE_H, SUNSET_H = 7.5, 17.0
STEP_S = 60.0  # of the index
SHOWN = columns(
    "index | price: lambda | staleness: mean staleness, s | carbon: carbon a second | downloads: downloads a second"
)


def download_s(sizes: F64) -> F64:
    """Returns K, the time that a download takes."""
    return LATENCY_S + sizes / BYTES_PER_S


def crawl(sizes: F64, price: F64, index: F64, warm_s: float = WARM_S, end_s: float = END_S) -> tuple[F64, F64, F64]:
    """Returns mean staleness of a page, carbon and downloads a second, of each lambda. `index` is that of each minute
    of a day. The policy never idles; all pages grow older while one is downloaded, and that one is fresh in the end."""
    runs, rows = len(price), np.arange(len(price))
    takes_s, energy = download_s(sizes), sizes / sizes.max()
    # Where pages come in turn, staleness at the start is the time since each one's turn.
    last_s = np.repeat(-np.cumsum(takes_s)[None, :], runs, axis=0)
    now_s = np.zeros(runs)
    stale_s, grams, count = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    total_s = -last_s.sum(axis=1)  # staleness of all pages together, now
    while now_s.min() < end_s:
        here = index[(now_s / STEP_S).astype(np.int64) % len(index)]
        value = green_value(now_s[:, None] - last_s, energy[None, :] * here[:, None], price[:, None])
        page = value.argmax(axis=1)
        took_s = takes_s[page]
        counts = (now_s >= warm_s) & (now_s < end_s)
        stale_s += np.where(counts, took_s * (total_s + len(sizes) * took_s / 2), 0.0)
        grams += np.where(counts, energy[page] * here, 0.0)
        count += counts
        now_s = now_s + took_s
        total_s = total_s + len(sizes) * took_s - (now_s - last_s[rows, page])
        last_s[rows, page] = now_s
    span_s = end_s - warm_s
    return stale_s / span_s / len(sizes), grams / span_s, count / span_s


def results(seed: int) -> Results:
    random = np.random.default_rng(seed)
    minutes = np.arange(int(DAY_S / STEP_S)) * STEP_S / 3600
    indexes = {"constant": np.ones(len(minutes)), "solar day": day_index(minutes, SUNRISE_H, SUNSET_H)}
    webs = [random.lognormal(np.log(MEDIAN_BYTES), SPREAD, PAGES) for _ in range(WEBS)]
    turn_s = float(np.mean([download_s(sizes).sum() for sizes in webs]))
    price = np.linspace(0, 10 * turn_s, LAMBDAS)
    rows: list[dict[str, Any]] = []
    shape = []
    for name, index in indexes.items():
        found = np.array([crawl(sizes, price, index) for sizes in webs])
        mean = found.mean(axis=0)
        rows += [
            {
                "part": "times",
                "index": name,
                "price": float(price[at]),
                "staleness": float(mean[0, at]),
                "carbon": float(mean[1, at]),
                "downloads": float(mean[2, at]),
            }
            for at in range(len(price))
        ]
        shape += _shape(name, price, found)
    return Results(
        "green-times",
        f"Downloads that take K = 100 ms + size / 1 Mbit/s: one server, {PAGES:,} pages, {WEBS} webs",
        rows,
        SHOWN,
        notes=(
            f"sizes lognormal, median {MEDIAN_BYTES:,.0f} bytes, sigma {SPREAD}; all pages in turn: {turn_s:,.0f} s",
            "energies are sizes, normalised to [0, 1]; lambda in seconds a gram; one thread, never idle; a day after a"
            " quarter of one to settle",
        ),
        more=(Block("Shape", shape, {"index": "index", "curve": "curve", "statement": "statement", "here": "here"}),),
    )


def _shape(name: str, price: F64, found: F64) -> list[dict[str, Any]]:
    """What LEADS D1.4 says of both curves, and what they do here."""
    stale, carbon = found[:, 0].mean(axis=0), found[:, 1].mean(axis=0)
    second = np.diff(stale, 2)
    bent = f"{int((second >= -1e-3 * np.ptp(stale)).sum())} of {len(second)} second differences not negative"
    rises = "rises" if (np.diff(stale) >= 0).all() else "does not always rise"
    line = np.polyval(np.polyfit(price, carbon, 1), price)
    fits = 1 - float(((carbon - line) ** 2).sum() / ((carbon - carbon.mean()) ** 2).sum())
    falls = "falls" if (np.diff(carbon) <= 0).all() else "does not always fall"
    off = float(np.abs(carbon - line).max() / np.ptp(carbon))
    return [
        {"index": name, "curve": "staleness", "statement": "rises, convex", "here": f"{rises}; {bent}"},
        {
            "index": name,
            "curve": "carbon",
            "statement": "falls, almost linearly",
            "here": f"{falls}; R² of a straight line {fits:.4f}, at most {off:.1%} of its range off",
        },
    ]
