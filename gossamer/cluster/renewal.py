"""This module brings certificates that were renewed to the sites that they are for. Keys stay where they are."""

import ssl
from contextlib import closing

from gossamer.cluster.federation_file import Federation
from gossamer.cluster.keys import address, any_of, is_operator
from gossamer.cluster.nats_server import shown
from gossamer.cluster.remote_site import Connections
from gossamer.cluster.site_service import CERTIFICATE, NewCertificate
from gossamer.errors import SiteError

_CONNECT_S = 2.0


def bring(federation: Federation) -> dict[str, str]:
    """Gives each running site the certificate that is here, if it shows another one. Returns for each of them why that
    failed; empty if it did not."""
    found: dict[str, str] = {}
    if not is_operator(federation.keys):
        return found
    files = any_of(federation.keys, [])
    with closing(Connections(federation)) as connections:
        for name, site in federation.sites.items():
            path = federation.keys / f"{name}.pem"
            if site.gone or not path.exists():
                continue
            shows, own = shown(address(files, name, site.address), _CONNECT_S), path.read_text()
            if shows and ssl.PEM_cert_to_DER_cert(shows) != ssl.PEM_cert_to_DER_cert(own):
                try:
                    connections.order(name, CERTIFICATE, NewCertificate(certificate=own))
                    found[name] = ""
                except SiteError as error:
                    found[name] = str(error)
    return found
