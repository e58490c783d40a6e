"""What stands against cards being passed through or shared, as far as the node reports it.

Of single devices only those are reported that are usually passed to VMs: GPUs, and cards with
virtual functions. `laneway devices` and `laneway explain` report any other, by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from laneway.core import ids
from laneway.core.doctor.finding import PREPARE, Finding, advice, ok, problem
from laneway.core.doctor.node_facts import NodeFacts
from laneway.core.gpu.vendors import gpu_of
from laneway.core.inventory import Inventory
from laneway.core.passthrough.usability import Reason, ReasonKind, judge_all, remedy, text
from laneway.core.pci import NVIDIA, PciFunction
from laneway.core.phrases import few
from laneway.core.sriov.vfs import NVIDIA_DRIVER
from laneway.core.vgpu.offer import sriov_off

_NOUVEAU = {"nouveau": "nouveau", "NovaCore": "nova_core", "nova_core": "nova_core"}
"""Drivers of the kernel's own that take NVIDIA's cards, with the modules that they are in."""
_GROUP = (ReasonKind.GROUP_CRITICAL, ReasonKind.GROUP_IN_USE)
_FRAMEWORKS = {"mdev": "mediated devices", "vendor-vfio": "NVIDIA's own VFIO driver"}
_FIRST_VFS = 7
"""So many virtual functions have numbers next to function 0 without ARI."""
_LAST_OWN = 6
"""The last line of `resource` that is the function's own, its ROM; those of its VFs follow."""
_HUGE = 16 << 30
"""Bytes of a range from which on mapping all memory of a guest page by page is felt."""


def judge(facts: NodeFacts) -> Iterator[Finding]:
    """Drivers, firmware, groups, frameworks, memory."""
    if not facts.inventory.functions:
        yield problem(
            "PciDevices",
            "no PCI device can be read",
            why="VMs then get no device.",
            remedy="Run this on the node itself; in a container: mount the node's /sys.",
        )
        return
    yield from _toolkit(facts)
    yield from _drivers(facts)
    yield from _firmware(facts)
    yield from _groups(facts.inventory)
    yield from _frameworks(facts.inventory)
    yield from _huge_pages(facts)
    for error in facts.inventory.errors:
        yield advice(
            "Unreadable",
            f"{error.device}: {error.message}",
            why="Laneway does not change what it cannot read.",
            remedy="Read the kernel log: dmesg. A card that fell off the bus needs a reboot.",
        )
    for address, said in sorted(facts.quarantined.items()):
        yield problem(
            "Quarantine",
            f"{address} failed its reset and is in quarantine: {said}",
            why="It has no driver, and no VM gets it.",
            remedy=(
                "Reboot the node. If the device works again: laneway host quarantine --lift "
                f"{address}"
            ),
        )


def _gpus(inventory: Inventory) -> list[PciFunction]:
    """NVIDIA's GPUs as a whole."""
    return [
        one
        for one in inventory.functions
        if one.vendor == NVIDIA and one.is_gpu and one.physfn is None
    ]


def _named(function: PciFunction) -> str:
    name = ids.pci_device(function.vendor, function.device)
    return f"{function.address} ({name})" if name else str(function.address)


def _toolkit(facts: NodeFacts) -> Iterator[Finding]:
    """What the driver toolkit says, where it has run."""
    found = facts.driver
    if found is None:
        return
    text = f"{found.reason}: {found.message}"
    if found.ready:
        yield ok("DriverToolkit", found.message)
    elif found.failed:
        yield problem(
            "DriverToolkit",
            text,
            why="Without the driver, the node's GPUs carry no vGPUs.",
            remedy="See docs/how-to/driver-toolkit.md on this reason. The log of the driver pod: "
            "kubectl logs -n NAMESPACE POD",
        )
    else:
        yield advice("DriverToolkit", text)


def _drivers(facts: NodeFacts) -> Iterator[Finding]:
    gpus = _gpus(facts.inventory)
    if not gpus:
        return
    taken = [one for one in gpus if one.driver in _NOUVEAU]
    if taken:
        drivers = sorted({one.driver for one in taken})
        modules = dict.fromkeys(_NOUVEAU[one] for one in drivers)
        blocked = " ".join(f"--block-driver {module}" for module in modules)
        yield problem(
            "Nouveau",
            f"{', '.join(map(_named, taken))} on driver {few(drivers)}",
            why="While that driver is bound to a GPU, NVIDIA's driver cannot be installed or "
            "bound to it.",
            remedy=f"Run: {PREPARE} {blocked}. Reboot the node.",
        )
    version = facts.inventory.nvidia_driver
    shareable = [one for one in gpus if one.sriov_gpu or sriov_off(one)]
    on = [_named(one) for one in gpus if one.driver == NVIDIA_DRIVER]
    if not (version or on):
        if shareable and (facts.driver is None or facts.driver.ready is None):
            yield advice(
                "NvidiaDriver",
                f"NVIDIA's driver is not loaded; {', '.join(map(_named, shareable))} could be "
                "shared with it",
                why="vGPUs and MIG need NVIDIA's vGPU driver for hosts; GPUs passed to VMs as a "
                "whole need no driver.",
                remedy="Install NVIDIA's vGPU driver for hosts (the -vgpu-kvm package).",
            )
        return
    driver = f"driver {version or 'of an unknown version'}"
    yield ok("NvidiaDriver", f"{driver} has {', '.join(on) or 'no GPU'}")
    if not shareable or facts.inventory.vgpus:
        return  # Functions that can carry vGPUs are proof enough.
    if not (facts.vgpu_modules or facts.sriov_manage):
        yield advice(
            "VgpuDriver",
            f"{driver} is not the vGPU driver for hosts: the node has neither "
            "nvidia_vgpu_vfio nor sriov-manage",
            why="The plain driver is for containers; it creates no vGPUs.",
            remedy=(
                "For vGPUs, install NVIDIA's vGPU driver for hosts (the -vgpu-kvm "
                "package). If the driver is in a pod: nothing."
            ),
        )
    elif not facts.sriov_manage:
        yield advice(
            "VgpuDriver",
            "sriov-manage is not installed",
            why="Only this program creates the virtual functions of NVIDIA's GPUs.",
            remedy=("Install the whole vGPU driver for hosts. If the driver is in a pod: nothing."),
        )


