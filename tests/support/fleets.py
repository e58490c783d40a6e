"""Simulated servers of every model in any state, and what their agents would offer of them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable

from hypothesis import strategies as st

from laneway.core.device_plugin.device_list import ClaimedFunction, DesiredDevices, offers
from laneway.core.device_plugin.health import Facts, judged
from laneway.core.device_plugin.offer import Offer
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.models import MODELS
from laneway.sim.spec import build, parse_spec

PCI = "/sys/bus/pci/devices"
MANAGE, SMI = "/usr/lib/nvidia/sriov-manage", "nvidia-smi"
_MIG = ("19", "14", "9", "5", "47", "35", "32")
"""Profiles of GPU instances, of different GPUs."""

Step = tuple[str, int, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pass", "pass group", "pass all", "vfs", "vgpu", "vgpus", "mig"]),
        st.integers(0, 999),
        st.integers(0, 999),
    ),
    max_size=12,
)
FLEETS = st.tuples(st.sampled_from(sorted(MODELS)), STEPS)


def server(model: str, steps: Iterable[Step]) -> SimulatedHost:
    """A server after these steps, as far as its kernel takes them."""
    host = build(parse_spec(model), "node1")
    for step in steps:
        with contextlib.suppress(OSError):
            _change(host, step)
    return host


def _change(host: SimulatedHost, step: Step) -> None:
    what, which, detail = step
    inventory = scan(host)
    functions = [one for one in inventory.functions if one.class_code[:2] != "06"]
    parents = [one for one in functions if one.total_vfs]
    parent = parents[which % len(parents)]
    match what:
        case "pass":
            _to_vfio(host, str(functions[which % len(functions)].address))
        case "pass group":
            group = functions[which % len(functions)].iommu_group
            for one in functions:
                if one.iommu_group == group:
                    _to_vfio(host, str(one.address))
        case "pass all":
            for vf in parent.vfs:
                _to_vfio(host, str(vf))
        case "vfs" if not parent.sriov_gpu:
            number = detail % ((parent.total_vfs or 0) + 1)
            host.write(f"{PCI}/{parent.address}/sriov_numvfs", "0")
            host.write(f"{PCI}/{parent.address}/sriov_numvfs", str(number))
        case _:
            _change_gpu(host, step, inventory)


def _change_gpu(host: SimulatedHost, step: Step, inventory: Inventory) -> None:
    what, which, detail = step
    gpus = [str(one.address) for one in inventory.functions if one.sriov_gpu]
    gpu = gpus[which % len(gpus)] if gpus else ""
    vgpus = inventory.vgpus
    match what:
        case "vfs" if gpu:
            host.call([MANAGE, "-d" if detail % 4 == 0 else "-e", gpu])
        case "mig" if gpu:
            instances = f"{_MIG[detail % len(_MIG)]},{_MIG[which % len(_MIG)]}"
            host.call([MANAGE, "-d", gpu])
            host.call([SMI, "-i", gpu, "-mig", "1"])
            host.call([MANAGE, "-e", gpu])
            host.call([SMI, "mig", "-i", gpu, "-cgi", instances, "-C"])
        case "vgpu" if vgpus:
            _make_vgpu(host, vgpus[which % len(vgpus)], detail)
        case "vgpus":
            for one in vgpus:
                with contextlib.suppress(OSError):
                    _make_vgpu(host, one, detail)


def _to_vfio(host: SimulatedHost, address: str) -> None:
    host.write(f"{PCI}/{address}/driver_override", "vfio-pci")
    with contextlib.suppress(OSError):
        host.write(f"{PCI}/{address}/driver/unbind", address)
    host.write("/sys/bus/pci/drivers_probe", address)


def _make_vgpu(host: SimulatedHost, vgpu: VgpuFunction, detail: int) -> None:
    if not vgpu.creatable:
        return
    kind = vgpu.creatable[detail % len(vgpu.creatable)].id
    folder = f"{PCI}/{vgpu.address}"
    if vgpu.framework == "mdev":
        name = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{vgpu.address} {detail}"))
        host.write(f"{folder}/mdev_supported_types/{kind}/create", name)
    else:
        host.write(f"{folder}/nvidia/current_vgpu_type", kind)


def offered(host: SimulatedHost) -> tuple[Inventory, tuple[Offer, ...]]:
    """All that is ready on a server whose every device is claimed, and what is wrong with it."""
    inventory = scan(host)
    carried = {
        one.address: one.configured.type_name
        for one in inventory.vgpus
        if one.configured is not None and one.configured.type_name
    }
    desired = DesiredDevices(
        functions=tuple(
            ClaimedFunction(address=one.address, skip_binding=one.address in carried)
            for one in inventory.functions
        ),
        profiles=carried,
    )
    found = offers(inventory, "node1", desired)
    return inventory, judged(found.offered, inventory, Facts(owners={}))
