"""What keeps devices that are ready from reaching virtual machines, or takes them from Laneway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from laneway.core.doctor.finding import Finding, advice, ok, problem
from laneway.core.doctor.node_facts import NodeFacts
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciFunction

VFIO_NODES = "/dev/vfio"

_OTHER_PLUGINS = {
    "nvidia-gpu.sock": "NVIDIA's device plugin for containers",
    "nvidia-kata": "NVIDIA's sandbox device plugin",
    "kubevirt-gpu": "NVIDIA's GPU device plugin for KubeVirt",
    "intel.com": "Intel's device plugin",
    "gpu.intel.com": "Intel's device plugin for containers",
    "amd.com": "AMD's device plugin for containers",
    "sriov": "the SR-IOV network device plugin",
}
"""By the beginning of the socket's name."""
OTHER_PROGRAMS = {
    "pcidevices": "Harvester's PCI devices controller",
    "nvidia-mig-manager": "NVIDIA's MIG manager",
    "nvidia-vgpu-dm": "NVIDIA's vGPU device manager",
    "nvidia-kubevirt-gpu-device-plugin": "NVIDIA's GPU device plugin for KubeVirt",
}
"""Programs that change or allocate the same devices."""
CLIENTS = {
    "nv-hostengine": "NVIDIA's DCGM",
    "dcgm-exporter": "the exporter of NVIDIA's DCGM",
    "nvidia-persistenced": "NVIDIA's persistence daemon",
}
"""Programs that keep GPUs open."""


def judge(facts: NodeFacts) -> Iterator[Finding]:
    """Kubelet, devices on vfio-pci, other programs, and what could not be seen."""
    yield _kubelet(facts)
    yield from _on_vfio(facts)
    yield from _others(facts)
    yield from _unseen(facts)


def _kubelet(facts: NodeFacts) -> Finding:
    match facts.kubelet_state:
        case "none":
            return advice(
                "Kubelet",
                f"no kubelet at {facts.kubelet}",
                why="The node's kubelet allocates devices to the VMs of a cluster.",
                remedy=(
                    "On a node of a cluster: laneway doctor node --kubelet-dir DIR, and the same "
                    "for the agent. On a host without a cluster: nothing."
                ),
            )
        case "no folder":
            return problem(
                "Kubelet",
                f"{facts.kubelet} has no folder device-plugins",
                why="Laneway registers its device plugins there.",
                remedy="Check that the kubelet runs: systemctl status kubelet (rke2, k3s).",
            )
        case "no socket":
            return problem(
                "Kubelet",
                f"{facts.kubelet}/device-plugins has no kubelet.sock",
                why="Laneway registers its device plugins there.",
                remedy="Check that the kubelet runs: systemctl status kubelet (rke2, k3s).",
            )
        case "ready":
            return ok("Kubelet", f"the kubelet at {facts.kubelet} accepts device plugins")
        case _:
            assert_never(facts.kubelet_state)


def _on_vfio(facts: NodeFacts) -> Iterator[Finding]:
    there = [one for one in facts.inventory.functions if one.driver == VFIO_DRIVER]
    lost = [one for one in there if _has_no_node(one, facts)]
    if lost and VFIO_NODES not in facts.hidden:
        yield problem(
            "VfioNodes",
            f"{_addresses(lost)} on vfio-pci without a node /dev/vfio/GROUP",
            why="A VM with such a device does not start.",
            remedy=(
                "In a container: mount the node's /dev. On the node: udevadm trigger; see the "
                "kernel log."
            ),
        )
    if facts.taken is None:
        return
    others = [one for one in there if str(one.address) not in facts.taken]
    if not others:
        return
    at_boot = any(word.startswith("vfio-pci.ids=") for word in facts.arguments)
    who = "the kernel command line (vfio-pci.ids=)" if at_boot else "another program"
    yield advice(
        "OnVfio",
        f"{_addresses(others)} on vfio-pci, by {who} and not by Laneway",
        why="Laneway leaves it there until a claim requests it; the node itself cannot use it.",
        remedy=(
            "If a PCIDeviceClaim names it: nothing, the claim adopts it. Else claim it, or release "
            f"it: laneway host release {others[0].address}"
        ),
    )


def _has_no_node(one: PciFunction, facts: NodeFacts) -> bool:
    return one.iommu_group is not None and str(one.iommu_group) not in facts.vfio_nodes


def _addresses(functions: list[PciFunction]) -> str:
    return ", ".join(str(one.address) for one in functions) + (
        " is" if len(functions) == 1 else " are"
    )


def _others(facts: NodeFacts) -> Iterator[Finding]:
    for name in facts.plugin_sockets:
        who = next((who for start, who in _OTHER_PLUGINS.items() if name.startswith(start)), "")
        if who:
            yield advice(
                "OtherPlugins",
                f"{who} also registers with the kubelet ({name})",
                why="Two device plugins that advertise one device allocate it twice.",
                remedy=(
                    "Where Laneway's chart deployed it: nothing, it runs only while every GPU that "
                    "it sees serves containers. Else keep it off the GPUs for VMs: exclude this "
                    "node from its DaemonSet, or have it advertise other devices."
                ),
            )
    for name, count in sorted(facts.programs.items()):
        if who := OTHER_PROGRAMS.get(name, ""):
            yield problem(
                "OtherControllers",
                f"{who} runs on this node ({name}, {count} {_processes(count)})",
                why="Two controllers undo each other's work on the same devices.",
                remedy=(
                    "Exclude this node from it. To see what it manages: laneway doctor cluster. "
                    "To take over Harvester's controller: laneway takeover"
                ),
            )
        elif who := CLIENTS.get(name, ""):
            yield advice(
                "GpuClients",
                f"{who} keeps GPUs open ({name}, {count} {_processes(count)})",
                why=(
                    "An open GPU cannot change its mode, get virtual functions, or be passed to a "
                    "VM."
                ),
                remedy="Stop it while GPUs are configured, or exclude this node from it.",
            )


def _processes(count: int) -> str:
    return "process" if count == 1 else "processes"


def _unseen(facts: NodeFacts) -> Iterator[Finding]:
    if facts.visibility_error:
        yield advice(
            "Rights",
            f"not all processes could be seen: {facts.visibility_error}",
            why="Laneway changes no device while its holders are unknown.",
            remedy="Run as root in the node's own PID namespace.",
        )
    if facts.hidden:
        yield advice(
            "Rights",
            f"not readable without root: {', '.join(facts.hidden)}",
            why="The findings about it are missing here.",
            remedy="Run as root: sudo laneway doctor node",
        )