def _firmware(facts: NodeFacts) -> Iterator[Finding]:
    for one in facts.inventory.functions:
        if sriov_off(one) and facts.virtual:
            yield advice(
                "SriovFirmware",
                f"{_named(one)} shows no SR-IOV, because this node is itself a VM",
                why="A VM gets a GPU without its virtual functions, so it cannot have vGPUs here.",
                remedy="For vGPUs, run Laneway on the physical host of this VM.",
            )
        elif sriov_off(one):
            yield problem(
                "SriovFirmware",
                f"{_named(one)} shows no SR-IOV, though GPUs of its model have it",
                why="Without virtual functions it cannot have vGPUs.",
                remedy=(
                    "Enable SR-IOV in the firmware of the node and of the card. On workstation "
                    "cards disable the display with NVIDIA's displaymodeselector. Reboot."
                ),
            )
        elif one.total_vfs == 0:
            yield advice(
                "SriovFirmware",
                f"{_named(one)} has SR-IOV, and its firmware allows 0 virtual functions",
                why="None can be created.",
                remedy="Enable SR-IOV in the firmware of the card. Reboot.",
            )
        elif (one.total_vfs or 0) > _FIRST_VFS and one.address in facts.no_ari:
            yield advice(
                "Ari",
                f"ARI is off for {_named(one)}, which can have {one.total_vfs} virtual functions",
                why="Those beyond the seventh need bus numbers of their own, and may be missing.",
                remedy="Enable ARI and SR-IOV in the firmware of the node. Reboot.",
            )
        if lines := facts.unassigned.get(one.address):
            of_vfs = all(line > _LAST_OWN for line in lines)
            what = "its virtual functions" if of_vfs else "it"
            yield problem(
                "MemoryRanges",
                f"{_named(one)}: the firmware has no address space for the memory of {what} "
                "(ranges "
                f"{', '.join(map(str, lines))})",
                why="A device without addresses does not work.",
                remedy=(
                    "Enable 'Above 4G Decoding' (and 'SR-IOV Support') in the firmware. If that "
                    "is not enough, add pci=realloc to the kernel command line. Reboot."
                ),
            )


def _groups(inventory: Inventory) -> Iterator[Finding]:
    judged = judge_all(inventory)
    mixed = 0
    for one in inventory.functions:
        is_gpu = one.is_gpu or gpu_of(one) is not None
        meant = (is_gpu and one.physfn is None) or one.total_vfs
        if not meant or one.address in inventory.critical:
            continue
        for reason in judged[one.address]:
            if reason.kind in _GROUP:
                mixed += 1
                yield _of_group(one, reason)
            elif reason.kind is ReasonKind.NO_RESET and is_gpu:
                yield advice(
                    "Reset",
                    f"{_named(one)}: {text(reason)}",
                    why="A VM could read what the previous VM left there.",
                    remedy=remedy(reason),
                )
    if not mixed and any(one.iommu_group is not None for one in inventory.functions):
        yield ok(
            "IommuGroups", "no GPU and no SR-IOV card shares its IOMMU group with a device in use"
        )


def _of_group(one: PciFunction, reason: Reason) -> Finding:
    return advice(
        "IommuGroups",
        f"{_named(one)}: {text(reason)}",
        why="An IOMMU group is passed to a VM as a whole.",
        remedy=remedy(reason),
    )


def _frameworks(inventory: Inventory) -> Iterator[Finding]:
    found: dict[str, list[str]] = {}
    for gpu in _gpus(inventory):
        carriers = inventory.vgpus_of(gpu.address)
        for framework in sorted({_FRAMEWORKS[one.framework] for one in carriers}):
            found.setdefault(framework, []).append(_named(gpu))
        if gpu.vfs and not carriers and gpu.driver == NVIDIA_DRIVER:
            yield problem(
                "Framework",
                f"{_named(gpu)} has {len(gpu.vfs)} virtual functions, and none can have a vGPU",
                why="The driver offers vGPUs on them neither as mediated devices nor through its "
                "own VFIO driver.",
                remedy=(
                    "Install a release of NVIDIA's vGPU driver for hosts that fits the kernel, "
                    "and check that nvidia-vgpud and nvidia-vgpu-mgr run."
                ),
            )
    for framework, gpus in found.items():
        yield ok("Framework", f"vGPUs by {framework} on {', '.join(gpus)}")


def _huge_pages(facts: NodeFacts) -> Iterator[Finding]:
    large = [
        one
        for one in _gpus(facts.inventory)
        if one.driver != NVIDIA_DRIVER and any(bar.size >= _HUGE for bar in one.bars)
    ]
    if large and facts.huge_pages == 0:
        yield advice(
            "HugePages",
            f"the node reserves no huge pages, and {len(large)} GPUs with much memory are passed "
            "to VMs as a whole",
            why=(
                "All memory of such a VM is pinned page by page: with hundreds of GiB its start "
                "takes minutes."
            ),
            remedy=(
                f"Reserve huge pages: {PREPARE} --huge-pages 1G=N, and reboot the node. Request "
                "them in the VMs."
            ),
        )
