"""The VMs that Harvester's machine driver makes, field by field.

Worked out from harvester/docker-machine-driver-harvester (`harvester/create.go`) and the VM builder
of harvester/harvester (`pkg/builder`) at the commit that each release of the driver requires, with
what Go leaves out of empty fields and what it does not.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

CREATOR = "docker-machine-driver-harvester"


class Release(StrEnum):
    """The driver with the builder that it requires."""

    V1_0_6 = "v1.0.6, builder c537e12b7f09: gpus"
    """The last release, of 2026-01-26."""
    MASTER = "0b90d05a, builder v1.8.0: hostDevices"
    """The next one, as of 2026-06-23."""
    NEXT_BUILDER = "0b90d05a, builder 3d63c2af: gpus"
    """The same with the builder of Harvester's main branch, of 2026-08-20."""


def machine(
    release: Release, *requests: tuple[str, str], name: str = "guest-gpu-x7k2p-9fz4q"
) -> Any:
    """A VM with these devices, each the `name` and `deviceName` of an entry of `vgpuInfo`."""
    labels = {
        "harvesterhci.io/creator": CREATOR,
        "harvesterhci.io/machineSetName": "default-" + "-".join(name.split("-")[:-2]),
        "guestcluster.harvesterhci.io/name": "guest",
        "nodepool.harvesterhci.io/name": name.rpartition("-")[0].removeprefix("guest-"),
        "harvesterhci.io/vmName": name,  # of the template; both have one map of labels
    }
    found: dict[str, Any] = {
        "kind": "VirtualMachine",
        "apiVersion": "kubevirt.io/v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "annotations": {"harvesterhci.io/volumeClaimTemplates": json.dumps([_claim(name)])},
        },
        "spec": {
            "runStrategy": "RerunOnFailure",
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {
                        "harvesterhci.io/sshNames": "[]",
                        "harvesterhci.io/waitForLeaseInterfaceNames": "[]",
                    },
                },
                "spec": _instance(release, name, requests),
            },
        },
        "status": {},
    }
    if release is Release.V1_0_6:  # later libraries of Kubernetes leave it out
        found["metadata"]["creationTimestamp"] = None
        found["spec"]["template"]["metadata"]["creationTimestamp"] = None
    return found


def _instance(release: Release, name: str, requests: tuple[tuple[str, str], ...]) -> Any:
    part = "hostDevices" if release is Release.MASTER else "gpus"
    asked = [{"name": called, "deviceName": resource} for called, resource in requests]
    devices = {
        "disks": [
            {"name": "cloudinitdisk", "disk": {"bus": "virtio"}},
            {"name": "disk-0", "disk": {"bus": "virtio"}, "bootOrder": 1},
        ],
        "interfaces": [{"name": "nic-0", "model": "virtio", "bridge": {}}],
        **({part: asked} if asked else {}),
    }
    cpu = {"cores": 2}
    if release is not Release.V1_0_6:
        cpu |= {"sockets": 1, "threads": 1}
    creator = {"matchExpressions": [{"key": "harvesterhci.io/creator", "operator": "Exists"}]}
    term = {"labelSelector": creator, "topologyKey": "kubernetes.io/hostname"}
    apart = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term}
        ]
    }
    return {
        "domain": {
            "cpu": cpu,
            "devices": devices,
            "resources": {"limits": {"cpu": "2", "memory": "4Gi"}},
        },
        "affinity": {"podAntiAffinity": apart},
        "evictionStrategy": "LiveMigrateIfPossible",
        "networks": [{"name": "nic-0", "multus": {"networkName": "default/vlan1"}}],
        "volumes": [
            {"name": "cloudinitdisk", "cloudInitNoCloud": {"userData": "#cloud-config\n"}},
            {"name": "disk-0", "persistentVolumeClaim": {"claimName": _volume(name)}},
        ],
    }


def _claim(name: str) -> Any:
    return {
        "metadata": {
            "name": _volume(name),
            "annotations": {"harvesterhci.io/imageId": "default/image-5q2lx"},
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "40Gi"}},
            "storageClassName": "longhorn-image-5q2lx",
            "volumeMode": "Block",
        },
        "status": {},
    }


def _volume(name: str) -> str:
    return f"{name}-disk-0-w8tmk"
