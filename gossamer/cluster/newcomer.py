"""`Newcomer` is a machine that joins a federation: it makes its own key, asks for a certificate, and writes what a site
needs."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from gossamer.clocks import Clock
from gossamer.cluster.certificates import check_issued, fingerprint, new_key, private, request
from gossamer.cluster.federation_file import parsed
from gossamer.cluster.invitation import Admitted, Forged, Joined, Request, Token, framed, read
from gossamer.cluster.keys import authority_file, tls_name, write_private
from gossamer.cluster.site_list import write_text
from gossamer.errors import ConfigError, SiteError

_ANSWER_S = 30.0  # of the operator, who comes again if bringing a new list to all sites takes longer
_PATIENCE_S = 20.0  # then a person learns what may be wrong
_AT_ONCE = 64  # connections: strangers may come, too


class Newcomer:
    """`join` returns the federation's file, when everything is on the disk."""

    def __init__(self, token: Token, folder: Path, clock: Clock, report: Callable[[str], None]) -> None:
        self._token, self._clock, self._report = token, clock, report
        if Path(token.file).name != token.file:
            raise ConfigError(f"the token names a file in another directory: {token.file}")
        self.path = folder / token.file
        if self.path.exists():
            raise ConfigError(
                f"{self.path} is here already: to run a site that has joined, `gossamer site run --name {token.site} "
                f"{token.file}`; to join anew, do it in another directory"
            )
        key = new_key()
        self._key = private(key)
        self._csr = request(key, tls_name(token.site)).decode()

    def join(self) -> Path:
        left_s = self._token.ends_s - self._clock.now()
        if left_s <= 0:
            raise ConfigError("the token has ended: let the operator invite this machine again")
        try:
            asyncio.run(self._listen(left_s))
        except TimeoutError:
            raise SiteError(
                "nobody came before the token ended. `gossamer federation invite` must be running, and reach "
                f"{self._token.address}; a token serves once: let the operator invite this machine again"
            ) from None
        return self.path

    async def _listen(self, left_s: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        room = asyncio.Semaphore(_AT_ONCE)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async with room:
                with contextlib.closing(writer):
                    try:
                        async with asyncio.timeout(_ANSWER_S):
                            await self._ask(reader, writer)
                        if not done.done():
                            done.set_result(None)
                    except (Forged, OSError, TimeoutError):
                        pass  # a stranger; or the operator, who will come again
                    except ConfigError as error:
                        if not done.done():
                            done.set_exception(error)

        host, _, port = self._token.listen.rpartition(":")
        try:
            server = await asyncio.start_server(serve, host, int(port))
        except OSError as error:
            raise SiteError(
                f"this machine cannot listen at {self._token.listen}: {error.strerror or error}; where its server "
                "listens, if not at its address, is `listen` in the federation's file"
            ) from None
        try:
            self._report(f"waiting for the operator at {self._token.listen}")
            async with asyncio.timeout(left_s):
                waited, _ = await asyncio.wait([done], timeout=_PATIENCE_S)
                if not waited:
                    self._report(
                        "nobody has come yet: is `gossamer federation invite` running, and can it reach "
                        f"{self._token.address}? A token serves once: has it been used?"
                    )
                await done
        finally:
            server.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        token = self._token
        asked = token.seal(Request(csr=self._csr))
        writer.write(framed(asked))
        await writer.drain()
        answer = token.opened(Admitted, await read(reader), asked)
        if answer.refused:
            raise ConfigError(f"the operator does not let {token.site} join: {answer.refused}")
        refused = ""
        try:
            self._write(answer)
        except ConfigError as error:
            refused = str(error)
            raise
        finally:
            with contextlib.suppress(OSError):  # whether the operator learns it or not, it is done
                writer.write(framed(token.seal(Joined(refused=refused), asked)))
                await writer.drain()

    def _write(self, answer: Admitted) -> None:
        """Checks everything before anything is written; the file, without which nothing runs, is written last."""
        token, authority, certificate = self._token, answer.authority.encode(), answer.certificate.encode()
        federation = parsed(self.path, answer.text)
        federation.check_site(token.site)
        keys = federation.keys
        try:
            if fingerprint(authority) != token.authority:
                raise ValueError("the authority is another one than the token names")
            check_issued(certificate, authority, tls_name(token.site), self._key)
        except ValueError as error:
            raise ConfigError(f"{token.site} does not join: {error}") from None
        if authority_file(keys).exists() and authority_file(keys).read_bytes() != authority:
            raise ConfigError(f"{authority_file(keys)} is of another federation: join in another directory")
        if (keys / f"{token.site}.key").exists():
            raise ConfigError(f"{keys / token.site}.key is here already: join in another directory")
        keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(authority_file(keys), authority)
        write_private(keys / f"{token.site}.key", self._key)
        write_private(keys / f"{token.site}.pem", certificate)
        write_text(self.path, answer.text)
