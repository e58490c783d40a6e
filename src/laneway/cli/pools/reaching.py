"""The two clusters that a command about pools asks, or the files that stand for one of them.

The kubeconfig is that of the management cluster. The Harvester cluster is named by options. Else
Rancher's proxy leads to it with the same credentials: the cloud credential of a guest cluster says
which one it is. A management cluster that is reached without the proxy may be both.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubebasics import yaml_text
from kubebasics.yaml_text import YamlError
from laneway.api import ObjectMeta, PCIDeviceClaim
from laneway.cli import connection
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.controllers.machine_pools import look
from laneway.controllers.machine_pools.judged import on_harvester
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.kube import config, rancher
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.errors import (
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
)
from laneway.kube.resource import Resource, served

R = TypeVar("R")
_PROXIED = re.compile(r"(.*/k8s/clusters/)[^/]+/*")
_CLUSTER_ID = "harvestercredentialConfig-clusterId"
_LARGEST = 16 << 20


class Pools(NamedTuple):
    """Where a command reads."""

    management: ClusterChoice
    harvester: ClusterChoice
    files: tuple[str, ...] = ()
    """Objects of the management cluster; empty: the cluster itself is asked."""


class Secret(msgspec.Struct, frozen=True):
    """A cloud credential."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


_SECRETS = Resource("", "v1", "secrets", True, Secret)

Work = Callable[[Client | None, Managed, Supply], Awaitable[R]]


def ask(pools: Pools, work: Work[R]) -> R:
    """The answer of `work`, which gets the management cluster unless there are files."""
    if pools.files:
        managed = _of_files(pools.files)

        async def with_files(client: Client) -> R:
            return await work(None, managed, await _supply(client))

        return connection.ask(with_files, pools.harvester)

    async def with_clusters(client: Client) -> R:
        with connection.installed("Cluster of provisioning.cattle.io"):
            managed = await look.management(client, pools.management.namespace or "")
        found = await _harvester(client, managed, pools)
        async with Client(found, connect_delays=()) as other:
            return await work(client, managed, await _supply(other))

    return connection.ask(with_clusters, pools.management)


async def _supply(client: Client) -> Supply:
    """What the Harvester cluster has. Raises KubeError, Failure."""
    try:
        with connection.installed("PCIDeviceClaim"):
            return await look.harvester(client)
    except UnreachableError as error:
        raise Failure(
            f"the Harvester cluster: {error}. Check that its API server runs, and that "
            "--harvester-kubeconfig or --harvester-context names the right one"
        ) from error
    except UnauthorizedError as error:
        raise Failure(
            f"the Harvester cluster does not accept your credentials: {error}. Name others: "
            "--harvester-kubeconfig PATH"
        ) from error


async def _harvester(client: Client, managed: Managed, pools: Pools) -> ClusterConfig:
    chosen = pools.harvester
    if chosen.kubeconfig or chosen.context:
        return config.load(chosen.kubeconfig or pools.management.kubeconfig, chosen.context)
    found = config.load(pools.management.kubeconfig, pools.management.context)
    proxied = _PROXIED.fullmatch(found.cluster.server)
    if proxied is None:
        if await _has_devices(client):
            return found
        raise Failure(
            "the Harvester cluster is not known: Laneway is not installed on the management "
            "cluster, which is not reached by Rancher's proxy. Name it: --harvester-kubeconfig PATH"
        )
    ids = {await _cluster_id(client, name) for name in _credentials(managed)} - {""}
    if len(ids) != 1:
        why = "no cloud credential names one" if not ids else f"there are {len(ids)}"
        raise Failure(
            f"the Harvester cluster is not known: {why}. Name it: --harvester-kubeconfig PATH, or "
            "--harvester-context NAME"
        )
    server = f"{proxied[1]}{ids.pop()}"
    return replace(found, cluster=replace(found.cluster, server=server))


async def _has_devices(client: Client) -> bool:
    """Whether Laneway runs on the management cluster, so that it may be both."""
    try:
        async for _ in client.list(served(PCIDeviceClaim), limit=1):
            return True
    except NotFoundError:
        return False
    return True


def _credentials(managed: Managed) -> set[str]:
    found = set()
    for cluster in filter(on_harvester, managed.clusters):
        found.add(cluster.spec.cloud_credential_secret_name)
        if cluster.spec.rke_config is not None:
            pools = cluster.spec.rke_config.machine_pools
            found |= {one.cloud_credential_secret_name for one in pools}
    return found - {""}


async def _cluster_id(client: Client, name: str) -> str:
    """The Harvester cluster of a cloud credential; empty where that cannot be read."""
    namespace, _, title = name.partition(":")
    try:
        secret = await client.get(_SECRETS, title, namespace)
        text = base64.b64decode(secret.data.get(_CLUSTER_ID, ""), validate=True).decode()
    except (ForbiddenError, NotFoundError, ValueError):
        return ""
    return text if re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", text) else ""


def _of_files(paths: tuple[str, ...]) -> Managed:
    documents: list[dict[str, Any]] = []
    places: dict[str, str] = {}
    for path in paths:
        try:
            with open(path, "rb") as file:
                text = file.read(_LARGEST + 1)
            if len(text) > _LARGEST:
                raise Failure(f"{path} is longer than {_LARGEST >> 20} MiB")
            found = yaml_text.read_all(text)
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}") from None
        except YamlError as error:
            raise Failure(f"{path}: {error}") from None
        for one in _objects(path, found):
            title = _title(one)
            if title in places:
                raise Failure(f"{path}: {title} is in {places[title]} already")
            if title:
                places[title] = path
            documents.append(one)
    try:
        return look.of_documents(documents)
    except (ValueError, KubeError) as error:
        raise Failure(f"{', '.join(paths)}: {error}") from None


def _title(document: Mapping[str, Any]) -> str:
    """Kind and name of an object that matters for pools; empty for others."""
    kind, group = document.get("kind"), str(document.get("apiVersion", "")).partition("/")[0]
    meta = document.get("metadata")
    if group not in {rancher.GROUP, rancher.CONFIG_GROUP} or not isinstance(meta, dict):
        return ""
    path = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}".removeprefix("/")
    return f"{kind} {path}"


def _objects(path: str, found: list[Any]) -> list[dict[str, Any]]:
    objects = []
    for document in found:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise Failure(f"{path} has a document that is no object of Kubernetes")
        items = document.get("items") if document.get("kind") == "List" else [document]
        objects += [one for one in items or () if isinstance(one, dict)]
    return objects
