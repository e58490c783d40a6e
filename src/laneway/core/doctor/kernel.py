"""What the kernel and the firmware must give before any device can reach a virtual machine."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.core.doctor.finding import PREPARE, Finding, advice, ok, problem
from laneway.core.doctor.node_facts import NodeFacts
from laneway.core.passthrough.usability import VFIO_DRIVER, Reason, ReasonKind, remedy
from laneway.core.preparation.arguments import iommu_off

_INTEL = "GenuineIntel"
_PARTS = ("vfio", "vfio_iommu_type1")
"""What vfio-pci works with."""
_CONTAINER = "vfio"
"""The node of `/dev/vfio` through which groups are opened."""


def judge(facts: NodeFacts) -> Iterator[Finding]:
    """IOMMU, interrupts, VFIO, the kernel's log."""
    yield _iommu(facts)
    yield from _remapping(facts)
    yield _vfio(facts)
    yield _kernel_log(facts)


def _iommu(facts: NodeFacts) -> Finding:
    if facts.iommu_groups:
        return ok("Iommu", f"the IOMMU is on: {facts.iommu_groups} groups")
    why = "Without it no device can be isolated, so VMs cannot use any."
    off = [word for word in facts.arguments if iommu_off([word])]
    if off:
        return problem(
            "Iommu",
            f"the IOMMU is off: the kernel command line has {' '.join(off)}",
            why=why,
            remedy=(
                f"Remove {' '.join(off)} from the kernel command line, then run: {PREPARE}. Reboot "
                "the node."
            ),
        )
    if facts.iommu_tables and facts.processor == _INTEL:
        return problem(
            "Iommu",
            "the IOMMU is off: the firmware offers it, and the kernel does not use it",
            why=why,
            remedy=(
                f"Add intel_iommu=on to the kernel command line with: {PREPARE}. Reboot the node."
            ),
        )
    return problem(
        "Iommu",
        "the IOMMU is off: there are no IOMMU groups",
        why=why,
        remedy=remedy(Reason(kind=ReasonKind.NO_IOMMU_GROUP)),
    )


def _remapping(facts: NodeFacts) -> Iterator[Finding]:
    why = (
        "Without interrupt remapping VFIO refuses to open devices, because a guest could raise any "
        "interrupt of the node."
    )
    if facts.unsafe_interrupts:
        yield advice(
            "InterruptRemapping",
            "VFIO works without interrupt remapping (allow_unsafe_interrupts)",
            why="A guest with a device can raise any interrupt of the node.",
            remedy=(
                "Enable interrupt remapping (x2APIC) in the firmware, and remove "
                "vfio_iommu_type1.allow_unsafe_interrupts from the kernel command line and from "
                "/etc/modprobe.d."
            ),
        )
    elif facts.remapping is False and facts.iommu_groups:
        yield problem(
            "InterruptRemapping",
            "interrupts are not remapped",
            why=why,
            remedy=(
                "Enable interrupt remapping (x2APIC) in the firmware, and remove nointremap and "
                "intremap=off from the kernel command line. Reboot the node."
            ),
        )
    elif facts.remapping:
        yield ok("InterruptRemapping", "interrupts are remapped")


def _vfio(facts: NodeFacts) -> Finding:
    driver = facts.modules.get(VFIO_DRIVER, "missing")
    missing = [VFIO_DRIVER] if driver == "missing" else []
    if driver in ("loaded", "built in"):
        # What it needs is judged only now: a module that can be loaded brings that along.
        missing = [name for name in _PARTS if facts.modules.get(name) == "missing"]
    if missing:
        return problem(
            "VfioModules",
            f"the kernel {facts.kernel or 'that runs'} has no {', '.join(missing)}",
            why="These drivers pass devices to VMs.",
            remedy=(
                "Install the package with the modules of this kernel (Ubuntu: "
                "linux-modules-extra-$(uname -r)), or boot a kernel that has them "
                "(CONFIG_VFIO_PCI)."
            ),
        )
    if driver == "loadable":
        return ok("VfioModules", f"{VFIO_DRIVER} can be loaded, which Laneway does when needed")
    if _CONTAINER not in facts.vfio_nodes:
        return problem(
            "VfioModules",
            "vfio is loaded, and /dev/vfio/vfio is missing",
            why="VMs open their devices through it.",
            remedy=(
                "On the node: modprobe vfio && ls -l /dev/vfio. In a container: mount the node's "
                "/dev."
            ),
        )
    return ok("VfioModules", f"{VFIO_DRIVER} is {driver}")


def _kernel_log(facts: NodeFacts) -> Finding:
    if not facts.kernel_log:
        return ok("KernelLog", "the kernel's log can be read")
    return advice(
        "KernelLog",
        f"the kernel's log cannot be read: {facts.kernel_log}",
        why="Laneway reads failures of GPUs (Xid) and of resets from it.",
        remedy="Run as root; in a container: mount /dev/kmsg. Check kernel.dmesg_restrict.",
    )
