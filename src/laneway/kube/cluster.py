"""What is known of a cluster and of ourselves before the first request: plain values.

Secrets are kept out of the text form of every value, so that none can end up in a log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laneway.kube.errors import ConfigError

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""The versions of the exec plugin protocol that we speak."""


def read_file(path: str) -> bytes:
    """A file that the configuration depends on."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise ConfigError(f"{path}: cannot be read: {reason}; check the path") from None


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key: a file, which may be replaced at any time, or the text itself."""

    path: str = ""
    data: bytes = field(default=b"", repr=False)

    def __bool__(self) -> bool:
        return bool(self.path or self.data)

    def read(self) -> bytes:
        return self.data or read_file(self.path)


@dataclass(frozen=True, slots=True)
class Cluster:
    """How to reach an API server and how to know that it is the right one."""

    server: str = field(repr=False)
    ca: Pem | None = None
    """None: the certificate authorities of the system."""
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)
    exec_config: Any = None
    """What an exec plugin gets about this cluster in addition to the above."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = EXEC_VERSIONS[0]
    provide_cluster_info: bool = False
    install_hint: str = ""


@dataclass(frozen=True, slots=True)
class User:
    """Who we are."""

    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: Pem | None = None
    key: Pem | None = None
    exec: ExecPlugin | None = None


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """All that is needed to talk to one API server."""

    cluster: Cluster
    user: User = field(default_factory=User)
    namespace: str = "default"
    source: str = "given"
    """Where this was found, for messages."""
