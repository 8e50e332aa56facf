"""These types read numbers on the command line; what makes no sense is refused there, with its name."""

import argparse
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is too small, at least 1 is needed")
    return number


def natural(text: str) -> int:
    """A whole number from 0 on."""
    return _number(text, int, "no whole number", 2**31 - 1)


def span(text: str) -> float:
    """A length of time or a factor: 0 or more."""
    return _number(text, float, "no number", 1e9)


def part(text: str) -> float:
    """A part of a whole: from 0 to 1."""
    return _number(text, float, "no number", 1.0)


def _number(text: str, kind: Callable[[str], Number], otherwise: str, most: Number) -> Number:
    try:
        number = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is {otherwise}") from None
    if not 0 <= number <= most:
        raise argparse.ArgumentTypeError(f"{text} is out of range, from 0 to {most:.10g}")
    return number
