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
    VirtualMachineInstanceMigration,
)
from laneway.simcluster.kubevirt.objects import LABEL_LAUNCHER, Instance, desired, owned_by
from laneway.simcluster.objects import HOSTNAME

CONTAINER = "compute"
LABEL_MIGRATION = "kubevirt.io/migrationJobUID"
"""On a pod into which an instance migrates: uid of the migration."""
ANNOTATION_MIGRATION = "kubevirt.io/migrationJobName"
"""On the same pod: the name of the migration."""
MAX_LABEL = 63
_OVERCOMMIT = 10
"""Virtual processors on one real one, as KubeVirt does by itself."""


def pod_name(instance: Instance) -> str:
    """Always the same for one instance, so that two looks at it cannot make two pods."""
    return _name(instance.metadata.name, instance.metadata.uid)


def target_name(migration: VirtualMachineInstanceMigration) -> str:
    """The pod into which an instance migrates; always the same for one migration."""
    return _name(migration.spec.vmi_name, migration.metadata.uid)


def current_pod(instance: Instance) -> str:
    """The pod in which an instance is: another one after each migration that went well."""
    state = instance.status.migration_state
    if state is None or not state.migration_uid:
        return pod_name(instance)
    return state.target_pod if state.completed and not state.failed else state.source_pod


def _name(vmi: str, uid: str) -> str:
    suffix = hashlib.sha256(uid.encode()).hexdigest()[:5]
    stem = vmi[:230].rstrip("-.")
    return f"virt-launcher-{stem}-{suffix}"


def hostname(instance: Instance) -> str:
    """What the guest is to call itself, which is also how KubeVirt labels the pod."""
    return str(instance.spec.get("hostname") or instance.metadata.name.split(".")[0][:MAX_LABEL])


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


def target_pod(instance: Instance, migration: VirtualMachineInstanceMigration) -> JsonObject:
    """The manifest of the pod into which an instance migrates: on any node but its own."""
    pod = launcher_pod(instance)
    meta, spec = members(pod["metadata"]), members(pod["spec"])
    apart: JsonObject = {
        "labelSelector": {"matchLabels": {LABEL_CREATED_BY: instance.metadata.uid}},
        "topologyKey": HOSTNAME,
    }
    rule: JsonObject = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    uid, name = migration.metadata.uid, migration.metadata.name
    return {
        **pod,
        "metadata": {
            **meta,
            "name": target_name(migration),
            "labels": {**members(meta["labels"]), LABEL_MIGRATION: uid},
            "annotations": {**members(meta["annotations"]), ANNOTATION_MIGRATION: name},
        },
        "spec": {
            **spec,
            "nodeSelector": {
                **migration.spec.added_node_selector,
                **members(spec["nodeSelector"]),
            },
            "affinity": {"podAntiAffinity": rule},
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
