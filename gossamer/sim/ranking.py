"""This module computes PageRank as production does, bit for bit, with the sum over links compiled in the same order."""

from functools import partial

import numpy as np
from numba import njit

from gossamer.arrays import F64, I32, I64, Integers
from gossamer.frontier import pagerank as counting


@njit(nogil=True, cache=True)
def flow(source: Integers, target: Integers, value: F64, pages: int) -> F64:
    """What comes to each page over all links."""
    sums = np.zeros(pages)
    for link in range(len(source)):
        sums[target[link]] += value[source[link]]
    return sums


@njit(nogil=True, cache=True)
def known_links(indptr: I64, indices: I32, visited: I32, number: I64) -> tuple[I64, I64]:
    """Source and target of all links of these pages, page by page, as the numbers that pages have."""
    count = 0
    for page in visited:
        count += indptr[page + 1] - indptr[page]
    source, target = np.empty(count, np.int64), np.empty(count, np.int64)
    count = 0
    for page in visited:
        for link in range(indptr[page], indptr[page + 1]):
            source[count] = number[page]
            target[count] = number[indices[link]]
            count += 1
    return source, target


pagerank = partial(counting.pagerank, flow_of=flow)
