"""Finds groups of vertices that belong together, none larger than a limit: label propagation, for coarser graphs."""

import numpy as np

from gossamer.arrays import F64, I32, I64


def propagate(first: I64, other: I32, weight: F64, size: I64, order: I32, label: I32, load: I64, limit: int) -> int:
    """Every vertex of `order` in turn takes the label that most of its edges have, of those with room for it (Raghavan
    et al. 2007; with a limit, Meyerhenke et al. 2014). Equal ones: its own, else the smaller group, else the lower
    label. `load`: the size of each group. Returns how many vertices changed."""
    pull = np.zeros(len(load))
    near = np.empty(len(load), np.int32)
    changes = 0
    for v in order:
        count = 0
        for e in range(first[v], first[v + 1]):
            group = label[other[e]]
            if pull[group] == 0.0:
                near[count] = group
                count += 1
            pull[group] += weight[e]
        own = best = label[v]
        for j in range(count):
            group = near[j]
            if group != own and load[group] + size[v] <= limit:
                ahead = pull[group] - pull[best]
                if ahead > 0 or (ahead == 0 and best != own and (load[group], group) < (load[best], best)):
                    best = group
        for j in range(count):
            pull[near[j]] = 0.0
        if best != own:
            load[own] -= size[v]
            load[best] += size[v]
            label[v] = best
            changes += 1
    return changes
