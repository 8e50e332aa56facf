"""Bundles: what goes into them comes out again, and nothing else is taken for one."""

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.archive.bundle import LONG_BYTES, bundled, group_of, unbundled
from gossamer.archive.manifest import ANY, BUNDLE, HOSTS, LINKS, NEWS, REMOTE_LINKS, SEEDS, ZONES, Message
from gossamer.archive.state import replace
from gossamer.errors import Unreadable
from gossamer.sharing.envelope import PIECE_BYTES, opened, sealed, subject_of

sizes = st.one_of(st.integers(0, 200), st.integers(LONG_BYTES - 2, LONG_BYTES + 2))
letters = st.builds(
    lambda to, kind, size, part: Message("s_a1", 7, part, to, bytes([part]) * size, kind, 9, 3),
    st.sampled_from([*(f"s_a{number}" for number in range(40)), "north", "s_a1", ANY]),
    st.sampled_from([LINKS, NEWS, SEEDS, ZONES, HOSTS, REMOTE_LINKS]),
    sizes,
    st.integers(0, 8),
)


@settings(deadline=None)
@given(st.lists(letters, max_size=60))
def test_all_come_out_again(messages: list[Message]) -> None:
    travelling = bundled(messages)
    found = [each for one in travelling for each in unbundled(one)]
    assert sorted(found, key=repr) == sorted(messages, key=repr)
    for bundle in (each for each in travelling if each.kind == BUNDLE):
        inside = unbundled(bundle)
        assert {each.kind for each in inside} <= {LINKS, NEWS, SEEDS}
        assert len({group_of(each.to) for each in inside}) == 1
        assert bundle.streams == sorted({each.stream for each in inside})
        assert not {"north", "s_a1", ANY} & {each.to for each in inside}, "to agents of this site, and not to itself"
        [(headers, data)] = sealed(bundle)
        assert len(data) < PIECE_BYTES
        assert opened(subject_of(bundle), headers, data).message.data == bundle.data
    places = [(each.to, each.part) for each in travelling if each.kind == BUNDLE]
    assert len({*places}) == len(places), "each has a name of its own"


def test_few_travel() -> None:
    def travelling(agents: int) -> int:
        made = [Message("a0", 1, part, f"a{n}", b"x" * 300, NEWS, 2) for n in range(1, agents) for part in (0, 1)]
        return len(bundled(made))

    assert [travelling(agents) for agents in (2, 16, 17, 200)] == [1, 1, 2, 13]


def bundle() -> Message:
    [made] = bundled([Message("a0", 4, 0, to, b"hello", previous=2) for to in ("a1", "a2")])
    return made


def packed(data: bytes) -> bytes:
    return zstandard.compress(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"rubbish",
        packed(b""),
        packed(b"[]"),
        packed(b'[["a1",0,1,0,"links",5,-1]]\n'),
        packed(b'[["a1",0,1,0,"links",5,9]]\nhello'),
        packed(b'[["a1",0,1,0,"links",5,3]]\nhello'),
        packed(b'[["a1",1,1,0,"links",5,5]]\nhello'),
        packed(b'[["a1",0,1,4,"links",5,5]]\nhello'),
        packed(b'[["a1",0,1,0,"zones",5,5]]\nhello'),
        packed(b'[["a1",0,1,0,"links",5]]\nhello'),
        packed(b"0" * (1 << 24)),
        bundle().data[:-3],
    ],
)
def test_what_is_no_bundle(data: bytes) -> None:
    with pytest.raises(Unreadable):
        unbundled(replace(bundle(), data=data))


def test_subject_and_kind_agree() -> None:
    """A message for one agent cannot pass for one to all, nor the other way round."""
    [(headers, data)] = sealed(bundle())
    with pytest.raises(Unreadable, match="subject"):
        opened("links.a1.a0", headers, data)
    [(headers, data)] = sealed(Message("a0", 1, 0, "a1", b"hello"))
    with pytest.raises(Unreadable, match="subject"):
        opened("links.=0.a0", headers, data)
