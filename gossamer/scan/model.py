"""This module models how long a website takes on a client (Pechnikov et al., section 4), and learns the parameters from
scans.

The model is that of section 4, but what arises per page is counted per page (the paper counts it per website, and
misprints the speeds):

    T = server_s + batch / transfer                                 receive the batch
      + sum over websites of
            (pages - 1) * delay_s                                   politeness: nobody can be faster
          + waited_s                                                for what failed, and will fail again
          + factor_j * correction_i * (site_s                       look-up, opening, the last commit
                                       + pages * page_s             connection and response
                                       + bytes * byte_s)            transfer and own work: 1 / v_web + 1 / v
      + results / transfer                                          send the results

`site_s`, `page_s` and `byte_s` are those of a typical client; `factor` says how much longer client j takes, and
`correction` how much longer website i does than its size explains.
"""

from dataclasses import dataclass

import numpy as np

from gossamer.arrays import F64, I64

_SWEEPS = 4  # factors, corrections and the common part are fitted in turn
_FEW = 3  # scans of websites before a client's are believed more than its reference time
_LEAST_S = 1e-3
_LEAST = 1e-6


@dataclass(frozen=True)
class Scanned:
    """`Scanned` holds what was measured: columns, one row per website and scan."""

    website: I64
    client: I64
    requests: F64
    wire_bytes: F64
    scan_s: F64
    delay_s: F64
    lookup_s: F64  # per request, for the address
    connect_s: F64  # per request
    response_s: F64  # per page: both, and to be answered
    byte_s: F64  # per byte, to be sent it
    waited_s: F64 | float = 0.0  # of scan_s, for what failed (scan/waiting.py)

    @property
    def rest_s(self) -> F64:
        """Returns the time that neither politeness nor patience explains."""
        rest_s = self.scan_s - polite_s(self.requests, self.delay_s) - self.waited_s
        return np.maximum(rest_s, _LEAST_S)


@dataclass(frozen=True)
class Model:
    site_s: float
    page_s: float
    byte_s: float
    factor: F64  # of clients
    correction: F64  # of websites

    def times_s(self, requests: F64, wire_bytes: F64, delay_s: F64) -> F64:
        """Returns an array (websites, clients), as `delay_s` is."""
        own = self.correction * (self.site_s + requests * self.page_s + wire_bytes * self.byte_s)
        return polite_s(requests[:, None], delay_s) + own[:, None] * self.factor[None, :]


@dataclass(frozen=True)
class Parameters:
    """`Parameters` holds one client's uncontrolled parameters (Pechnikov et al.), as far as its scans show them."""

    lookup_s: float  # per page: tdns
    connect_s: float  # per page, though most find a connection open: ttcp
    answer_s: float  # per page: the server's response, tweb
    download_bytes_per_s: float  # vweb; inf: too fast to be seen
    site_s: float  # per website: opening and closing it
    own_bytes_per_s: float  # v; inf: too fast to be seen


def polite_s(requests: F64, delay_s: F64) -> F64:
    """Returns the delays between so many requests: there is none before the first and after the last one."""
    return np.maximum(requests - 1, 0) * delay_s


def learn(scanned: Scanned, websites: int, clients: int, reference_s: F64 | None = None) -> Model:
    """Fits the model. `reference_s` are the clients' times for the reference site, NaN where it was not scanned."""
    seen = scanned
    reference = np.full(clients, np.nan) if reference_s is None else reference_s
    factor, correction = _from_reference(reference, np.zeros(clients)), np.ones(websites)
    if not len(seen.website):
        return Model(0.0, 1.0, 0.0, factor, correction)
    rest_s = seen.rest_s
    site_s = page_s = byte_s = 0.0
    counts = np.bincount(seen.client, minlength=clients)
    for _ in range(_SWEEPS):
        scale = factor[seen.client] * correction[seen.website]
        columns = np.stack((np.ones(len(rest_s)), seen.requests, seen.wire_bytes), axis=1)
        site_s, page_s, byte_s = fitted(columns * scale[:, None], rest_s).tolist()
        base = np.maximum(columns @ np.array([site_s, page_s, byte_s]), _LEAST_S)
        ratio = rest_s / (base * correction[seen.website])
        measured = np.maximum(_medians(ratio, seen.client, clients, base), _LEAST)
        factor = _from_reference(reference, np.where(counts >= _FEW, measured, 0.0))
        factor /= np.exp(np.log(factor).mean())  # only ratios mean something; the rest is in the common part
        off = rest_s / (base * factor[seen.client])
        correction = np.maximum(_medians(off, seen.website, websites, base), _LEAST)
    return Model(site_s, page_s, byte_s, factor, correction)


