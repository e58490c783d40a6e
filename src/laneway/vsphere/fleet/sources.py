"""Which vCenters there are to log in to, as VCenter objects and VSphereClusters say.

A server is logged in to once, however often it is named: by the first VCenter object that names
it, or, where none does, by a VSphereCluster. Every tenant may make one of these: so of several the
oldest counts that says how to log in, and no later one takes a vCenter over. A VCenter
object that names a server again says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from laneway.api.vsphere import VCenter
from laneway.controllers.ledger.vsphere import server_of
from laneway.core import names
from laneway.kube.capv import VSphereCluster
from laneway.kube.resource import Key, key_of

_SERVER = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9._-]*[a-z0-9])?)(:[0-9]{1,5})?")
_SECRET = "Secret"  # noqa: S105 - a kind, no password


class Source(msgspec.Struct, frozen=True):
    """How one vCenter is reached."""

    name: str
    """What objects call it."""
    server: str
    secret: Key = Key("", "")
    thumbprint: str = ""
    ca: str = ""
    object: bool = False
    """A VCenter object names it."""
    problem: str = ""
    """Why it cannot be reached, in words; empty: it can be tried."""


def sources(
    vcenters: Iterable[VCenter], clusters: Iterable[VSphereCluster]
) -> tuple[dict[str, Source], dict[str, str]]:
    """The vCenters by their names; and the VCenter objects that name one again, with words."""
    found: dict[str, Source] = {}
    again: dict[str, str] = {}
    servers: dict[str, str] = {}
    for vcenter in sorted(vcenters, key=lambda one: one.metadata.name):
        source = _of_object(vcenter)
        first = servers.setdefault(source.server, source.name) if source.server else source.name
        if first != source.name:
            again[source.name] = (
                f"VCenter {first} has the same server {source.server} and takes precedence; delete "
                "one of them"
            )
        else:
            found[source.name] = source
    named = [
        (cluster, _of_cluster(cluster, server))
        for cluster in clusters
        if (server := server_of(cluster.spec.server)) and server not in servers
    ]
    for _, source in sorted(named, key=_how_good):
        found.setdefault(source.name, source)
    return found, again


def _how_good(named: tuple[VSphereCluster, Source]) -> tuple[bool, str, Key]:
    cluster, source = named
    return bool(source.problem), cluster.metadata.creation_timestamp, key_of(cluster)


def _of_object(vcenter: VCenter) -> Source:
    spec, server = vcenter.spec, server_of(vcenter.spec.server)
    problem = _wrong_server(server, vcenter.spec.server)
    if not problem and not (spec.secret_ref.namespace and spec.secret_ref.name):
        problem = (
            "spec.secretRef must name the namespace and the name of a Secret with the keys "
            "username and password"
        )
    return Source(
        name=vcenter.metadata.name,
        server=server,
        secret=Key(spec.secret_ref.namespace, spec.secret_ref.name),
        thumbprint=spec.thumbprint,
        ca=spec.ca_bundle,
        object=True,
        problem=problem,
    )


def _of_cluster(cluster: VSphereCluster, server: str) -> Source:
    spec, identity = cluster.spec, cluster.spec.identity_ref
    problem = _wrong_server(server, spec.server)
    if not problem and (identity is None or identity.kind != _SECRET or not identity.name):
        kind = identity.kind if identity is not None else ""
        problem = (
            f"VSphereCluster {key_of(cluster)} has no Secret as spec.identityRef"
            f"{f' but a {kind}' if kind else ''}; create a VCenter object for the server {server}"
        )
    return Source(
        name=names.vcenter_object_name(server),
        server=server,
        secret=Key(cluster.metadata.namespace, identity.name if identity is not None else ""),
        thumbprint=spec.thumbprint,
        problem=problem,
    )


def _wrong_server(server: str, written: str) -> str:
    if _SERVER.fullmatch(server):
        return ""
    if not server:
        return "spec.server is empty; give the host name or address of the vCenter"
    return f"spec.server {written!r} is not a host name or address; write host or host:port"
