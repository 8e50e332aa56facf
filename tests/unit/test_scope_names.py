"""The names of a scope: a set, whatever is asked, and small where there are many."""

import random
import tracemalloc

from gossamer.crawl.scope import Names, Scope


def test_it_is_a_set() -> None:
    rng, names, expected = random.Random(1), Names(), set[str]()
    for _ in range(60):
        some = [f"h{rng.randrange(20_000)}.test" for _ in range(rng.randrange(600))]
        assert names.add(some) == sorted({*some} - expected)
        expected |= {*some}
        for _ in range(50):
            name = f"h{rng.randrange(20_000)}.test"
            assert (name in names) == (name in expected)
    assert all(name in names for name in expected)
    assert names.add(expected) == []


def test_many_names_take_few_bytes_each() -> None:
    """A set of strings takes more than a hundred."""
    tracemalloc.start()
    names = Names()
    for start in range(0, 40_000, 4_000):
        names.add(f"example-{number}.test" for number in range(start, start + 4_000))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / 40_000 < 20


def test_a_scope_of_many_domains() -> None:
    scope = Scope("domain", (f"www.example-{number}.test" for number in range(6_000)))
    assert scope.admits("http://other.example-7.test/")
    assert not scope.admits("http://other.example.test/")
    assert scope.widen(["http://www.example-7.test/", "http://new.test/"]) == ["new.test"]