def _from_reference(reference_s: F64, measured: F64) -> F64:
    """Returns factors as measured; where that is 0, from the time for the reference site, as such times compare with
    factors of clients that have both; where there is neither, as of a typical client."""
    has, is_measured = ~np.isnan(reference_s), measured > 0
    if has.any():
        both = has & is_measured
        scale = np.median(measured[both] / reference_s[both]) if both.any() else 1 / np.median(reference_s[has])
        measured = np.where(~is_measured & has, reference_s * scale, measured)
    typical = float(np.median(measured[measured > 0])) if (measured > 0).any() else 1.0
    return np.where(measured > 0, measured, typical)


def _medians(values: F64, group: I64, groups: int, weight: F64) -> F64:
    """Returns each group's weighted median, 1 where it is empty: long scans are measured better than short ones."""
    found = np.ones(groups)
    order = np.lexsort((values, group))
    group, values, weight = group[order], values[order], weight[order]
    first = np.searchsorted(group, np.arange(groups + 1))
    for g in np.flatnonzero(np.diff(first)).tolist():
        own, heavy = values[first[g] : first[g + 1]], weight[first[g] : first[g + 1]].cumsum()
        found[g] = own[np.searchsorted(heavy, heavy[-1] / 2)]
    return found


def fitted(columns: F64, values: F64) -> F64:
    """Fits coefficients that are not negative, by least squares of relative errors; rows far off do not count twice.

    There are few columns: all subsets of them are tried, and the best that needs no negative coefficient is taken.
    """
    weight = 1 / np.maximum(values, max(1e-12, float(np.median(values)) / 10) if len(values) else 1.0)
    found = np.zeros(columns.shape[1])
    for _ in range(2):
        found = _not_negative(columns * weight[:, None], values * weight)
        off = np.abs(columns @ found - values) * weight
        typical = 1.4826 * float(np.median(off)) if len(off) else 0.0
        weight = weight * np.where(off > 3 * max(typical, 1e-9), 0.1, 1.0)
    return found


def _not_negative(columns: F64, values: F64) -> F64:
    width = columns.shape[1]
    best, best_error = np.zeros(width), float(values @ values)
    scale = np.maximum(np.abs(columns).max(axis=0, initial=0.0), 1e-300)
    for subset in range(1, 1 << width):
        own = [k for k in range(width) if subset >> k & 1]
        found = np.linalg.lstsq(columns[:, own] / scale[own], values, rcond=None)[0] / scale[own]
        if (found < 0).any():
            continue
        error = float(((columns[:, own] @ found - values) ** 2).sum())
        if error < best_error * (1 - 1e-9):
            best, best_error = np.zeros(width), error
            best[own] = found
    return best


def parameters(scanned: Scanned, client: int) -> Parameters | None:
    """Returns a client's parameters; None if it has scanned too little."""
    own = scanned.client == client
    if own.sum() < _FEW:
        return None
    requests, sent, one = scanned.requests[own], scanned.wire_bytes[own], np.zeros(int(own.sum()), np.int64)

    def typical(column: F64) -> float:
        return max(0.0, float(_medians(column[own], one, 1, requests)[0]))

    lookup_s, connect_s, response_s, byte_s = map(
        typical, (scanned.lookup_s, scanned.connect_s, scanned.response_s, scanned.byte_s)
    )
    work_s = np.maximum(scanned.rest_s[own] - requests * response_s - sent * byte_s, _LEAST_S)
    site_s, own_byte_s = fitted(np.stack((np.ones(len(sent)), sent), axis=1), work_s).tolist()
    answer_s = max(0.0, response_s - lookup_s - connect_s)
    return Parameters(lookup_s, connect_s, answer_s, _inverse(byte_s), site_s, _inverse(own_byte_s))


def _inverse(byte_s: float) -> float:
    return 1 / byte_s if byte_s > 0 else float("inf")


def batch_s(server_s: float, transfer_bytes_per_s: float, batch_bytes: float, result_bytes: float) -> float:
    """Returns the time that a client spends on the way to and from the coordinator: t_in + t_out."""
    return server_s + (batch_bytes + result_bytes) / transfer_bytes_per_s
