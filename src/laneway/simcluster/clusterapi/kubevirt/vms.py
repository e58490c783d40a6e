"""The VM that CAPK makes of a KubevirtMachine.

All of it is the machine's template, but for labels, the disk with the user data, and names of
DataVolumes, which begin with the machine's.
"""

from __future__ import annotations

import copy
from typing import Any

from laneway.core.raw import Json, JsonObject, members
from laneway.kube.clusterapi import LABEL_CLUSTER, Machine
from laneway.simcluster.clusterapi.objects import Infra

LABEL_MACHINE = "capk.cluster.x-k8s.io/kubevirt-machine-name"
LABEL_NAMESPACE = "capk.cluster.x-k8s.io/kubevirt-machine-namespace"
_LABEL_CONTROL_PLANE = "cluster.x-k8s.io/control-plane"
_USER_DATA = "cloudinitvolume"


def namespace_of(infra: Infra) -> str:
    """Where the VM of a machine is."""
    about = members(members(infra.spec.get("virtualMachineTemplate")).get("metadata"))
    return str(about.get("namespace") or infra.metadata.namespace)


def vm(infra: Infra, machine: Machine) -> JsonObject:
    """The VM of a machine, whose user data are made."""
    template = members(infra.spec.get("virtualMachineTemplate"))
    about, spec = members(template.get("metadata")), copy.deepcopy(members(template.get("spec")))
    guest = members(spec.get("template"))
    labels = _labels(infra, machine)
    whole: JsonObject = {
        **spec,
        "template": {
            "metadata": _metadata(members(guest.get("metadata")), labels),
            "spec": _guest(members(guest.get("spec")), machine),
        },
    }
    _own_volumes(whole, infra.metadata.name)
    return {"metadata": {"name": infra.metadata.name, **_metadata(about, labels)}, "spec": whole}


def _labels(infra: Infra, machine: Machine) -> dict[str, str]:
    meta = infra.metadata
    is_control_plane = _LABEL_CONTROL_PLANE in machine.metadata.labels
    return {
        "kubevirt.io/vm": meta.name,
        "name": meta.name,
        "cluster.x-k8s.io/role": "control-plane" if is_control_plane else "worker",
        LABEL_CLUSTER: machine.spec.cluster_name,
        LABEL_MACHINE: meta.name,
        LABEL_NAMESPACE: meta.namespace,
    }


def _metadata(about: JsonObject, labels: dict[str, str]) -> JsonObject:
    return {
        "labels": {**members(about.get("labels")), **labels},
        "annotations": {**members(about.get("annotations"))},
    }


def _guest(spec: JsonObject, machine: Machine) -> JsonObject:
    domain = members(spec.get("domain"))
    devices = members(domain.get("devices"))
    secret = f"{machine.spec.bootstrap.data_secret_name}-userdata"
    volume: JsonObject = {
        "name": _USER_DATA,
        "cloudInitConfigDrive": {"secretRef": {"name": secret}},
    }
    disk: JsonObject = {"name": _USER_DATA, "disk": {"bus": "virtio"}}
    return {
        **spec,
        "domain": {**domain, "devices": {**devices, "disks": _more(devices.get("disks"), disk)}},
        "volumes": _more(spec.get("volumes"), volume),
    }


def _more(there: Json, one: JsonObject) -> list[Json]:
    return [*(there if isinstance(there, list) else ()), one]


def _own_volumes(spec: Any, prefix: str) -> None:
    own = {}
    for one in spec.get("dataVolumeTemplates") or ():
        name = one["metadata"]["name"]
        one["metadata"]["name"] = own[name] = f"{prefix}-{name}"
    for volume in spec["template"]["spec"]["volumes"]:
        for source, field in (("persistentVolumeClaim", "claimName"), ("dataVolume", "name")):
            named = volume.get(source)
            if named is not None and named.get(field) in own:
                named[field] = own[named[field]]
