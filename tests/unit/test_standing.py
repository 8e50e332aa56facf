"""What a site tells those who follow it: at once what they do not know, then what changes, and nothing else."""

import asyncio

import msgspec

from gossamer.cluster.protocol import Summary, decode
from gossamer.cluster.standing import Teller


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
        told = decode(Summary, data)
        assert (told.finished, told.agents, told.sent) == (False, 0, {}), "what changes all the time is left out"
        waiting = asyncio.create_task(link.work("east", digest))
        teller.set(msgspec.structs.replace(mine, serial=2, agents=4, sent={"a>b": 2}))
        await asyncio.sleep(0)
        assert not waiting.done()
        teller.set(msgspec.structs.replace(mine, serial=3, finished=True))
        digest, _, data = (await waiting).partition(b" ")
        found = decode(Summary, data)
        assert (found.finished, found.sent) == (True, {}), "when all have finished, they look into our server"
        waiting = asyncio.create_task(link.work("east", digest))
        teller.set(msgspec.structs.replace(mine, finished=True, over=["south"], addresses={"south": "b:2"}))
        await asyncio.sleep(0)
        assert not waiting.done(), "what matters to others alone is not told"
        teller.set(msgspec.structs.replace(mine, finished=True, over=["south", "east"], addresses={"east": "a:1"}))
        found = decode(Summary, (await waiting).partition(b" ")[2])
        assert (found.over, found.addresses) == (["east"], {"east": "a:1"})
        other, again = (asyncio.create_task(link.work(name, b"")) for name in ("south", "east"))
        assert b"" not in (await other, await again), "each asker has its own answer"

    asyncio.run(tell())
