"""Numbers on the command line: what makes no sense is refused there, with its name."""

import argparse


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is too small, at least 1 is needed")
    return number


def natural(text: str) -> int:
    """A whole number from 0 on."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if not 0 <= number < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is out of range, from 0 to {2**31 - 1}")
    return number


def span(text: str) -> float:
    """A length of time or a factor: 0 or more."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 <= number < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is out of range, from 0 to 1e9")
    return number
