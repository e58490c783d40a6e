"""Machines of Cluster API on vSphere as they are asked about, and what is known of vCenters."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kapilite.patches import patch
from laneway.admission import review
from laneway.admission.access import AccessReviews
from laneway.admission.capv.known import HOSTS, RESERVATIONS
from laneway.admission.indexes import INDEXERS
from laneway.admission.judging import Judging
from laneway.admission.kinds import KINDS
from laneway.admission.metrics import AdmissionMetrics, Outcome
from laneway.admission.world import World
from laneway.api import VCenter
from laneway.kube import capv, clusterapi
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.kube.store import Store
from support.reviewing import SILENT, well_formed
from support.reviewing import review as question

PLURALS = {
    "VSphereMachine": "vspheremachines",
    "VSphereMachineTemplate": "vspheremachinetemplates",
    "VSphereVM": "vspherevms",
    "MachineDeployment": "machinedeployments",
    "MachineSet": "machinesets",
    "KubeadmControlPlane": "kubeadmcontrolplanes",
}
GROUPS = {
    "MachineDeployment": clusterapi.GROUP,
    "MachineSet": clusterapi.GROUP,
    "KubeadmControlPlane": clusterapi.CONTROL_PLANE_GROUP,
}
STORES = {
    "vcenters": served(VCenter),
    "vsphere_hosts": HOSTS,
    "vsphere_reservations": RESERVATIONS,
    "vsphere_templates": capv.VSPHERE_TEMPLATES,
    "vsphere_clusters": capv.VSPHERE_CLUSTERS,
    "vsphere_zones": capv.DEPLOYMENT_ZONES,
    "vsphere_domains": capv.FAILURE_DOMAINS,
    "cluster_machines": clusterapi.MACHINES,
    "cluster_control_planes": clusterapi.CONTROL_PLANES,
}
SERVER = "vc.example.com"
SIZE = "grid_t4-16q"


class Scene:
    """A cluster, and what its webhook says of writes."""

    def __init__(self) -> None:
        self.world = World(**{name: Store(INDEXERS.get(name)) for name in STORES})
        self.answer: dict[str, Any] = {}

    # ---- what is written

    def obj(self, kind: str, spec: Any = None, name: str = "gpu", **meta: Any) -> dict[str, Any]:
        """An object whose machine spec this is."""
        inner = {"template": "ubuntu", "server": SERVER, "network": {"devices": []}} | (spec or {})
        whole = {"template": {"spec": inner}} if kind == "VSphereMachineTemplate" else inner
        return self.raw(kind, whole, name, **meta)

    def raw(self, kind: str, spec: Any, name: str = "gpu", **meta: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{GROUPS.get(kind, capv.GROUP)}/v1beta2",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"} | meta,
            "spec": spec,
        }

    def many(
        self,
        replicas: int | None = 1,
        template: str = "gpu",
        kind: str = "MachineDeployment",
        **spec: Any,
    ) -> dict[str, Any]:
        """A set of machines of a template."""
        ref = {"apiGroup": capv.GROUP, "kind": "VSphereMachineTemplate", "name": template}
        zone = spec.pop("zone", None)
        inner = {"clusterName": "c", "infrastructureRef": ref, "failureDomain": zone}
        meta = spec.pop("meta", {})
        whole = {"clusterName": "c", "replicas": replicas, "template": {"spec": inner}} | spec
        return self.raw(kind, whole, "workers", **meta)

    def control_plane(
        self, replicas: int | None = 1, template: str = "gpu", cluster: str = "c", **spec: Any
    ) -> dict[str, Any]:
        """A control plane whose machines are of a template; Cluster API labels it."""
        ref = {"apiGroup": capv.GROUP, "kind": "VSphereMachineTemplate", "name": template}
        whole = {
            "version": "v1.34.2",
            "replicas": replicas,
            "machineTemplate": {"spec": {"infrastructureRef": ref}},
            "kubeadmConfigSpec": {"clusterConfiguration": {"featureGates": {"A": True}}},
        }
        labels = {"cluster.x-k8s.io/cluster-name": cluster} if cluster else {}
        return self.raw("KubeadmControlPlane", whole | spec, "control", labels=labels)

    # ---- what is known

    def knows(self, store: str, raw: Mapping[str, Any]) -> None:
        resource: Any = STORES[store]
        getattr(self.world, store).put(resource.decode(msgspec.json.encode(raw)))

    def vcenter(
        self,
        name: str = "main",
        server: str = "https://VC.example.com:443/sdk",
        *,
        ready: bool = True,
    ) -> None:
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        self.knows(
            "vcenters",
            {
                "metadata": {"name": name},
                "spec": {"server": server},
                "status": {"conditions": conditions},
            },
        )

    def host(
        self,
        name: str,
        users: Sequence[str] = (),
        *,
        boards: int = 1,
        vcenter: str = "main",
        **status: Any,
    ) -> None:
        """A host with T4s to share; the first are whole of the VMs that are on with them."""
        reported = [
            {
                "id": f"0000:{at:02x}:00.0",
                "name": "Tesla T4",
                "memoryGiB": 16,
                "profiles": [{"name": SIZE, "memoryGiB": 16}],
                "users": [{"vm": vm, "profile": SIZE} for vm in users[at : at + 1]],
            }
            for at in range(boards)
        ]
        self.knows(
            "vsphere_hosts",
            {
                "metadata": {"name": f"{vcenter}-{name}"},
                "spec": {"vCenter": vcenter, "ref": name},
                "status": {
                    "host": f"esx-{name}",
                    "datacenter": "DC0",
                    "cluster": "C0",
                    "connected": True,
                    "sharedDirect": True,
                    "boards": reported,
                }
                | status,
            },
        )

    def reserve(self, machine: str, host: str, vm: str = "") -> None:
        seat = {"type": "vGPU", "asked": SIZE, "devices": ["0000:00:00.0"]}
        self.knows(
            "vsphere_reservations",
            {
                "metadata": {"name": machine, "namespace": "default"},
                "spec": {"vCenter": "main", "host": host, "seats": [seat]},
                "status": {"vm": vm},
            },
        )

    def machine(
        self, name: str, of: str = "workers", label: str = "deployment-name", zone: str = ""
    ) -> None:
        labels = {f"cluster.x-k8s.io/{label}": of}
        ref = {"kind": "VSphereMachine", "name": name}
        self.knows(
            "cluster_machines",
            {
                "metadata": {"name": f"m-{name}", "namespace": "default", "labels": labels},
                "spec": {"infrastructureRef": ref, "failureDomain": zone},
            },
        )

    def zone(self, name: str, server: str = SERVER, **topology: Any) -> None:
        """A failure domain, and the deployment zone that makes it one of a vCenter."""
        spec = {"server": server, "failureDomain": f"d-{name}"}
        self.knows("vsphere_zones", {"metadata": {"name": name}, "spec": spec})
        domain = {"topology": topology}
        self.knows("vsphere_domains", {"metadata": {"name": f"d-{name}"}, "spec": domain})

    def cluster(
        self, zones: Mapping[str, bool] | None = None, server: str = SERVER, name: str = "c"
    ) -> None:
        """Its infrastructure; `zones`: whether each is for control planes, once known."""
        selector = {} if zones is None else {"failureDomainSelector": {}}
        reported = [{"name": one, "controlPlane": may} for one, may in (zones or {}).items()]
        self.knows(
            "vsphere_clusters",
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"server": server} | selector,
                "status": {"failureDomains": reported} if reported else {},
            },
        )

    def template(self, spec: Any, name: str = "gpu") -> None:
        self.knows("vsphere_templates", self.obj("VSphereMachineTemplate", spec, name))

    def refuses(self) -> None:
        self.world = replace(self.world, vsphere_refuses=True)

    # ---- what is said

    async def _ask(self, new: Any, old: Any, more: Any, *, mutates: bool) -> dict[str, Any]:
        what = new or old
        group, kind = what["apiVersion"].partition("/")[0], what["kind"]
        operation = "DELETE" if new is None else "UPDATE" if old is not None else "CREATE"
        whole = question(PLURALS[kind], operation, new, old, group=group, **more)
        asked = review.read(msgspec.json.encode(whole))
        metrics = AdmissionMetrics(CollectorRegistry())
        judging = Judging(KINDS, self.world, AccessReviews(Client(SILENT), metrics), metrics)
        judged = await (judging.mutate if mutates else judging.validate)(asked)
        assert judged.outcome in (Outcome.ALLOWED, Outcome.REFUSED)
        self.answer = well_formed(review.write(asked.version, asked.uid, judged.answer), asked.uid)
        return self.answer

    async def causes(self, new: Any, old: Any = None, **more: Any) -> list[tuple[str, str]]:
        """Field and message of everything that speaks against a write."""
        answer = await self._ask(new, old, more, mutates=False)
        if answer["allowed"]:
            return []
        assert answer["status"]["code"] == 422
        assert answer["status"]["reason"] == "Invalid"
        return [(one["field"], one["message"]) for one in answer["status"]["details"]["causes"]]

    async def warnings(self, new: Any, old: Any = None) -> list[str]:
        """What is said of a write that is allowed."""
        assert await self.causes(new, old) == []
        return list(self.answer.get("warnings", []))

    async def mutated(self, new: Any, old: Any = None) -> Any:
        """What becomes of an object."""
        answer = await self._ask(new, old, {}, mutates=True)
        assert answer["allowed"]
        operations = json.loads(base64.b64decode(answer.get("patch", "W10=")))
        return patch.apply(patch.JSON, copy.deepcopy(new), operations) if operations else new


@pytest.fixture
async def scene() -> Scene:
    return Scene()
