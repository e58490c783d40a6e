"""The VM of a KubevirtMachine: as CAPK makes it, and as KubeVirt takes it."""

from __future__ import annotations

import functools
import importlib.util
import json
import lzma
from pathlib import Path
from typing import Any

import yaml

from kapilite.schemas import schema, validation
from laneway.api import decode
from laneway.kube.clusterapi import Machine
from laneway.simcluster.clusterapi.kubevirt.vms import namespace_of, vm
from laneway.simcluster.clusterapi.objects import Infra

ROOT = Path(__file__).parents[4]
NAME = "gpu-x7k2p"
TEMPLATE = {
    "metadata": {"namespace": "vms", "labels": {"team": "a", "name": "not-this"}},
    "spec": {
        "runStrategy": "Always",
        "dataVolumeTemplates": [{"metadata": {"name": "boot"}, "spec": {}}],
        "template": {
            "metadata": {"annotations": {"a": "b"}},
            "spec": {
                "domain": {
                    "devices": {
                        "disks": [{"name": "boot", "disk": {"bus": "virtio"}}],
                        "gpus": [{"name": "gpu0", "deviceName": "nvidia.com/NVIDIA_A2-4Q"}],
                    }
                },
                "volumes": [
                    {"name": "boot", "dataVolume": {"name": "boot"}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
                ],
            },
        },
    },
}


def made(**labels: str) -> dict[str, Any]:
    infra = decode(
        Infra,
        {
            "metadata": {"name": NAME, "namespace": "default"},
            "spec": {"virtualMachineTemplate": TEMPLATE},
        },
    )
    machine = decode(
        Machine,
        {
            "metadata": {"name": NAME, "labels": labels},
            "spec": {"clusterName": "c1", "bootstrap": {"dataSecretName": "data"}},
        },
    )
    assert namespace_of(infra) == "vms"
    return vm(infra, machine)


@functools.cache
def definition() -> dict[str, Any]:
    text = (ROOT / "tests/data/crds/virtualmachines.kubevirt.io.yaml").read_text()
    versions = yaml.load(text, Loader=yaml.CSafeLoader)["spec"]["versions"]
    found: dict[str, Any] = next(one for one in versions if one["storage"])["schema"]
    return found["openAPIV3Schema"]


def test_kubevirt_takes_it() -> None:
    whole = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", **made()}
    assert [*schema.fit(definition(), whole), *validation.problems(definition(), whole)] == []


def test_it_is_labelled_as_capk_labels_it() -> None:
    raw = made()
    labels = {
        "capk.cluster.x-k8s.io/kubevirt-machine-name": NAME,
        "capk.cluster.x-k8s.io/kubevirt-machine-namespace": "default",
        "cluster.x-k8s.io/cluster-name": "c1",
        "cluster.x-k8s.io/role": "worker",
        "kubevirt.io/vm": NAME,
        "name": NAME,
    }
    assert raw["metadata"] == {
        "name": NAME,
        "labels": {"team": "a", **labels},
        "annotations": {},
    }
    assert raw["spec"]["template"]["metadata"] == {"labels": labels, "annotations": {"a": "b"}}
    control = made(**{"cluster.x-k8s.io/control-plane": ""})
    assert control["metadata"]["labels"]["cluster.x-k8s.io/role"] == "control-plane"


def test_its_volumes_are_its_own_and_its_user_data_are_added() -> None:
    raw = made()
    guest = raw["spec"]["template"]["spec"]
    assert raw["spec"]["dataVolumeTemplates"][0]["metadata"]["name"] == f"{NAME}-boot"
    assert guest["volumes"] == [
        {"name": "boot", "dataVolume": {"name": f"{NAME}-boot"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
        {
            "name": "cloudinitvolume",
            "cloudInitConfigDrive": {"secretRef": {"name": "data-userdata"}},
        },
    ]
    disks = guest["domain"]["devices"]["disks"]
    assert [one["name"] for one in disks] == ["boot", "cloudinitvolume"]
    assert TEMPLATE["spec"]["dataVolumeTemplates"] == [{"metadata": {"name": "boot"}, "spec": {}}]  # type: ignore[index]


def test_the_definitions_are_what_the_tool_makes_of_the_copies() -> None:
    path = ROOT / "tools/capk-crds/generate.py"
    spec = importlib.util.spec_from_file_location("generate_capk_crds", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    shipped = json.loads(lzma.decompress(tool.TARGET.read_bytes()))
    assert shipped == [tool.definition(kind) for kind in tool.KINDS]
