"""The kubeconfig of an administrator: one file that carries all that a client needs.

It holds a credential, so it is readable by its owner only from the moment it exists.
"""

from __future__ import annotations

import base64

from kubebasics import yaml_text
from kubebasics.files import write_atomically


def write(path: str, *, server: str, ca_pem: bytes, token: str, name: str = "kapilite") -> None:
    """Write a kubeconfig with one context, of this name as everything in it."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    write_atomically(path, yaml_text.write(document).encode())
