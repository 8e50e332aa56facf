import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.archive.store import Memory
from gossamer.columns import HOST
from gossamer.frontier.hosts import Hosts
from gossamer.frontier.index_pack import flush
from gossamer.frontier.table import Table


def opened(store, files):
    return Hosts(Table.open(HOST, store, files, 1 << 20))


def grow(hosts, counts):
    """{host: (known, visited)}; a host's domain is its number modulo 4."""
    names = np.array(sorted(counts), np.uint32)
    known = np.array([counts[name][0] for name in sorted(counts)], np.int64)
    visited = np.array([counts[name][1] for name in sorted(counts)], np.int64)
    hosts.grow(names, names % 4, known, visited)


STEP = st.one_of(
    st.dictionaries(st.integers(0, 30), st.tuples(st.integers(0, 9), st.integers(-3, 5)), max_size=12),
    st.sampled_from(["commit", "crash"]),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(STEP, max_size=50))
def test_hosts_are_a_dict_of_counters(steps):
    store, files = Memory(), {}
    hosts = opened(store, files)
    model, committed, number = {}, {}, 1
    for step in steps:
        if isinstance(step, dict):
            grow(hosts, step)
            for host, (known, visited) in step.items():
                old_known, old_visited = model.get(host, (0, 0))
                new_known = old_known + known
                model[host] = (new_known, min(max(old_visited + visited, 0), new_known))
        elif step == "commit":
            changes = flush([hosts.table], store, f"a0-{number:08d}")
            for kind, names in changes.removed.items():
                files[kind] = [name for name in files[kind] if name not in names]
            for kind, names in changes.added.items():
                files.setdefault(kind, []).extend(names)
            committed, number = dict(model), number + 1
        else:
            flush([hosts.table], store, f"a0-{number:08d}")
            hosts, model = opened(store, files), dict(committed)
        rows = hosts.rows
        assert {int(r["host"]): (int(r["known"]), int(r["visited"])) for r in rows} == model
        assert rows["host"].tolist() == sorted(model)
        pages, counts = hosts.domain_counts(np.arange(5, dtype=np.uint32))
        for domain in range(5):
            mine = [value for host, value in model.items() if host % 4 == domain]
            assert (pages[domain], counts[domain]) == (sum(known for known, _ in mine), len(mine))


def test_deltas_become_one_file_now_and_then():
    store = Memory()
    hosts = opened(store, {})
    names = {"index.host.base": [], "index.host.run": [], "index.host.delta": []}
    for number in range(1, 100):
        grow(hosts, dict.fromkeys(range(1000), (1, 0)) if number == 1 else {number: (1, 1)})
        changes = flush([hosts.table], store, f"a0-{number:08d}")
        for kind, gone in changes.removed.items():
            names[kind] = [name for name in names[kind] if name not in gone]
        for kind, new in changes.added.items():
            names[kind] += new
        assert len(names["index.host.base"]) == (number > 32)
        assert len(names["index.host.run"]) == (number > 65)
        assert len(names["index.host.delta"]) <= 32
    again = opened(store, names)
    assert np.array_equal(again.rows, hosts.rows)
    assert not flush([hosts.table], store, "a0-00000100")
