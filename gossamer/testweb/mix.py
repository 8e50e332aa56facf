"""These functions make numbers that look random and are the same in every process: splitmix64."""

import math

import numpy as np

from gossamer.arrays import F64, U64

_MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
_A = 0xBF58476D1CE4E5B9
_B = 0x94D049BB133111EB
_SCALE = 2.0**-53
_S30, _S27, _S31, _S11 = (np.uint64(n) for n in (30, 27, 31, 11))
_UA, _UB = np.uint64(_A), np.uint64(_B)


def mix(x: int) -> int:
    """Returns the finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit numbers."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * _A) & _MASK
    x = ((x ^ (x >> 27)) * _B) & _MASK
    return x ^ (x >> 31)


def draw(bits: int, salt: int) -> int:
    """Returns the salt-th number of the stream that starts at `bits`."""
    return mix(bits + (salt + 1) * GOLDEN)


def unit(bits: int) -> float:
    """Returns a number in [0, 1) from 64 bits; the lowest 11 do not matter and stay free for other uses."""
    return (bits >> 11) * _SCALE


def mixed(x: U64) -> U64:
    """Returns `mix` of a column."""
    x = (x ^ (x >> _S30)) * _UA
    x = (x ^ (x >> _S27)) * _UB
    return x ^ (x >> _S31)


def draws(bits: U64, salt: int) -> U64:
    """Returns `draw` of a column."""
    return mixed(bits + np.uint64(((salt + 1) * GOLDEN) & _MASK))


def units(bits: U64) -> F64:
    """Returns `unit` of a column."""
    return (bits >> _S11) * np.float64(_SCALE)


def stream(seed: int, count: int) -> U64:
    """Returns `count` numbers under a random seed."""
    start = np.uint64(mix(mix(seed) ^ GOLDEN))
    with np.errstate(over="ignore"):
        return mixed(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + start)


def normal(bits: int) -> float:
    """Returns a standard normal number (Box-Muller on the two halves)."""
    radius = math.sqrt(-2.0 * math.log(((bits >> 32) + 1) * 2.0**-32))
    return radius * math.cos((bits & 0xFFFFFFFF) * (2.0**-32 * math.tau))


def normals(bits: U64) -> F64:
    """Returns `normal` of a column."""
    high = (bits >> np.uint64(32)).astype(np.float64)
    low = (bits & np.uint64(0xFFFFFFFF)).astype(np.float64)
    radius: F64 = np.sqrt(-2.0 * np.log((high + 1) * 2.0**-32))
    return radius * np.cos(low * (2.0**-32 * math.tau))
