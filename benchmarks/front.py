"""`front` runs an nginx before a test web, for what the test web itself does not do: TLS and Brotli."""

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gossamer.cluster.nats_server import free_port

NEEDED = ("nginx-light", "libnginx-mod-http-brotli-filter", "openssl")  # Debian's packages
MODULE = Path("/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so")
_LISTENS_S = 10.0
# Pages link to http://; whoever came by TLS shall stay there. What is packed could not be changed.
_STAYS = "sub_filter http:// https://; sub_filter_once off; proxy_set_header Accept-Encoding '';"
KINDS = {
    "brotli": "listen {address}; brotli on; brotli_comp_level 1;",
    "TLS, connections stay open": "listen {address} ssl; " + _STAYS,
    "TLS, each page a new connection, sessions kept": "listen {address} ssl; keepalive_timeout 0; " + _STAYS,
    "TLS, each page a new connection": "listen {address} ssl; keepalive_timeout 0; ssl_session_cache off; "
    "ssl_session_tickets off; " + _STAYS,
}


@contextmanager
def front(kind: str, web: str, folder: Path, core: int) -> Iterator[str]:
    """Yields the address at which the web is served, by a process on that core."""
    folder.mkdir()
    address = f"127.0.0.1:{free_port()}"
    _make_certificate(folder)
    path = folder / "nginx.conf"
    path.write_text(_configuration(KINDS[kind].format(address=address), web, folder))
    command = ["taskset", "--cpu-list", str(core), "nginx", "-e", str(folder / "error.log"), "-c", str(path)]
    process = subprocess.Popen(command)
    try:
        _wait_for(folder / "nginx.pid", process)
        yield address
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def is_here() -> bool:
    return shutil.which("nginx") is not None and shutil.which("openssl") is not None and MODULE.exists()


def _configuration(server: str, web: str, folder: Path) -> str:
    paths = " ".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    )
    return f"""
load_module {MODULE};
daemon off; master_process off; user root; pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off; {paths}
  ssl_certificate {folder}/own.pem; ssl_certificate_key {folder}/own.key;
  ssl_session_cache builtin:10000;
  keepalive_requests 1000000;
  upstream web {{ server {web}; keepalive 64; }}
  server {{
    {server}
    location / {{ proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Connection '';
                  proxy_set_header Host $host; }}
  }}
}}
"""


def _make_certificate(folder: Path) -> None:
    words: Sequence[str] = (
        "-subj",
        "/CN=web.test",
        "-keyout",
        str(folder / "own.key"),
        "-out",
        str(folder / "own.pem"),
    )
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    subprocess.run([*command, *words], check=True, capture_output=True)


def _wait_for(path: Path, process: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + _LISTENS_S
    while not path.exists():
        if process.poll() is not None or time.monotonic() > end_s:
            raise RuntimeError(f"nginx did not start: see {path.parent / 'error.log'}")
        time.sleep(0.02)
