"""The pod that runs an instance, and what keeps KubeVirt from making one."""

from __future__ import annotations

import hashlib
from collections import Counter

from laneway.core.permitted import RESOURCE
from laneway.core.raw import JsonObject, members
from laneway.kube.kubevirt import (
    ANNOTATION_DOMAIN,
    LABEL_CREATED_BY,
    LABEL_VM,
    PermittedHostDevices,
)
from laneway.simcluster.kubevirt.objects import LABEL_LAUNCHER, Instance, desired, owned_by

CONTAINER = "compute"
_MAX_LABEL = 63
_OVERCOMMIT = 10
"""Virtual processors on one real one, as KubeVirt does by itself."""


def pod_name(instance: Instance) -> str:
    """Always the same for one instance, so that two looks at it cannot make two pods."""
    suffix = hashlib.sha256(instance.metadata.uid.encode()).hexdigest()[:5]
    stem = instance.metadata.name[:230].rstrip("-.")
    return f"virt-launcher-{stem}-{suffix}"


def hostname(instance: Instance) -> str:
    """What the guest is to call itself, which is also how KubeVirt labels the pod."""
    return str(instance.spec.get("hostname") or instance.metadata.name.split(".")[0][:_MAX_LABEL])


def refused(instance: Instance, permitted: PermittedHostDevices | None) -> str:
    """Which devices of an instance are not permitted, in KubeVirt's words; empty: none."""
    if permitted is None:
        return ""
    known = {
        entry.get(RESOURCE)
        for entries in (permitted.pci_host_devices, permitted.mediated_devices, permitted.usb)
        for entry in entries
    }
    devices = desired(instance).domain.devices
    what = [("GPU", one.device_name) for one in devices.gpus]
    what += [("HostDevice", one.device_name) for one in devices.host_devices]
    return " ".join(
        f"{kind} {name} is not permitted in permittedHostDevices configuration"
        for kind, name in what
        if name and name not in known
    )


def launcher_pod(instance: Instance) -> JsonObject:
    """The manifest of the pod."""
    meta = instance.metadata
    wanted = desired(instance)
    devices = wanted.domain.devices
    counted = Counter(
        one.device_name for one in (*devices.host_devices, *devices.gpus) if one.device_name
    )
    extended = {name: str(count) for name, count in counted.items()}
    domain = _part(instance.spec, "domain")
    given = _part(domain, "resources")
    requests = {**_virtual(domain), **_part(given, "requests"), **extended}
    limits = {**_part(given, "limits"), **extended}
    grace = instance.spec.get("terminationGracePeriodSeconds")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(instance),
            "namespace": meta.namespace,
            "labels": {
                **meta.labels,
                LABEL_LAUNCHER: "virt-launcher",
                LABEL_CREATED_BY: meta.uid,
                LABEL_VM: hostname(instance),
            },
            "annotations": {**meta.annotations, ANNOTATION_DOMAIN: meta.name},
            "ownerReferences": owned_by("VirtualMachineInstance", meta),
        },
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": CONTAINER,
                    "image": "virt-launcher",
                    "command": ["/usr/bin/virt-launcher-monitor"],
                    "resources": {"requests": requests, "limits": limits},
                }
            ],
            "nodeSelector": dict(wanted.node_selector),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace if isinstance(grace, int) else 30,
        },
    }


def _virtual(domain: JsonObject) -> dict[str, str]:
    """What the virtual processors and memory of a VM ask of a node."""
    found = {}
    cpu = _part(domain, "cpu")
    processors = 1
    for factor in ("cores", "sockets", "threads"):
        count = cpu.get(factor)
        processors *= count if isinstance(count, int) and count else 1
    found["cpu"] = f"{processors * 1000 // _OVERCOMMIT}m"
    if guest := _part(domain, "memory").get("guest"):
        found["memory"] = str(guest)
    return found


def _part(obj: JsonObject, name: str) -> JsonObject:
    return members(obj.get(name))
