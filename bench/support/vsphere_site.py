"""A cluster with a vCenter, as its users make it: credentials, machines and their owners."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from laneway.api.vsphere import VCenter
from laneway.kube import capv, clusterapi
from laneway.kube.client import Client
from laneway.kube.resource import Resource, served
from laneway.roles.install import install_crds
from laneway.simcluster.clusterapi.install import install
from laneway.vsphere.fleet.secrets import SECRETS
from support.vcenter import NoSimulatorError, program

if TYPE_CHECKING:
    from support.vcenter import Simulator

NAMESPACE = "default"
CLUSTER = "gpus"
TEMPLATE = "bench"
TEMPLATES = {TEMPLATE: {"version": "vmx-19"}}
"""New enough that its clones need no upgrade of their hardware."""
T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}

_PROFILES = [
    {"name": f"grid_t4-{size}q", "fbGiB": size, "class": "quadro", "sharing": "timeSliced"}
    for size in (1, 2, 4, 8, 16)
]

_API = f"{clusterapi.GROUP}/{clusterapi.VERSION}"


def is_there() -> bool:
    """Whether a vCenter can be simulated here; says why where it cannot."""
    try:
        program()
    except NoSimulatorError as error:
        print(f"nothing is measured without the simulated vCenter: {error}")
        return False
    return True


def t4s(hosts: int, each: int) -> dict[str, list[dict[str, Any]]]:
    """Whole T4s in the hosts of the first cluster."""
    about = {**T4, "name": "Tesla T4", "fbGiB": 16, "mode": "passthrough", "label": ""}
    return {
        f"DC0_C0_H{host}": [{**about, "id": address(at)} for at in range(each)]
        for host in range(hosts)
    }


def mixed(clusters: int, hosts: int, each: int) -> dict[str, list[dict[str, Any]]]:
    """T4s in all hosts, in turn whole and shared."""
    return {
        f"DC0_C{cluster}_H{host}": [_gpu(at) for at in range(each)]
        for cluster in range(clusters)
        for host in range(hosts)
    }


def _gpu(at: int) -> dict[str, Any]:
    whole = {"mode": "passthrough", "label": ""}
    shared = {"mode": "sharedDirect", "profiles": _PROFILES}
    about = {**T4, "id": address(at), "name": "Tesla T4", "fbGiB": 16}
    return about | (shared if at % 2 else whole)


def address(at: int) -> str:
    """Where a GPU of a host is."""
    return f"0000:{0x3B + at:02x}:00.0"


async def make(
    client: Client,
    resource: Resource[Any],
    name: str,
    spec: Mapping[str, Any],
    *,
    status: Mapping[str, Any] | None = None,
    owner: tuple[str, Any] | None = None,
) -> Any:
    """`owner`: kind and object, of Cluster API."""
    meta: dict[str, Any] = {"name": name, "labels": {clusterapi.LABEL_CLUSTER: CLUSTER}}
    if owner is not None:
        kind, above = owner[0], owner[1].metadata
        named = {"kind": kind, "name": above.name, "uid": above.uid}
        meta["ownerReferences"] = [{"apiVersion": _API, **named}]
    kind = resource.kind or resource.type.__name__
    body = {"apiVersion": resource.api_version, "kind": kind, "metadata": meta, "spec": spec}
    space = NAMESPACE if resource.namespaced else ""
    made = await client.create(resource, body, space)
    if status is not None:
        body = {"status": status}
        made = await client.patch(resource, name, body, space, subresource="status")
    return made


async def kinds(client: Client) -> None:
    await install_crds(client)
    await install(client)


async def vcenter(client: Client, simulator: Simulator) -> None:
    """From now on its GPUs are followed."""
    await _secret(client, "vcenter", username=simulator.user, password=simulator.password)
    spec = {
        "server": simulator.server,
        "secretRef": {"namespace": NAMESPACE, "name": "vcenter"},
        "thumbprint": simulator.thumbprint,
    }
    await make(client, served(VCenter), "main", spec)


async def cluster(client: Client, server: str) -> None:
    """One that Cluster API takes for provisioned."""
    reference = {"apiGroup": capv.GROUP, "kind": "VSphereCluster", "name": CLUSTER}
    owner = await make(
        client,
        clusterapi.CLUSTERS,
        CLUSTER,
        {"infrastructureRef": reference},
        status={"initialization": {"infrastructureProvisioned": True}},
    )
    spec = {"server": server}
    await make(client, capv.VSPHERE_CLUSTERS, CLUSTER, spec, owner=("Cluster", owner))


async def machines(client: Client, names: list[str]) -> list[Any]:
    """Machines of Cluster API with their bootstrap data, and nothing of vSphere yet."""

    async def one(name: str) -> Any:
        await _secret(client, f"{name}-data", value="#cloud-config", format="cloud-config")
        spec = {
            "clusterName": CLUSTER,
            "bootstrap": {"dataSecretName": f"{name}-data"},
            "infrastructureRef": {
                "apiGroup": capv.GROUP,
                "kind": "VSphereMachine",
                "name": name,
            },
        }
        return await make(client, clusterapi.MACHINES, name, spec)

    return await asyncio.gather(*map(one, names))


async def vsphere_machines(client: Client, owners: list[Any]) -> None:
    """What a Laneway that leads makes VMs of: each with a T4."""
    spec = {
        "template": TEMPLATE,
        "datacenter": "DC0",
        "resourcePool": "DC0_C0/Resources",
        "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
        "pciDevices": [T4],
    }
    made = (
        make(client, capv.VSPHERE_MACHINES, one.metadata.name, spec, owner=("Machine", one))
        for one in owners
    )
    await asyncio.gather(*made)


async def _secret(client: Client, name: str, **data: str) -> None:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
    await client.create(SECRETS, body, NAMESPACE)
