"""This module writes numbers as people read them, and makes foreign text safe to show. What is unknown is a dash."""

from datetime import UTC, datetime

UNKNOWN = "-"
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_BARS = "▁▂▃▄▅▆▇"  # without the full block: a row of those looks like a progress bar

# Titles and bodies come from strangers: escape sequences could repaint the terminal.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0))}
_OVERRIDES = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)}
_TABLE = {**_CONTROLS, **_OVERRIDES, 0x09: " ", 0x0A: "\n"}


def count(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:,.0f}"


def size(number: float | None) -> str:
    """Writes bytes in decimal units, three significant digits: 1.23 GB."""
    return f"{number:.0f} B" if number is not None and number < 999.5 else _scaled(number, _UNITS)


def joules(number: float | None) -> str:
    return _scaled(None if number is None else number * 1000, ("mJ", "J", "kJ", "MJ", "GJ", "TJ"))


def grams(number: float | None) -> str:
    return _scaled(None if number is None else number * 1e6, ("µg", "mg", "g", "kg", "t", "kt"))


def _scaled(number: float | None, units: tuple[str, ...]) -> str:
    if number is None:
        return UNKNOWN
    value = float(number)
    for unit in units:
        if value < 999.5 or unit == units[-1]:
            break
        value /= 1000
    return f"{value:.2f} {unit}" if value < 9.995 else f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"


def rate(number: float | None) -> str:
    """Writes a rate per second: small rates keep a decimal, because 0.4 is not 0."""
    if number is None:
        return UNKNOWN
    return f"{number:,.0f}" if number >= 9.95 else f"{number:.1f}"


def span(seconds: float | None) -> str:
    """Writes a length of time: 0:07, 12:34, 3:12:34, 2 d 03:12."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour:02}:{minute:02}"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def moment(seconds: float | None) -> str:
    """Writes a point in time, UTC."""
    if seconds is None:
        return UNKNOWN
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def waiting(until_s: float) -> str:
    """Describes a crawl that has nothing to do for a moment, but is not over."""
    return f"waits until {moment(until_s)}: what failed is tried again, or hosts rest"


def short(number: float | None) -> str:
    """Writes a count where room is scarce: 987, 12,345, 1.91 M."""
    if number is None or number < 1e6:
        return count(number)
    return f"{number / 1e6:.2f} M" if number < 1e9 else f"{number / 1e9:.2f} G"


def share(part: float, whole: float) -> str:
    """Writes per cent; a little is not shown as nothing, nor nearly all as all."""
    if whole <= 0:
        return UNKNOWN
    if 0 < part / whole < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < part / whole < 1 else f"{100 * part / whole:.0f} %"


def sparkline(values: list[float]) -> str:
    """Draws one bar per value; the largest is the highest."""
    top = max(values, default=0.0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[int(6 * value / top)] for value in values)


def printable(text: str) -> str:
    """Makes foreign text safe for a terminal."""
    return text.translate(_TABLE)
