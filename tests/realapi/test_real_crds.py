"""Our CRDs on a real API server: taken as they are, and objects of every kind with them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.api import VGPULayout
from laneway.api.crds import crds
from laneway.api.registry import KINDS
from laneway.kube.client import PatchType
from laneway.kube.resource import served
from laneway.roles.install import install_crds

SAMPLES: dict[str, dict[str, Any]] = {
    "PCIDevice": {"spec": {}},
    "PCIDeviceClaim": {
        "spec": {"address": "0000:08:00.4", "nodeName": "n", "userName": "admin"},
    },
    "SRIOVNetworkDevice": {"spec": {"address": "0000:17:00.0", "nodeName": "n", "numVFs": 4}},
    "Node": {},
    "SRIOVGPUDevice": {"spec": {"address": "0000:08:00.0", "nodeName": "n", "enabled": True}},
    "VGPUDevice": {
        "spec": {
            "address": "0000:08:00.4",
            "nodeName": "n",
            "enabled": True,
            "vGPUTypeName": "NVIDIA A2-4Q",
            "parentGPUDeviceAddress": "0000:08:00.0",
        },
    },
    "USBDevice": {},
    "USBDeviceClaim": {"spec": {"userName": "admin"}},
    "MigConfiguration": {"spec": {"enabled": False}},
    "VGPULayout": {
        "spec": {
            "nodeSelector": {"names": ["n"], "matchLabels": {"zone": "a"}},
            "gpuSelector": {"deviceIDs": ["25b6"]},
            "mode": "SameSize",
            "vgpus": [{"profile": "NVIDIA A2-4Q", "count": 4}],
            "dryRun": True,
        },
    },
    "HostPolicy": {
        "spec": {
            "nodeSelector": {"matchLabels": {"gpu": "a2"}},
            "iommu": True,
            "hugePages": [{"size": "1G", "count": 16}],
            "rollout": {"maxUnavailable": "10%", "reboot": {"when": "WhenFree"}},
        },
    },
    "HostPreparation": {
        "spec": {"policies": ["gpus"], "rollout": {"stage": "RebootPending"}},
    },
    "VCenter": {
        "spec": {
            "server": "vcenter.example.com",
            "secretRef": {"namespace": "default", "name": "vcenter"},
            "thumbprint": ":".join(["A0"] * 20),
        },
    },
    "VSphereHost": {"spec": {"vCenter": "dc0", "ref": "host-21"}},
    "VSphereReservation": {
        "spec": {
            "vCenter": "dc0",
            "host": "host-21",
            "hostName": "esx1",
            "seats": [{"asked": "10de:1eb8", "label": "blue", "devices": ["0000:3b:00.0"]}],
        },
    },
}


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: crd["metadata"]["name"])
async def test_a_crd_is_established_without_complaint(server: Any, crd: dict[str, Any]) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    stored = msgspec.json.decode(
        await server.client.raw(f"{path}/{crd['metadata']['name']}"), type=dict[str, Any]
    )

    conditions = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


async def test_the_crds_can_be_installed_again(server: Any) -> None:
    await install_crds(server.client)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
async def test_an_object_of_every_kind_is_taken_as_written(server: Any, kind: Any) -> None:
    resource = served(kind.type)
    name = f"{server.node}-sample"
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        **SAMPLES[kind.kind],
    }

    namespace = "default" if kind.namespaced else ""
    await server.client.create(resource, body, namespace)

    stored = msgspec.json.decode(await server.client.raw(resource.path(namespace, name)))
    assert {key: stored[key] for key in SAMPLES[kind.kind]} == SAMPLES[kind.kind]


async def test_agents_report_their_gpus_at_the_same_time(server: Any) -> None:
    resource = served(VGPULayout)
    name = f"{server.node}-layout"
    about = {"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": "VGPULayout"}
    about |= {"metadata": {"name": name}}
    await server.client.create(resource, {**about, "spec": {}})

    async def answer(node: str, *states: str) -> dict[str, str]:
        gpus = [{"name": f"{node}-{n}", "state": state} for n, state in enumerate(states)]
        layout = await server.client.patch(
            resource,
            name,
            {**about, "status": {"gpus": gpus}},
            patch_type=PatchType.APPLY,
            subresource="status",
            field_manager=f"laneway-{node}",
        )
        return {gpu.name: gpu.state for gpu in layout.status.gpus}

    await answer("n1", "InProgress", "InProgress")
    await answer("n2", "Done")
    found = await answer("n1", "Done")

    assert found == {"n1-0": "Done", "n2-0": "Done"}
