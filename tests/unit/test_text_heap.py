import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.archive.store import Memory
from gossamer.errors import ArchiveError
from gossamer.frontier import text_heap as heap_module
from gossamer.frontier.index_pack import flush
from gossamer.frontier.text_heap import TextHeap


def commit(files, store, changes):
    for kind, names in changes.removed.items():
        for name in names:
            files[kind].remove(name)
            store.delete(name)
    for kind, names in changes.added.items():
        files.setdefault(kind, []).extend(names)


STEP = st.one_of(st.lists(st.binary(max_size=300), max_size=8), st.sampled_from(["commit", "crash"]))


@settings(deadline=None, max_examples=40)
@given(st.lists(STEP, max_size=60), st.randoms(use_true_random=False))
def test_locators_never_change(steps, random):
    store, files, heap = Memory(), {}, TextHeap()
    texts, committed, number = {}, {}, 1
    for step in steps:
        if isinstance(step, list):
            offsets = heap.append(step).tolist()
            assert offsets == sorted(offsets)
            texts |= dict(zip(offsets, step, strict=True))
        elif step == "commit":
            commit(files, store, flush([heap], store, f"a0-{number:08d}"))
            committed, number = dict(texts), number + 1
        else:
            flush([heap], store, f"a0-{number:08d}")
            heap, texts = TextHeap.open(store, files), dict(committed)
        asked = random.sample(sorted(texts), len(texts))
        assert heap.read(np.array(asked, np.uint64)) == [texts[offset] for offset in asked]


def test_segments_are_joined(monkeypatch):
    monkeypatch.setattr(heap_module, "SEGMENT_BYTES", 40_000)
    store, files, heap = Memory(), {}, TextHeap()
    texts, offsets = [], []
    for number in range(1, 400):
        new = [b"%d/%d" % (number, i) for i in range(30)]
        offsets.append(heap.append(new))
        texts += new
        changes = flush([heap], store, f"a0-{number:08d}")
        commit(files, store, changes)
        heap.release([name for names in changes.removed.values() for name in names])
    assert len(files["index.heap.delta"]) <= heap_module.MAX_DELTAS
    assert len(files["index.heap"]) < 20
    reopened = TextHeap.open(store, files)
    assert len(reopened) == len(heap)
    assert reopened.read(np.concatenate(offsets)) == texts


def test_a_missing_segment_is_noticed():
    store, files, heap = Memory(), {}, TextHeap()
    for number in (1, 2, 3):
        heap.append([b"text"])
        commit(files, store, flush([heap], store, f"a0-{number:08d}"))
    del files["index.heap.delta"][1]
    with pytest.raises(ArchiveError, match="missing"):
        TextHeap.open(store, files)


def test_a_text_that_does_not_fit_is_refused():
    heap = TextHeap()
    assert heap.append([b"x" * 65535]).tolist() == [0]
    with pytest.raises(ValueError, match="65536"):
        heap.append([b"x" * 65536])
    assert heap.read(np.zeros(0, np.uint64)) == []
