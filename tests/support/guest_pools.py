"""Guest clusters with machine pools, made through an API server that has the kinds of Rancher."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from laneway.kube.rancher import (
    CONFIG_GROUP,
    GROUP,
    LABEL_POOL,
    WORKSPACE,
)
from support.processes import SECONDS
from support.web_site import DEVICES, WebSite

CLUSTERS = f"/apis/{GROUP}/v1/namespaces/{WORKSPACE}/clusters"
CONFIGS = f"/apis/{CONFIG_GROUP}/v1/namespaces/{WORKSPACE}/harvesterconfigs"
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
VGPUS = f"/apis/{DEVICES}/v1beta1/vgpudevices"


def vgpu_info(resource: str, count: int = 1) -> str:
    """As Rancher's own page writes it, but for several."""
    requests = [{"name": "provisioned", "deviceName": resource}] * count
    return json.dumps({"vGPURequests": requests})


def make_cluster(site: WebSite, name: str, pools: Mapping[str, Mapping[str, Any]]) -> None:
    """A guest cluster; each pool has `quantity` and fields of its HarvesterConfig."""
    site.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace"}, WORKSPACE)
    listed = []
    for pool, given in pools.items():
        fields = {"cpuCount": "2", "memorySize": "2", **given}
        entry = {"name": pool, "quantity": fields.pop("quantity", 1), "workerRole": True}
        config = f"nc-{name}-{pool}"
        head = {"apiVersion": f"{CONFIG_GROUP}/v1", "kind": "HarvesterConfig"}
        site.make(CONFIGS, {**head, **fields}, config)
        reference = {"kind": "HarvesterConfig", "name": config}
        listed.append({**entry, "machineConfigRef": reference})
    spec = {"rkeConfig": {"machinePools": listed}}
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Cluster"}
    site.make(CLUSTERS, {**head, "spec": spec}, name)


def config_of(site: WebSite, cluster: str, pool: str) -> dict[str, Any]:
    found: dict[str, Any] = site.api.call(f"{CONFIGS}/nc-{cluster}-{pool}")
    return found


def quantity_of(site: WebSite, cluster: str, pool: str) -> int:
    pools = site.api.call(f"{CLUSTERS}/{cluster}")["spec"]["rkeConfig"]["machinePools"]
    return next(int(one["quantity"]) for one in pools if one["name"] == pool)


def until_advertised(site: WebSite, names: Sequence[str], profile: str) -> None:
    """Configure vGPUs, and wait until VMs can request them."""
    for name in names:
        spec = {"spec": {"enabled": True, "vGPUTypeName": profile}}
        site.api.call(f"{VGPUS}/{name}", "PATCH", spec)
    for name in names:
        site.api.until("vgpudevices", name, _is_advertised)


def until_running(site: WebSite, pool: str, count: int) -> list[str]:
    """Wait until a pool has this number of VMs, and all of them run; their names."""
    deadline = time.monotonic() + SECONDS
    while True:
        vms = site.api.call(f"{VMS}?labelSelector={LABEL_POOL}%3D{pool}")["items"]
        running = [one["metadata"]["name"] for one in vms if one.get("status", {}).get("ready")]
        if len(vms) == len(running) == count:
            return running
        assert time.monotonic() < deadline, (vms, count)
        time.sleep(0.1)  # No event of one VM says how many there are.


def until_held(site: WebSite, machines: Collection[str]) -> set[str]:
    """Wait until the agents say that each of these VMs has one vGPU; the names of the vGPUs."""
    deadline = time.monotonic() + SECONDS
    while True:
        found = {
            one["metadata"]["name"]: allocation["virtualMachine"]
            for one in site.api.call(VGPUS)["items"]
            if (allocation := one.get("status", {}).get("allocation"))
        }
        if sorted(found.values()) == sorted(machines):
            return set(found)
        assert time.monotonic() < deadline, (found, machines)
        time.sleep(0.1)  # No event of one vGPU says which others are held.


def _is_advertised(vgpu: Any) -> bool:
    conditions = vgpu.get("status", {}).get("conditions", [])
    return any(one["type"] == "Advertised" and one["status"] == "True" for one in conditions)
