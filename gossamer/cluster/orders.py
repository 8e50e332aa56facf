"""This module carries out what the operator orders a site: to take a new list of sites or a renewed certificate, and to
run a lost site on its machine."""

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

from gossamer.cluster.adoption import check_adoptable, held
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.keys import own_request, take_certificate
from gossamer.cluster.protocol import decode
from gossamer.cluster.site_list import take
from gossamer.cluster.site_service import ADOPT, CERTIFICATE, LIST, Adopt, NewCertificate, NewList, Order, Taken


def orders_of(federation: Federation, site: str) -> dict[str, Order]:
    path = federation.path
    return {
        LIST: partial(_list, path),
        CERTIFICATE: partial(_renew, federation.keys, site),
        ADOPT: partial(_adopt, path),
    }


def _list(path: Path, data: bytes) -> Taken:
    """Takes a new list; the site sees for itself that its file has changed."""
    order = decode(NewList, data)
    take(path, order.text, order.before)
    return Taken()


def _renew(keys: Path, site: str, data: bytes) -> Taken:
    """Takes a certificate; the site's server sees for itself that the file has changed."""
    take_certificate(keys, site, decode(NewCertificate, data).certificate.encode())
    return Taken()


def _adopt(path: Path, data: bytes) -> Taken:
    """Says what we have of a lost site, with a request for its certificate; with that, runs it. Its process is not
    ours: it goes on when we end."""
    order, federation = decode(Adopt, data), load(path)
    federation.check_site(order.site)
    if not order.certificate:
        commits = held(federation, order.site)
        return Taken(commits=commits, csr=own_request(federation.keys, order.site).decode() if commits else "")
    check_adoptable(federation, order.site)
    take_certificate(federation.keys, order.site, order.certificate.encode())
    command = [sys.executable, "-m", "gossamer", "federation", "adopt", "--quiet", str(path), order.site]
    with path.with_name(f"{order.site}.err").open("ab") as words:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words, start_new_session=True
        )
    threading.Thread(target=process.wait, name="adopted", daemon=True).start()
    return Taken()
