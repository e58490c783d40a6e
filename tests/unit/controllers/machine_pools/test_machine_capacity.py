"""What a machine of a KubevirtMachineTemplate will have, for the cluster autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import decode
from laneway.controllers.machine_pools.capacity import of_template
from laneway.core.gpu.vendors import Vendor
from laneway.kube.capk import KubevirtMachineTemplate

PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"
VGPU, WHOLE, NIC = "nvidia.com/NVIDIA_A2-4Q", "nvidia.com/GA107GL_A2", "nvidia.com/CONNECTX"
AMD, UNKNOWN, MIXED = "amd.com/MI300X", "example.com/dev1", "example.com/mixed"
KNOWN: dict[str, list[Vendor | None]] = {
    WHOLE: [Vendor.NVIDIA, Vendor.NVIDIA],
    NIC: [None],
    AMD: [Vendor.AMD],
    MIXED: [Vendor.NVIDIA, None],
}


def capacity(gpus: Any = (), hosts: Any = (), **domain: Any) -> dict[str, str]:
    devices = {
        "gpus": [{"name": f"g{at}", "deviceName": one} for at, one in enumerate(gpus)],
        "hostDevices": [{"name": f"h{at}", "deviceName": one} for at, one in enumerate(hosts)],
    }
    guest = {"domain": {"devices": devices, "memory": {"guest": "8Gi"}, **domain}}
    vm = {"spec": {"template": {"spec": guest}}}
    spec = {"template": {"spec": {"virtualMachineTemplate": vm}}}
    template = decode(KubevirtMachineTemplate, {"spec": spec})
    found = of_template(template, lambda resource: KNOWN.get(resource, []))
    return {key.removeprefix(PREFIX): value for key, value in found.items()}


@pytest.mark.parametrize(
    ("gpus", "hosts", "counted"),
    [
        ([VGPU], [], ("nvidia.com/gpu", "1")),
        ([VGPU, VGPU], [WHOLE], ("nvidia.com/gpu", "3")),
        ([], [WHOLE, NIC], ("nvidia.com/gpu", "1")),
        ([AMD, AMD], [], ("amd.com/gpu", "2")),
        ([], [NIC], None),
        ([VGPU], [AMD], None),
        ([VGPU, UNKNOWN], [], None),
        ([MIXED], [], None),
    ],
)
def test_gpus_are_counted_where_that_is_certain(gpus: Any, hosts: Any, counted: Any) -> None:
    found = capacity(gpus, hosts)
    assert (found["cpu"], found["memory"]) == ("1", "8Gi")
    both = found.get("gpu-type"), found.get("gpu-count")
    assert both == (counted or (None, None))


@pytest.mark.parametrize(
    ("domain", "cpu", "memory"),
    [
        ({"cpu": {"cores": 2, "sockets": 2, "threads": 2}}, "8", "8Gi"),
        ({"cpu": {"cores": 4}, "resources": {"requests": {"cpu": "1"}}}, "4", "8Gi"),
        ({"resources": {"requests": {"cpu": "1500m", "memory": "2Gi"}}}, "1500m", "8Gi"),
        ({"resources": {"limits": {"cpu": 2, "memory": "4Gi"}}, "memory": None}, "2", "4Gi"),
    ],
)
def test_cpu_and_memory_are_what_capk_says_of_templates(domain: Any, cpu: str, memory: str) -> None:
    found = capacity([VGPU], **domain)
    assert (found["cpu"], found["memory"]) == (cpu, memory)


def test_of_machines_without_devices_or_of_no_known_size_nothing_is_said() -> None:
    assert capacity() == {}
    assert capacity([VGPU], memory=None) == {}
