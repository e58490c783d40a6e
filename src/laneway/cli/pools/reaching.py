"""The two clusters that a command about pools asks, or the files that stand for one of them.

The kubeconfig is that of the management cluster. The Harvester cluster is named by options. Else
Rancher's proxy leads to it with the same credentials: the cloud credential of a guest cluster says
which one it is. A management cluster that is reached without the proxy may be both.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import msgspec

from laneway.api import ObjectMeta, PCIDeviceClaim
from laneway.cli import connection
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.pools.documents import managed_of
from laneway.controllers.machine_pools import look
from laneway.controllers.machine_pools.judged import on_harvester
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.kube import config
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.errors import (
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
)
from laneway.kube.resource import Resource, served

R = TypeVar("R")
_PROXIED = re.compile(r"(.*/k8s/clusters/)[^/]+/*")
_CLUSTER_ID = "harvestercredentialConfig-clusterId"


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
        managed = managed_of(pools.files)

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
    own = config.load(pools.management.kubeconfig, pools.management.context)
    proxied = _PROXIED.fullmatch(own.cluster.server)
    if proxied is None:
        if await _has_devices(client):
            return own
        raise _unknown(
            "Laneway is not installed on the management cluster, which is not reached by Rancher's "
            "proxy"
        )
    ids = {await _cluster_id(client, name) for name in _credentials(managed)} - {""}
    if len(ids) != 1:
        found = f"the cloud credentials name {len(ids)}" if ids else "no cloud credential names one"
        raise _unknown(found)
    server = f"{proxied[1]}{ids.pop()}"
    return replace(own, cluster=replace(own.cluster, server=server))


def _unknown(why: str) -> Failure:
    return Failure(
        f"the Harvester cluster is not known: {why}. Name it: --harvester-kubeconfig PATH, or "
        "--harvester-context NAME"
    )


async def _has_devices(client: Client) -> bool:
    """Whether Laneway runs on the management cluster, so that it may be both."""
    try:
        await anext(client.list(served(PCIDeviceClaim), limit=1))
    except NotFoundError:
        return False
    return True


def _credentials(managed: Managed) -> set[str]:
    found = set()
    for cluster in filter(on_harvester, managed.clusters):
        found.add(cluster.spec.cloud_credential_secret_name)
        found |= {one.cloud_credential_secret_name for one in cluster.pools}
    return found - {""}


async def _cluster_id(client: Client, name: str) -> str:
    """The Harvester cluster of a cloud credential; empty where it names none. Raises Failure."""
    namespace, _, title = name.partition(":")
    try:
        secret = await client.get(_SECRETS, title, namespace)
        text = base64.b64decode(secret.data.get(_CLUSTER_ID, ""), validate=True).decode()
    except ForbiddenError as error:
        raise _unknown(f"you may not read the cloud credential {name}") from error
    except (NotFoundError, ValueError):
        return ""
    return text if re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", text) else ""
