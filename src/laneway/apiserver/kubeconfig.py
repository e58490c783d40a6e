"""The kubeconfig that `laneway up` leaves for kubectl: one file that carries all it needs.

It holds a credential, so it is readable by its owner only from the moment it exists.
"""

from __future__ import annotations

import base64

import yaml

from laneway.apiserver.files import write_atomically


def write(
    path: str,
    *,
    server: str,
    ca_pem: bytes,
    token: str = "",
    client_cert_pem: bytes = b"",
    client_key_pem: bytes = b"",
    context: str = "laneway",
) -> None:
    """Write a kubeconfig with one context; the user is a token or a client certificate."""
    user = (
        {"token": token}
        if token
        else {
            "client-certificate-data": _base64(client_cert_pem),
            "client-key-data": _base64(client_key_pem),
        }
    )
    cluster = {"server": server, "certificate-authority-data": _base64(ca_pem)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": context, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }
    write_atomically(path, yaml.safe_dump(document, sort_keys=False).encode())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
