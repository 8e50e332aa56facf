"""`Proxy` is a wide-area link on loopback: it counts bytes, delays them, lets only so many pass, and can be cut."""

import asyncio
import contextlib
import threading


class Proxy:
    """Between whoever connects to `port` and the server at `to`, in a thread of its own. `delay_s` is one way, and so
    is `bytes_per_s`, of all connections together; 0: as many as come."""

    def __init__(self, to: int, delay_s: float = 0.0, bytes_per_s: float = 0.0) -> None:
        self._to, self._delay_s, self._bytes_per_s = to, delay_s, bytes_per_s
        self._free_s = {True: 0.0, False: 0.0}  # when all that came before has passed, by direction
        self.port = 0
        self.sent = self.received = 0  # bytes towards the server, and from it
        self._is_cut = False
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="proxy", daemon=True)
        self._thread.start()
        ready.wait()

    def cut(self) -> None:
        """Connections break, and new ones are refused."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._break)

    def _break(self) -> None:
        for writer in self._open:
            writer.close()

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        self._open |= {writer, far_writer}
        with contextlib.suppress(asyncio.CancelledError):  # we are being closed
            await asyncio.gather(self._pump(reader, far_writer, True), self._pump(far_reader, writer, False))
        self._open -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sending: bool) -> None:
        """Bytes leave as late after they came as the link is long; the next ones need not wait for them."""
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        writing = asyncio.ensure_future(self._write(late, writer))
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if sending:
                    self.sent += len(data)
                else:
                    self.received += len(data)
                late.put_nowait((self._passed_s(len(data), sending) + self._delay_s, data))
        late.put_nowait((self._passed_s(0, sending) + self._delay_s, b""))
        await writing

    def _passed_s(self, size: int, sending: bool) -> float:
        """When so many bytes that are here now are on their way."""
        takes_s = size / self._bytes_per_s if self._bytes_per_s else 0.0
        self._free_s[sending] = max(self._free_s[sending], self._loop.time()) + takes_s
        return self._free_s[sending]

    async def _write(self, late: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                due_s, data = await late.get()
                if (wait_s := due_s - self._loop.time()) > 0:
                    await asyncio.sleep(wait_s)
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        writer.close()
