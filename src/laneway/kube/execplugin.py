"""Exec plugins (client.authentication.k8s.io): programs that print short-lived credentials.

A plugin is started without a shell, without a terminal and with a time limit. What it prints on
stdout is a secret and never shown; what it prints on stderr is the only explanation that the user
can get, so it becomes part of the error.
"""

from __future__ import annotations

import asyncio
import base64
import os
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from laneway.kube.cluster import Cluster, ExecPlugin
from laneway.kube.errors import CredentialsError

_STDERR_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Issued:
    """What a plugin gave us; `expires` is seconds since the epoch."""

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: float | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status


async def run_plugin(plugin: ExecPlugin, cluster: Cluster, time_limit: float = 60.0) -> Issued:
    """Run the plugin once. Raises CredentialsError."""
    name = os.path.basename(plugin.command)
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=os.environ | dict(plugin.env) | {"KUBERNETES_EXEC_INFO": _info(plugin, cluster)},
        )
    except (OSError, ValueError) as error:
        hint = " ".join(plugin.install_hint.split()) or "install it or correct the kubeconfig"
        reason = error.strerror if isinstance(error, OSError) else "not a valid command"
        raise CredentialsError(f"exec plugin {name} cannot be run: {reason}; {hint}") from None
    try:
        async with asyncio.timeout(time_limit):
            out, err = await process.communicate()
    except TimeoutError:
        raise CredentialsError(
            f"exec plugin {name} gave no answer within {time_limit:.0f} s; run it by hand"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = " ".join(err.decode("utf-8", "replace").split())[:_STDERR_LIMIT]
        raise CredentialsError(
            f"exec plugin {name} failed with status {process.returncode}: {said or 'no output'}"
        )
    return _read(out, plugin, name)


def _info(plugin: ExecPlugin, cluster: Cluster) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        described = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure,
            "certificate-authority-data": (
                base64.b64encode(cluster.ca.read()).decode() if cluster.ca else ""
            ),
            "proxy-url": cluster.proxy_url,
            "config": cluster.exec_config,
        }
        spec["cluster"] = {key: value for key, value in described.items() if value}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def _read(out: bytes, plugin: ExecPlugin, name: str) -> Issued:
    try:
        answer = msgspec.json.decode(out, type=_ExecCredential)
    except msgspec.DecodeError:
        raise CredentialsError(
            f"exec plugin {name} printed no ExecCredential with a status; run it by hand to see"
        ) from None
    if (answer.api_version, answer.kind) != (plugin.api_version, "ExecCredential"):
        raise CredentialsError(
            f"exec plugin {name} answered in another version than {plugin.api_version}; "
            "set the apiVersion in the kubeconfig that the plugin speaks"
        )
    status = answer.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise CredentialsError(
            f"exec plugin {name} issued neither a token nor a certificate with its key; "
            "run it by hand to see"
        )
    return Issued(
        status.token or "",
        (status.client_certificate_data or "").encode(),
        (status.client_key_data or "").encode(),
        status.expiration_timestamp.timestamp() if status.expiration_timestamp else None,
    )
