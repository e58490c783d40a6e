"""The TLS side of a connection: whom we trust and which certificate we show.

OpenSSL takes a client certificate from a file only, so one that came as text (inline in a
kubeconfig, or from an exec plugin) goes through a file that only we can read and that is gone again
before the first connection.
"""

from __future__ import annotations

import os
import ssl
import tempfile

from laneway.kube.cluster import Cluster
from laneway.kube.errors import ConfigError


def client_context(
    cluster: Cluster, trusted: str | None, certificate: bytes = b"", key: bytes = b""
) -> ssl.SSLContext:
    """A context for one cluster, its authorities and, if there is a certificate, one identity."""
    context = ssl.create_default_context(cadata=trusted)
    if cluster.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _load_identity(context, certificate, key)
    return context


def authorities(cluster: Cluster) -> str | None:
    """Those that are trusted, as they are now; None: the system's. Raises ConfigError."""
    if not cluster.ca:
        return None
    text = cluster.ca.read().decode("ascii", "replace")
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError):
        where = cluster.ca.path or "certificate-authority-data"
        raise ConfigError(f"{where}: holds no PEM certificates; give the cluster's CA") from None
    return text


def _load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    def no_passphrase() -> bytes:
        raise ConfigError("the client key is protected by a passphrase; use a key without one")

    handle, path = tempfile.mkstemp(prefix="laneway-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.rstrip(b"\n") + b"\n" + key)
        context.load_cert_chain(path, password=no_passphrase)
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            "the client certificate and key are not a matching PEM pair; check both"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; make room for a temporary file") from None
    finally:
        os.unlink(path)
