"""The kubeconfig that `laneway up` leaves for kubectl: one file that carries all it needs.

It holds a credential, so it is readable by its owner only from the moment it exists.
"""

from __future__ import annotations

import base64

from kapilite.credentials.files import write_atomically
from kubebasics import yaml_text

NAME = "laneway"


def write(path: str, *, server: str, ca_pem: bytes, token: str) -> None:
    """Write a kubeconfig with one context."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }
    write_atomically(path, yaml_text.write(document).encode())
