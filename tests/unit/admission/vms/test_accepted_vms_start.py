"""An accepted VM starts, or a refusal says why: from the file to the devices that QEMU opens.

Everything on the way has a hand in it: mutation and the rules, what KubeVirt fills in, the rules
for the instance, the choice and the answer of the device plugin, and virt-launcher as it is
simulated.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kapilite.patches import patch
from laneway.admission.vms import limits
from laneway.admission.vms.aliases import renamed
from laneway.api import decode
from laneway.core.device_plugin.allocate import Denied, answer
from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.device_plugin.preference import prefer
from laneway.core.pci import PciAddress
from laneway.kube.kubevirt import Devices
from laneway.simcluster.kubevirt.launcher import device_paths
from support.examples import many

VENDOR, MEDIATED, MIXED = (f"nvidia.com/NVIDIA_A40-{size}Q" for size in (4, 8, 12))
GPU, CARD, NIC = "nvidia.com/GPU", "nvidia.com/CARD", "intel.com/NIC"
ALIKE = ("example.com/a_b", "example_com/A.B")
NODE = "n1.example.com"
"""libvirt accepts no device that is called after it."""
CONTROLLER = "system:serviceaccount:kubevirt:kubevirt-controller"


@pytest.fixture
def full(cluster: Any) -> Any:
    """A node with devices of every kind, and one whose driver makes other vGPUs of a profile."""
    cluster.kubevirt("kubevirt")
    for number in range(3):
        cluster.vgpu(NODE, f"0000:04:00.{number}", "NVIDIA A40-4Q")
        cluster.vgpu(NODE, f"0000:05:00.{number}", "NVIDIA A40-8Q", framework="mdev")
        cluster.vgpu(NODE, f"0000:06:00.{number}", "NVIDIA A40-12Q")
        cluster.vgpu("n2", f"0000:06:00.{number}", "NVIDIA A40-12Q", framework="mdev")
        cluster.pci(NODE, f"0000:0{number + 1}:00.0", GPU)
        cluster.pci(NODE, "0000:07:00.0", NIC)
    for bus in ("0a", "0b"):  # two functions of one name in a group
        for number in range(2):
            cluster.pci(NODE, f"0000:{bus}:00.{number}", CARD, group=bus)
    for number, resource in enumerate(ALIKE):
        cluster.pci(NODE, f"0000:0{number + 8}:00.0", resource)
    cluster.usb(NODE, 11)
    return cluster


def resources(cluster: Any) -> list[str]:
    (usb,) = cluster.world.usb_devices
    return [VENDOR, MEDIATED, MIXED, GPU, CARD, NIC, *ALIKE, usb.status.resource_name]


flags = st.none() | st.booleans()
displays = st.builds(
    lambda shown, ramfb: {
        **({} if shown is None else {"enabled": shown}),
        **({} if ramfb is None else {"ramFB": {"enabled": ramfb}}),
    },
    flags,
    flags,
)
options = st.none() | st.just({}) | displays.map(lambda one: {"display": one})
entries = st.lists(
    st.tuples(st.integers(0, 8), st.booleans(), options, st.booleans()), min_size=1, max_size=5
)
"""Which resource, whether in gpus, with which options there, and whether a device is named."""


def written(cluster: Any, drawn: Any) -> dict[str, list[dict[str, Any]]]:
    known = resources(cluster)
    lists: dict[str, list[dict[str, Any]]] = {"hostDevices": [], "gpus": []}
    named = set()
    for number, (which, in_gpus, said, is_named) in enumerate(drawn):
        resource, name = known[which], f"d{number}"
        if is_named:
            there = [*cluster.world.claims, *cluster.world.vgpus]
            names = [
                one.metadata.name
                for one in there
                if one.status.resource_name == resource and one.metadata.name not in named
            ]
            name = names[0] if names else name
            named.add(name)
        entry: dict[str, Any] = {"name": name, "deviceName": resource}
        if in_gpus and said is not None:
            entry["virtualGPUOptions"] = said
        lists["gpus" if in_gpus else "hostDevices"].append(entry)
    return lists


def offers(cluster: Any, node: str) -> Iterator[Offer]:
    """What the agent of a node has its device plugins say."""
    world = cluster.world
    for claim in world.claims:
        if claim.spec.node_name == node:
            device = world.pci_devices.get(claim.metadata.name)
            group = device.status.iommu_group
            yield Offer(
                resource=claim.status.resource_name,
                id=claim.spec.address,
                form=Form.PCI,
                kind="PCIDevice",
                name=claim.metadata.name,
                address=PciAddress.parse(claim.spec.address),
                group=int(group, 16) if group else hash(claim.spec.address),
            )
    for number, vgpu in enumerate(world.vgpus):
        if vgpu.spec.node_name == node and vgpu.status.framework == "mdev":
            yield Offer(
                resource=vgpu.status.resource_name,
                id=f"c1b3f5e2-0f3c-4a55-8f6e-{number:012}",
                form=Form.MDEV,
                kind="VGPUDevice",
                name=vgpu.metadata.name,
            )
    for usb in world.usb_devices:
        if usb.status.node_name == node:
            yield Offer(
                resource=usb.status.resource_name,
                id=usb.metadata.name,
                form=Form.USB,
                kind="USBDevice",
                name=usb.metadata.name,
                usb=(3, 11),
            )


def environment(cluster: Any, node: str, devices: Devices) -> dict[str, str] | None:
    """What the container has; None where the scheduler does not put the pod."""
    found: dict[str, str] = {}
    offered = [*offers(cluster, node)]
    for resource in sorted({one.device_name for one in devices.all}):
        of_it = {one.id: one for one in offered if one.resource == resource}
        count = sum(one.device_name == resource for one in devices.all)
        if len(of_it) < count:
            return None
        chosen = prefer(of_it, sorted(of_it), (), count)
        reported = answer(resource, of_it, [chosen])
        assert not isinstance(reported, Denied), reported
        found |= reported[0].environment
    return found


def instance(raw: Mapping[str, Any], lists: Mapping[str, Any]) -> dict[str, Any]:
    spec = copy.deepcopy(raw["spec"]["template"]["spec"])
    spec["domain"]["devices"] = lists
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "name": "vm",
        "uid": "1",
        "controller": True,
    }
    return {
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "default", "ownerReferences": [owner]},
        "spec": spec,
    }


def started(cluster: Any, raw: Mapping[str, Any], filling: Mapping[str, Any]) -> bool:
    """Whether the instance was allowed; it has its devices then, wherever there is room."""
    lists = copy.deepcopy(raw["spec"]["template"]["spec"]["domain"]["devices"])
    for part, added in filling.get("instancetype", {}).items():
        if lists.get(part):
            return False  # KubeVirt finds the conflict when the VM is written.
        lists[part] = added
    preferred = filling.get("preference")
    for entry in lists.get("gpus", ()) if preferred else ():
        entry.setdefault("virtualGPUOptions", preferred)
    if list(limits.displays(decode(Devices, lists).gpus)):
        return False  # So does KubeVirt itself.
    cluster.there({**raw, "metadata": {**raw["metadata"], "uid": "1"}})
    made = instance(raw, lists)
    made = patch.apply(patch.JSON, made, [dict(one) for one in renamed(made)])
    lists = made["spec"]["domain"]["devices"]
    verdict = cluster.judge(made, user=CONTROLLER)
    if not verdict.allowed:
        assert all(one.words for one in verdict.refusals)
        return False
    devices = decode(Devices, lists)
    for node in (NODE, "n2"):
        given = environment(cluster, node, devices)
        if given is not None:
            paths = device_paths(given, devices)
            assert len(paths) == len(devices.all)
    return True


fillings = st.just({}) | st.one_of(
    st.sampled_from([VENDOR, MEDIATED, MIXED, GPU]).flatmap(
        lambda resource: st.sampled_from(["gpus", "hostDevices"]).map(
            lambda part: {
                "instancetype": {part: [{"name": "filled", "deviceName": resource}]},
            }
        )
    ),
    displays.map(lambda one: {"preference": {"display": one}}),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=many(150),
)
@given(entries, st.none() | entries, fillings)
def test_an_accepted_vm_starts(full: Any, first: Any, then: Any, filling: Any) -> None:
    """As it is made, as it is edited, and as either file is applied once more."""
    full.granted = {("pcideviceclaims", ""), ("usbdeviceclaims", "")}
    stored = None
    for drawn in (first, first, *(() if then is None else (then, then))):
        lists = written(full, drawn)
        raw = full.vm(name="vm") if stored is None else copy.deepcopy(stored)
        for part in ("instancetype", "preference"):
            if part in filling:
                raw["spec"][part] = {"name": "some"}
        devices = raw["spec"]["template"]["spec"]["domain"]["devices"]
        # kubectl writes the lists that a file has, and leaves the others as they are stored.
        devices |= {part: found for part, found in lists.items() if found}
        after = full.mutated(raw, stored)
        verdict = full.judge(after, stored)
        if not verdict.allowed:
            assert all(one.words for one in verdict.refusals)
            return
        started(full, after, filling)
        stored = after


def test_the_example_of_harvesters_documentation_starts(full: Any) -> None:
    """Two vGPUs, of which the second says that it has no ramFB."""
    off = {"display": {"ramFB": {"enabled": False}}}
    for resource in (VENDOR, MEDIATED, MIXED):
        one, two = ({"name": name, "deviceName": resource} for name in ("gpu1", "gpu2"))
        after = full.mutated(full.vm(gpus=[one, two | {"virtualGPUOptions": off}]))
        assert full.judge(after).allowed
        assert started(full, after, {})
