"""The other objects of a fleet in use: nodes, pods and VMs, as kubelets and KubeVirt write them.

They are as long as those of a cluster, for that is what a cache has to read and to leave out: nodes
name their images, VMs their disks and networks.
"""

from __future__ import annotations

import uuid

from laneway.core import keys
from laneway.kube.kubevirt import (
    ANNOTATION_ADMITTED,
    LABEL_CREATED_BY,
    DeviceRequest,
    Devices,
    mark_of,
)
from support.fleet_objects import NAMESPACE, Vm, condition
from support.gpu_fleet import TIME, Object


def virtual_machine(vm: Vm) -> Object:
    devices = _devices(vm)
    annotations = {
        keys.ANNOTATION_ALLOCATION: vm.record,
        ANNOTATION_ADMITTED: mark_of(
            Devices(gpus=[DeviceRequest(name=n, device_name=r) for n, r in _asked(vm)])
        ),
        "harvesterhci.io/volumeClaimTemplates": "[" + "x" * 500 + "]",
    }
    domain = _domain(devices)
    template = {
        "metadata": {"labels": {"kubevirt.io/vm": vm.name, "kubevirt.io/domain": vm.name}},
        "spec": {
            "domain": domain,
            "networks": [{"name": "default", "pod": {}}],
            "volumes": _volumes(vm),
            "terminationGracePeriodSeconds": 120,
            "evictionStrategy": "LiveMigrateIfPossible",
        },
    }
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {
            "name": vm.name,
            "namespace": NAMESPACE,
            "labels": {"app": "bench", "team": f"team-{len(vm.name)}"},
            "annotations": annotations,
        },
        "spec": {"runStrategy": "Always" if vm.runs else "Halted", "template": template},
        "status": vm_status(vm.runs),
    }


def vm_status(runs: bool) -> Object:
    """What KubeVirt reports of a VM."""
    return {
        "created": runs,
        "ready": runs,
        "printableStatus": "Running" if runs else "Stopped",
        "conditions": [condition("Ready", "", status="True" if runs else "False")],
    }


def instance(vm: Vm) -> Object:
    """The VMI of a VM that runs."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": vm.name,
            "namespace": NAMESPACE,
            "uid": str(uuid.uuid4()),
            "labels": {"app": "bench", "kubevirt.io/nodeName": vm.node},
            "finalizers": [],
        },
        "spec": {
            "domain": _domain(_devices(vm)),
            "networks": [{"name": "default", "pod": {}}],
            "volumes": _volumes(vm),
            "evictionStrategy": "LiveMigrateIfPossible",
        },
        "status": {
            "phase": "Running",
            "nodeName": vm.node,
            "activePods": {str(uuid.uuid4()): vm.node},
            "conditions": [
                condition("Ready", ""),
                condition("LiveMigratable", "HostDeviceNotLiveMigratable", status="False"),
            ],
            "guestOSInfo": {"name": "Debian GNU/Linux", "version": "12 (bookworm)"},
            "interfaces": [
                {"name": "default", "ipAddress": "10.42.0.17", "mac": "52:54:00:12:34:56"}
            ],
            "phaseTransitionTimestamps": [
                {"phase": phase, "phaseTransitionTimestamp": TIME}
                for phase in ("Pending", "Scheduling", "Scheduled", "Running")
            ],
        },
    }


def launcher(vm: Vm, uid: str) -> Object:
    """The pod in which a VM runs. `uid`: of its instance."""
    made = pod(vm.pod, vm.node)
    made["metadata"]["labels"] |= {LABEL_CREATED_BY: uid, "kubevirt.io": "virt-launcher"}
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "name": vm.name,
            "uid": uid,
            "controller": True,
        }
    ]
    amount = {vm.vgpus[0].resource: str(len(vm.vgpus))}
    made["spec"]["containers"][0]["resources"] = {"limits": amount, "requests": amount}
    return made


def pod(name: str, node_name: str) -> Object:
    """A pod that requests no device."""
    container = {
        "name": "compute",
        "image": "registry.example/compute@sha256:" + "0" * 64,
        "env": [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(10)],
        "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/mnt/{n}"} for n in range(8)],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {
            "nodeName": node_name,
            "containers": [container],
            "volumes": [{"name": f"volume-{n}", "emptyDir": {}} for n in range(8)],
        },
        "status": {
            "phase": "Running",
            "conditions": [condition(kind, "") for kind in ("Ready", "Initialized")],
        },
    }


def node(name: str) -> Object:
    """A Node as its kubelet reports it, with its images."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": f"zone-{name[-1]}",
        **{f"cpu-feature.node.kubevirt.io/feature-{n}": "true" for n in range(80)},
        **{f"hyperv.node.kubevirt.io/feature-{n}": "true" for n in range(15)},
    }
    amounts = {"cpu": "128", "memory": "1056Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {f"node.example/annotation-{n}": "x" * 80 for n in range(12)},
        },
        "spec": {"podCIDR": "10.42.0.0/24"},
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": node_conditions(TIME),
            "images": [
                {"names": [f"registry.example/image-{n}:v1", "x" * 90], "sizeBytes": 10**8}
                for n in range(50)
            ],
            "nodeInfo": {
                "kernelVersion": "6.12.9",
                "osImage": "Debian 12",
                "kubeletVersion": "v1.34.1",
                "machineID": uuid.uuid5(uuid.NAMESPACE_OID, name).hex,
            },
        },
    }


def node_conditions(heartbeat: str) -> list[Object]:
    """What a kubelet reports every ten seconds. `heartbeat`: the time."""
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    return [
        condition(kind, f"Kubelet{kind}", status="True" if kind == "Ready" else "False")
        | {"lastHeartbeatTime": heartbeat}
        for kind in kinds
    ]


def _asked(vm: Vm) -> list[tuple[str, str]]:
    return [(f"gpu-{number}", one.resource) for number, one in enumerate(vm.vgpus)]


def _devices(vm: Vm) -> Object:
    return {
        "gpus": [{"name": name, "deviceName": resource} for name, resource in _asked(vm)],
        "disks": [{"name": f"disk-{n}", "disk": {"bus": "virtio"}} for n in range(3)],
        "interfaces": [{"name": "default", "masquerade": {}, "model": "virtio"}],
        "inputs": [{"name": "tablet", "bus": "usb", "type": "tablet"}],
    }


def _domain(devices: Object) -> Object:
    return {
        "cpu": {"cores": 8, "sockets": 1, "threads": 1},
        "memory": {"guest": "16Gi"},
        "resources": {"limits": {"cpu": "8", "memory": "17Gi"}, "requests": {"memory": "16Gi"}},
        "features": {"acpi": {}, "smm": {"enabled": True}},
        "firmware": {"uuid": str(uuid.uuid4()), "serial": str(uuid.uuid4())},
        "machine": {"type": "q35"},
        "devices": devices,
    }


def _volumes(vm: Vm) -> list[Object]:
    return [
        {"name": f"disk-{n}", "persistentVolumeClaim": {"claimName": f"{vm.name}-disk-{n}"}}
        for n in range(2)
    ] + [{"name": "disk-2", "cloudInitNoCloud": {"secretRef": {"name": vm.name}}}]
