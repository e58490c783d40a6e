"""Clusters of CAPK as people write them, and simulated Cluster API at work on them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from laneway.kube import capk, clusterapi
from laneway.kube.client import Client
from laneway.simcluster.clusterapi.controller import ClusterApi
from laneway.simcluster.clusterapi.objects import KUBEVIRT

NAMESPACE = "default"
PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"


@contextlib.asynccontextmanager
async def cluster_api(client: Client) -> AsyncIterator[None]:
    """Cluster API's core and CAPK until the block ends."""
    running = asyncio.create_task(ClusterApi(client, lambda: b"", KUBEVIRT).run())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def _object(group: str, version: str, kind: str, name: str, spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def cluster(name: str = "c1") -> Iterator[dict[str, Any]]:
    """A cluster and its infrastructure."""
    yield _object(capk.GROUP, capk.VERSION, "KubevirtCluster", name, {})
    ref = {"apiGroup": capk.GROUP, "kind": "KubevirtCluster", "name": name}
    core = clusterapi.GROUP, clusterapi.VERSION
    yield _object(*core, "Cluster", name, {"infrastructureRef": ref})


def template(name: str, *gpus: str, memory: str = "2Gi", **machine: Any) -> dict[str, Any]:
    """A template as `clusterctl generate cluster` makes it, whose VMs request these resources."""
    entries = [{"name": f"gpu{at}", "deviceName": one} for at, one in enumerate(gpus)]
    guest = {
        "domain": {
            "cpu": {"cores": 2},
            "devices": {
                "disks": [{"disk": {"bus": "virtio"}, "name": "containervolume"}],
                "gpus": entries,
                "networkInterfaceMultiqueue": True,
            },
            "memory": {"guest": memory},
        },
        "evictionStrategy": "External",
        "volumes": [{"containerDisk": {"image": "example/node:1"}, "name": "containervolume"}],
    }
    vm = {
        "metadata": {"namespace": NAMESPACE},
        "spec": {"runStrategy": "Always", "template": {"spec": guest}},
    }
    check = {"checkStrategy": "ssh"}
    spec = {"virtualMachineBootstrapCheck": check, "virtualMachineTemplate": vm, **machine}
    return _object(capk.GROUP, capk.VERSION, capk.TEMPLATE, name, {"template": {"spec": spec}})


def deployment(
    name: str, replicas: int, of: str, cluster: str = "c1", **rolling: Any
) -> dict[str, Any]:
    """A MachineDeployment; `rolling` are the limits of its rolling update."""
    ref = {"apiGroup": capk.GROUP, "kind": capk.TEMPLATE, "name": of}
    machines = {"clusterName": cluster, "bootstrap": {}, "infrastructureRef": ref}
    spec: dict[str, Any] = {
        "clusterName": cluster,
        "replicas": replicas,
        "selector": {"matchLabels": {"pool": name}},
        "template": {"metadata": {"labels": {"pool": name}}, "spec": machines},
    }
    if rolling:
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        spec["rollout"] = {"strategy": strategy}
    core = clusterapi.GROUP, clusterapi.VERSION
    return _object(*core, "MachineDeployment", name, spec)
