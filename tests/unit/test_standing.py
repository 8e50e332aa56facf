"""What a site tells those who follow it: at once what they do not know, then what changes, and nothing else."""

import asyncio
import threading
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

import msgspec
import nats.errors

from gossamer.cluster.nats_connection import Unreachable
from gossamer.cluster.protocol import Summary, encode
from gossamer.cluster.standing import Teller, packed, read_all, unpacked


class Asked:
    """Whoever serves a teller gets its answers; here they are asked for by the test."""

    async def answer(self, _subject: str, work: object, *, at_once: bool) -> None:
        assert at_once, "one who waits must not keep others waiting"
        self.work = work


def test_a_follower_is_told_what_changes_and_nothing_else() -> None:
    async def tell() -> None:
        teller, link = Teller(), Asked()
        await teller.serve(link)  # type: ignore[arg-type]
        mine = Summary(finished=False, agents=3, serial=1, sent={"a>b": 1})
        teller.set(mine)
        digest, _, data = (await link.work("east", b"")).partition(b" ")
        told = unpacked(data)
        assert (told.finished, told.agents, told.sent) == (False, 0, {}), "what changes all the time is left out"
        waiting = asyncio.create_task(link.work("east", digest))
        teller.set(msgspec.structs.replace(mine, serial=2, agents=4, sent={"a>b": 2}))
        await asyncio.sleep(0)
        assert not waiting.done()
        for finished in (True, True, True, False, True):  # until the next message comes
            teller.set(msgspec.structs.replace(mine, serial=3, finished=finished, crossed={"east": {"links": 1}}))
            await asyncio.sleep(0)
            assert not waiting.done()
        now = unpacked((await link.work("east", b"now")).partition(b" ")[2])
        assert (now.finished, now.sent, now.serial) == (True, {"a>b": 1}, 3), "whoever asks for it is told all of it"
        assert now.crossed == {}, "but for what only people look at"
        for _ in range(3):
            teller.set(msgspec.structs.replace(mine, serial=3, finished=True))
        digest, _, data = (await waiting).partition(b" ")
        assert unpacked(data).finished
        waiting = asyncio.create_task(link.work("east", digest))
        await asyncio.sleep(0)
        teller.set(mine)  # it was wrong, and takes it back
        digest, _, data = (await waiting).partition(b" ")
        assert not unpacked(data).finished
        waiting = asyncio.create_task(link.work("east", digest))
        for _ in range(8):  # it is more careful now
            await asyncio.sleep(0)
            assert not waiting.done()
            teller.set(msgspec.structs.replace(mine, finished=True))
        digest, _, data = (await waiting).partition(b" ")
        found = unpacked(data)
        assert (found.finished, found.sent) == (True, {}), "when all have finished, they ask how it is now"
        waiting = asyncio.create_task(link.work("east", digest))
        teller.set(msgspec.structs.replace(mine, finished=True, over=["south"], addresses={"south": "b:2"}))
        await asyncio.sleep(0)
        assert not waiting.done(), "what matters to others alone is not told"
        teller.set(msgspec.structs.replace(mine, finished=True, over=["south", "east"], addresses={"east": "a:1"}))
        found = unpacked((await waiting).partition(b" ")[2])
        assert (found.over, found.addresses) == (["east"], {"east": "a:1"})
        other, again = (asyncio.create_task(link.work(name, b"")) for name in ("south", "east"))
        assert b"" not in (await other, await again), "each asker has its own answer"

    asyncio.run(tell())


def test_a_summary_that_is_too_long_or_none_is_not_unpacked() -> None:
    mine = Summary(finished=True, marks={f"agent{number}>north": number for number in range(1000)})
    assert unpacked(packed(mine)) == mine
    assert len(packed(Summary(finished=True))) < 40
    for bad in (b"", b"nonsense", packed(mine)[:-1], encode(mine), b"\x00" * 100):
        assert unpacked(bad) is None
    bomb = zlib.compressobj(9, wbits=-15)
    assert unpacked(bomb.compress(b" " * (2 << 20)) + bomb.flush()) is None


class Slow:
    """A site that answers when all have been asked, and not before."""

    def __init__(self, all_asked: threading.Barrier, answers: bool) -> None:
        self.all_asked, self.answers = all_asked, answers

    async def ask(self, _subject: str, known: bytes, _timeout_s: float) -> bytes:
        assert known == b"now"
        await asyncio.to_thread(self.all_asked.wait, 30)
        if not self.answers:
            raise nats.errors.NoRespondersError
        return b" " + packed(Summary(finished=True))

    async def newest(self, _stream: str, _subject: str) -> list[object]:
        return []

    def begin(self, work: Callable[[object], Awaitable[Summary | None]]) -> Future[Summary | None]:
        found: Future[Summary | None] = Future()
        threading.Thread(target=lambda: found.set_result(asyncio.run(work(self)))).start()  # type: ignore[arg-type]
        return found


class Down:
    def begin(self, _work: object) -> Future[Summary | None]:
        raise Unreachable


def test_all_sites_are_asked_at_once() -> None:
    """One that waits for the others to be asked would never be answered if they were asked one after the other."""
    all_asked = threading.Barrier(3)
    wires = {name: Slow(all_asked, answers=name != "south") for name in ("east", "south", "west")} | {"lima": Down()}
    found = read_all(wires, "north")  # type: ignore[arg-type]
    assert {name: one is not None and one.finished for name, one in found.items()} == {
        "east": True, "south": False, "west": True, "lima": False,
    }  # fmt: skip
