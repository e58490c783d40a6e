"""Machines of Cluster API on KubeVirt as they are asked about, and what is known of nodes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from laneway.admission import review
from laneway.admission.access import AccessReviews
from laneway.admission.indexes import INDEXERS
from laneway.admission.judging import Judging
from laneway.admission.kinds import KINDS
from laneway.admission.metrics import AdmissionMetrics, Outcome
from laneway.admission.world import World
from laneway.api import CoreNode, VGPUDevice, decode
from laneway.controllers.ledger import demands, devices
from laneway.core import names
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Facts, NodeFact
from laneway.core.ledger.ledger import Ledger
from laneway.kube import capk, clusterapi
from laneway.kube.client import Client
from laneway.kube.kubevirt import INSTANCES, VIRTUAL_MACHINES
from laneway.kube.store import Store
from support.reviewing import SILENT, well_formed
from support.reviewing import review as question

PROFILE = "NVIDIA A2-4Q"
RESOURCE = names.vgpu_resource_name(PROFILE)
PLURALS = {
    "KubevirtMachineTemplate": "kubevirtmachinetemplates",
    "MachineDeployment": "machinedeployments",
    "MachineSet": "machinesets",
    "KubeadmControlPlane": "kubeadmcontrolplanes",
}
STORES = {
    "kubevirt_templates": capk.KUBEVIRT_TEMPLATES,
    "kubevirt_clusters": capk.KUBEVIRT_CLUSTERS,
    "cluster_machines": clusterapi.MACHINES,
    "cluster_sets": clusterapi.MACHINE_SETS,
    "cluster_deployments": clusterapi.MACHINE_DEPLOYMENTS,
    "cluster_control_planes": clusterapi.CONTROL_PLANES,
    "vms": VIRTUAL_MACHINES,
    "instances": INSTANCES,
}


class Scene:
    """A cluster with vGPUs, and what its webhook says of writes."""

    def __init__(self) -> None:
        stores: dict[str, Any] = {name: Store(INDEXERS.get(name)) for name in {*INDEXERS, *STORES}}
        self.world = World(**stores, ledger=self.ledger)
        self.answer: dict[str, Any] = {}

    def ledger(self) -> Ledger:
        world = self.world
        facts = [devices.of_vgpu(one) for one in world.vgpus]  # type: ignore[arg-type]  # same fields
        nodes = tuple(NodeFact(one.metadata.name, one.metadata.labels) for one in world.nodes)
        asking = tuple(demands.of_vms(world.vms, world.instances, ()))
        return build(Facts(tuple(one for one in facts if one), asking, nodes))

    # ---- what is known

    def knows(self, store: str, raw: Any) -> None:
        resource: Any = STORES[store]
        getattr(self.world, store).put(resource.decode(msgspec.json.encode(raw)))

    def node(self, name: str, vgpus: int, profile: str = PROFILE, **labels: str) -> None:
        """A node with so many vGPUs that VMs can request."""
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        self.world.nodes.put(decode(CoreNode, {"metadata": meta}))
        ready = [{"type": kind, "status": "True"} for kind in ("Ready", "Advertised")]
        for at in range(vgpus):
            address = f"0000:08:00.{at}"
            spec = {
                "nodeName": name,
                "address": address,
                "enabled": True,
                "vGPUTypeName": profile,
            }
            status = {
                "framework": "mdev",
                "configureVGPUTypeName": profile,
                "resourceName": names.vgpu_resource_name(profile),
                "vGPUStatus": "vGPUConfigured",
                "conditions": ready,
            }
            body = {"metadata": {"name": f"{name}-00000800{at}"}, "spec": spec, "status": status}
            self.world.vgpus.put(decode(VGPUDevice, body))

    def cluster(self, name: str = "c", secret: str = "", **labels: str) -> None:
        ref = {"infraClusterSecretRef": {"name": secret}} if secret else {}
        meta = {"name": name, "namespace": "default", "labels": labels}
        self.knows("kubevirt_clusters", {"metadata": meta, "spec": ref})

    def template(
        self, name: str = "gpu", gpus: int = 1, resource: str = RESOURCE, **more: Any
    ) -> dict[str, Any]:
        """One that is known, and as it is written. Of `more`, a guest and a machine's fields."""
        entries = [{"name": f"gpu{at}", "deviceName": resource} for at in range(gpus)]
        domain = {"devices": {"gpus": entries}, "memory": {"guest": "4Gi"}}
        guest = {"domain": domain, **more.pop("guest", {})}
        machine = {
            "virtualMachineTemplate": {
                "metadata": more.pop("vm", None),
                "spec": {"runStrategy": "Always", "template": {"spec": guest}},
            },
            **more.pop("machine", {}),
        }
        raw = self.raw("KubevirtMachineTemplate", {"template": {"spec": machine}}, name, **more)
        self.knows("kubevirt_templates", raw)
        return raw

    def machine(
        self, name: str, node: str = "", *, made_by: str = "", gpus: int = 1, **spec: Any
    ) -> None:
        """A Machine of the deployment `workers`, and its VM; on no node it waits for one."""
        labels = {
            "cluster.x-k8s.io/deployment-name": "workers",
            "cluster.x-k8s.io/control-plane-name": "control",
        }
        meta = {"name": name, "namespace": "default"}
        of = {"cluster.x-k8s.io/set-name": made_by} if made_by else {}
        made = {"creationTimestamp": "2026-11-01T00:00:00Z", "labels": labels | of}
        ref = {"kind": "KubevirtMachine", "name": name}
        self.knows(
            "cluster_machines", {"metadata": meta | made, "spec": {"infrastructureRef": ref} | spec}
        )
        self.vm(name, node, gpus)

    def vm(self, name: str, node: str = "", gpus: int = 1) -> None:
        meta = {"name": name, "namespace": "default"}
        entries = [{"name": f"gpu{at}", "deviceName": RESOURCE} for at in range(gpus)]
        guest = {"domain": {"devices": {"gpus": entries}}}
        spec = {"runStrategy": "Always", "template": {"spec": guest}}
        self.knows("vms", {"metadata": meta, "spec": spec})
        if node:
            status = {"phase": "Running", "nodeName": node}
            self.knows("instances", {"metadata": meta, "spec": guest, "status": status})

    # ---- what is written

    def raw(self, kind: str, spec: Any, name: str, **meta: Any) -> dict[str, Any]:
        groups = {
            "KubevirtMachineTemplate": f"{capk.GROUP}/v1alpha1",
            "KubeadmControlPlane": f"{clusterapi.CONTROL_PLANE_GROUP}/v1beta2",
        }
        return {
            "apiVersion": groups.get(kind, f"{clusterapi.GROUP}/v1beta2"),
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"} | meta,
            "spec": spec,
        }

    def many(
        self,
        replicas: int | None = 1,
        template: str = "gpu",
        kind: str = "MachineDeployment",
        name: str = "workers",
        **more: Any,
    ) -> dict[str, Any]:
        """A set of machines of a template. Of `more`, `limits` of its rollout and `version`."""
        ref = {"apiGroup": capk.GROUP, "kind": "KubevirtMachineTemplate", "name": template}
        limits, version = more.pop("limits", {}), more.pop("version", "v1.34.2")
        rollout = {"strategy": {"rollingUpdate": limits}, **more.pop("rollout", {})}
        if kind == "KubeadmControlPlane":
            inner = {"machineTemplate": {"spec": {"infrastructureRef": ref}}, "version": version}
            more["labels"] = {"cluster.x-k8s.io/cluster-name": "c"}
        else:
            machine = {"clusterName": "c", "infrastructureRef": ref, "version": version}
            inner = {"clusterName": "c", "template": {"spec": machine}}
        whole = {"replicas": replicas, "rollout": rollout} | inner
        return self.raw(kind, whole, name, **more)

    # ---- what is said

    async def says(self, new: Any, old: Any = None, **more: Any) -> dict[str, Any]:
        what = new or old
        group = what["apiVersion"].partition("/")[0]
        operation = "UPDATE" if old is not None else "CREATE"
        plural = PLURALS[what["kind"]]
        asked = review.read(
            msgspec.json.encode(question(plural, operation, new, old, group=group, **more))
        )
        metrics = AdmissionMetrics(CollectorRegistry())
        judging = Judging(KINDS, self.world, AccessReviews(Client(SILENT), metrics), metrics)
        judged = await judging.validate(asked)
        assert judged.outcome in (Outcome.ALLOWED, Outcome.REFUSED)
        self.answer = well_formed(review.write(asked.version, asked.uid, judged.answer), asked.uid)
        return self.answer

    async def refused(self, new: Any, old: Any = None, **more: Any) -> list[tuple[str, str]]:
        """Field and reason of everything that speaks against a write."""
        answer = await self.says(new, old, **more)
        if answer["allowed"]:
            return []
        return [
            (one.get("field", ""), one["reason"]) for one in answer["status"]["details"]["causes"]
        ]

    async def warned(self, new: Any, old: Any = None, **more: Any) -> list[str]:
        """What is said of a write that is allowed."""
        answer = await self.says(new, old, **more)
        assert answer["allowed"], json.dumps(answer)
        return list(answer.get("warnings", []))

    @property
    def message(self) -> str:
        return str(self.answer["status"]["message"])


@pytest.fixture
def make_scene() -> type[Scene]:
    """An empty one."""
    return Scene


@pytest.fixture
async def scene() -> Scene:
    """Two nodes with two vGPUs each, a cluster in which CAPK makes VMs, and a template of one."""
    scene = Scene()
    scene.node("n1", 2)
    scene.node("n2", 2, zone="b")
    scene.cluster()
    scene.template()
    return scene
