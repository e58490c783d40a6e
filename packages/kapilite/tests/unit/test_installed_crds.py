"""The definitions that users install load, and judge objects as their projects mean them to."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapilite.definitions import crds
from kapilite.schemas import schema, validation

Object = dict[str, Any]
FOLDER = Path(__file__).parents[4] / "tests" / "data" / "crds"


@pytest.fixture(scope="module")
def definitions() -> dict[str, Object]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for crd in yaml.load_all(path.read_text(), loader):
            if crd:
                crds.default_names(crd)
                found[crd["metadata"]["name"]] = crd
    return found


def test_all_of_them_can_be_served(definitions: dict[str, Object]) -> None:
    assert len(definitions) > 20
    for name, crd in definitions.items():
        assert crds.problems(crd, None, ()) == [], name
        crd["status"] = crds.established(crd, None, ())
        assert len(crds.kinds(crd)) == sum(v["served"] for v in crd["spec"]["versions"])


DOMAIN: Object = {
    "devices": {
        "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
        "interfaces": [{"name": "default", "masquerade": {}}],
        "gpus": [{"name": "gpu0", "deviceName": "nvidia.com/A40-8Q"}],
    },
    "memory": {"guest": "4Gi"},
    "resources": {"requests": {"memory": "4Gi", "cpu": 2}},
}
GUEST: Object = {
    "domain": DOMAIN,
    "networks": [{"name": "default", "pod": {}}],
    "volumes": [{"name": "root", "containerDisk": {"image": "example/disk:1"}}],
}
SAMPLES: dict[str, tuple[str, Object]] = {
    "virtualmachines.kubevirt.io": (
        "kubevirt.io/v1",
        {"runStrategy": "Always", "template": {"metadata": {"labels": {"a": "b"}}, "spec": GUEST}},
    ),
    "virtualmachineinstances.kubevirt.io": ("kubevirt.io/v1", GUEST),
    "clusters.cluster.x-k8s.io": (
        "cluster.x-k8s.io/v1beta2",
        {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}},
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "VSphereCluster",
                "name": "lab",
            },
        },
    ),
    "machinedeployments.cluster.x-k8s.io": (
        "cluster.x-k8s.io/v1beta2",
        {
            "clusterName": "lab",
            "replicas": 2,
            "selector": {"matchLabels": {"pool": "gpu"}},
            "template": {
                "spec": {
                    "clusterName": "lab",
                    "bootstrap": {"dataSecretName": "boot"},
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io",
                        "kind": "VSphereMachineTemplate",
                        "name": "gpu",
                    },
                }
            },
        },
    ),
    "vspheremachinetemplates.infrastructure.cluster.x-k8s.io": (
        "infrastructure.cluster.x-k8s.io/v1beta1",
        {
            "template": {
                "spec": {
                    "template": "ubuntu",
                    "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
                    "pciDevices": [{"vGPUProfile": "grid_a40-8q"}],
                }
            }
        },
    ),
    "vspherevms.infrastructure.cluster.x-k8s.io": (
        "infrastructure.cluster.x-k8s.io/v1beta1",
        {
            "template": "ubuntu",
            "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
            "pciDevices": [{"deviceId": 8758, "vendorId": 4318}],
        },
    ),
}


def judged(definitions: dict[str, Object], name: str, spec: Object) -> list[str]:
    version = SAMPLES[name][0]
    crd = copy.deepcopy(definitions[name])
    crd["status"] = crds.established(crd, None, ())
    kind = next(kind for kind in crds.kinds(crd) if kind.api_version == version)
    assert kind.schema is not None
    obj = {"apiVersion": version, "kind": kind.kind, "metadata": {"name": "a"}, "spec": spec}
    assert schema.fit(kind.schema, obj) == []
    return [f"{p.field}: {p.message}" for p in validation.problems(kind.schema, obj)]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sound_object_passes(definitions: dict[str, Object], name: str) -> None:
    assert judged(definitions, name, copy.deepcopy(SAMPLES[name][1])) == []


@pytest.mark.parametrize(
    ("name", "path", "value", "part"),
    [
        (
            "virtualmachines.kubevirt.io",
            "template/spec/domain/devices/disks",
            [{}],
            "spec.template.spec.domain.devices.disks[0].name: Required value",
        ),
        (
            "virtualmachineinstances.kubevirt.io",
            "domain/resources/requests/memory",
            "much",
            "spec.domain.resources.requests.memory: Invalid value",
        ),
        (
            "clusters.cluster.x-k8s.io",
            "availabilityGates",
            [{"conditionType": ""}],
            "spec.availabilityGates[0].conditionType: Invalid value",
        ),
        ("machinedeployments.cluster.x-k8s.io", "replicas", "two", "must be of type integer"),
        (
            "vspheremachinetemplates.infrastructure.cluster.x-k8s.io",
            "template/spec/numCPUs",
            1.5,
            "spec.template.spec.numCPUs: Invalid value",
        ),
        (
            "vspherevms.infrastructure.cluster.x-k8s.io",
            "network",
            {},
            "spec.network.devices: Required value",
        ),
    ],
)
def test_an_unsound_object_is_refused(
    definitions: dict[str, Object], *, name: str, path: str, value: Any, part: str
) -> None:
    spec = copy.deepcopy(SAMPLES[name][1])
    *parents, last = path.split("/")
    at = spec
    for parent in parents:
        at = at[parent]
    at[last] = value
    assert part in "\n".join(judged(definitions, name, spec))


def test_rules_of_cluster_api_are_enforced(definitions: dict[str, Object]) -> None:
    name = "clusters.cluster.x-k8s.io"
    rules = str(definitions[name]).count("x-kubernetes-validations")
    assert rules > 0
    spec = copy.deepcopy(SAMPLES[name][1])
    spec["topology"] = {
        "classRef": {"name": "quick"},
        "version": "v1.34.0",
        "controlPlane": {
            "healthCheck": {
                "remediation": {"templateRef": {"apiVersion": "v1", "kind": "T", "name": "t"}},
                "checks": {
                    "unhealthyMachineConditions": [
                        {"type": "Ready", "status": "False", "timeoutSeconds": 60}
                    ]
                },
            }
        },
    }
    texts = judged(definitions, name, spec)
    assert any("unhealthyMachineConditions[0].type" in text for text in texts)
