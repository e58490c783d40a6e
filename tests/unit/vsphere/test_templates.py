"""What a template says of the machines that can be made of it, for the cluster autoscaler."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from laneway.kube import capv
from laneway.kube.resource import Resource
from support.memory_vcenter import MemoryVCenter

GROUP = {
    "name": "Nvidia:1@t4-with-nic",
    "description": "a GPU and the port next to it",
    "parts": [
        {"kind": "pciPassthru", "name": "Tesla T4", "vendorId": 4318, "deviceId": 7864},
        {"kind": "pciPassthru", "name": "ConnectX-7", "vendorId": 5555, "deviceId": 4129},
    ],
}
TEMPLATES = Resource(
    capv.GROUP,
    capv.VERSION,
    "vspheremachinetemplates",
    True,
    capv.VSphereMachineTemplate,
    "VSphereMachineTemplate",
)


async def test_a_template_says_what_its_machines_will_have(
    site: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    async def template(name: str, *devices: Any, **spec: Any) -> None:
        spec = {"template": "ubuntu", "pciDevices": list(devices)} | spec
        network = {"network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]}}
        await site.make(TEMPLATES, name, spec={"template": {"spec": network | spec}})

    async def says(name: str, **capacity: str) -> None:
        expected = {"nvidia.com/gpu" if key == "gpu" else key: one for key, one in capacity.items()}
        await site.until(TEMPLATES, name, lambda one: one.status.capacity == expected)

    vgpu = {"vGPUProfile": "grid_t4-8q"}
    await template("vgpus", vgpu, vgpu, numCPUs=8, memoryMiB=16384)
    await template("plain", pciDevices=None)
    await template("group", {"deviceGroupName": GROUP["name"]})
    found = await site.lead(alongside=True)
    await says("vgpus", cpu="8", memory="16384Mi", gpu="2")
    await says("plain", cpu="2", memory="2048Mi")
    # What the group holds is known once a vCenter is.
    await says("group", cpu="2", memory="2048Mi")
    vcenter = start_vcenter(device_groups={"DC0_C0_H1": [GROUP]})
    await site.vcenter(vcenter)
    await says("group", cpu="2", memory="2048Mi", gpu="1")

    written = (await site.get(TEMPLATES, "group")).metadata.resource_version
    await site.rest(found)
    assert (await site.get(TEMPLATES, "group")).metadata.resource_version == written


async def test_where_capvs_definitions_have_no_status_all_else_goes_on(
    site: Any, vcenter: MemoryVCenter
) -> None:
    definitions = Resource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, capv.VSphereVM
    )
    name = "vspheremachinetemplates.infrastructure.cluster.x-k8s.io"
    there = await site.client.raw(definitions.path("", name))
    [version] = json.loads(there)["spec"]["versions"]
    version.pop("subresources")
    version["schema"]["openAPIV3Schema"]["properties"].pop("status")
    await site.client.patch(definitions, name, {"spec": {"versions": [version]}})
    spec = {"template": "ubuntu", "network": {"devices": []}}
    await site.make(TEMPLATES, "one", spec={"template": {"spec": spec}})
    found = await site.lead(alongside=True)
    await site.vcenter(vcenter)
    await site.followed(found, vcenter)
    await site.rest(found)
    assert (await site.get(TEMPLATES, "one")).status.capacity == {}
