"""The server that KUBECONFIG names, as its administrator reaches it with a plain HTTP client."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class Reached(NamedTuple):
    """Where a server is, and who one is there."""

    url: str
    headers: dict[str, str]
    tls: ssl.SSLContext


def given() -> Reached:
    """The server of the realapi tier."""
    return reached(os.environ["KUBECONFIG"])


def reached(kubeconfig: str) -> Reached:
    """The server of a kubeconfig's current context, with a token or a client certificate."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    context = _named(config, "context", config["current-context"])
    cluster = _named(config, "cluster", context["cluster"])
    user = _named(config, "user", context["user"])
    tls = ssl.create_default_context(cadata=_data(cluster, "certificate-authority"))
    if "client-certificate-data" in user or "client-certificate" in user:
        with tempfile.NamedTemporaryFile("w") as file:  # OpenSSL reads both from a file only
            file.write(_data(user, "client-certificate") + _data(user, "client-key"))
            file.flush()
            tls.load_cert_chain(file.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return Reached(cluster["server"], headers, tls)


def _named(config: Any, what: str, name: str) -> Any:
    return next(one[what] for one in config[f"{what}s"] if one["name"] == name)


def _data(part: dict[str, str], name: str) -> str:
    """What a kubeconfig holds itself, or names the file of."""
    if inline := part.get(f"{name}-data"):
        return base64.b64decode(inline).decode()
    return Path(part[name]).read_text()
