"""Each thing that is asked of the kernel command line: whether it runs, and will after a reboot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from laneway.core.preparation.arguments import BLACKLIST, iommu_off
from laneway.core.preparation.configured import Configured, Conflict
from laneway.core.preparation.facts import BootFacts
from laneway.core.preparation.requirements import Requirement
from laneway.core.preparation.wanted import HugePages, Wanted
from laneway.core.refusals import KernelArgumentConflict, Refusal, RequirementImpossible

ACPI_TABLES = "/sys/firmware/acpi/tables"
_INTEL, _AMD = "GenuineIntel", "AuthenticAMD"
_INTEL_WORD = "intel_iommu=on"
_OWN_MEMORY = 2048
"""MiB that are never set aside, nor is a tenth of all."""
_FIRMWARE = {
    _INTEL: "Enable VT-d in the firmware",
    _AMD: "Enable the IOMMU (AMD-Vi) in the firmware",
}


class Judged(NamedTuple):
    """One requirement, and the words that the next boot must have for it."""

    requirement: Requirement
    group: str = ""
    """Words that belong together, see `arguments.lacks`; empty where none is needed."""
    refusal: Refusal | None = None


def judge(wanted: Wanted, facts: BootFacts, boot: Configured) -> Iterator[Judged]:
    """All that is asked of the command line, in the order of `Wanted`."""
    if wanted.iommu:
        yield _iommu(facts, boot)
    if wanted.iommu_passthrough:
        word = "iommu=pt" if facts.processor in (_INTEL, _AMD) else "iommu.passthrough=1"
        yield _word("IommuPassthrough", word, boot)
    for driver in wanted.blocked_drivers:
        yield _driver(driver, facts, boot)
    total = sum(pages.memory for pages in wanted.huge_pages)
    for pages in wanted.huge_pages:
        yield _too_much(pages, total, facts) or _huge_pages(pages, facts, boot)
    for word in wanted.kernel_arguments:
        yield _word(f"KernelArgument/{word}", word, boot)


def _impossible(name: str, why: str) -> Judged:
    return Judged(Requirement(name, "Impossible", why), refusal=RequirementImpossible(name, why))


def _conflict(name: str, wanted: str, found: Conflict) -> Judged:
    refusal = KernelArgumentConflict(wanted, found.word, found.place)
    return Judged(Requirement(name, "Impossible", refusal.words), refusal=refusal)


def _word(name: str, group: str, boot: Configured) -> Judged:
    """Words whose effect nothing but the running command line tells."""
    if found := boot.conflict(group):
        return _conflict(name, group, found)
    return _staged(name, group, boot, runs=boot.runs(group))


def _staged(name: str, group: str, boot: Configured, *, runs: bool) -> Judged:
    if boot.will_run(group) or (boot.loader is None and runs):
        if runs:
            return Judged(Requirement(name, "Met", f"the kernel runs with {group}"), group)
        later = f"{group} is written, and takes effect at the next boot"
        return Judged(Requirement(name, "RebootNeeded", later), group)
    now = ", which the kernel runs with now," if boot.runs(group) else ""
    missing = f"{group}{now} is missing for the next boot"
    return Judged(Requirement(name, "Missing", missing), group)


def _iommu(facts: BootFacts, boot: Configured) -> Judged:
    name = "Iommu"
    on = facts.iommu_groups > 0
    if (found := boot.iommu_off()) is not None:
        return _conflict(name, "The IOMMU", found)
    # Some kernels use it unasked. A kernel that runs with the word may need it.
    word = _INTEL_WORD if _has_vtd(facts) and (not on or boot.runs(_INTEL_WORD)) else ""
    if on:
        if word and not boot.will_run(word) and boot.loader is not None:
            return _staged(name, word, boot, runs=True)
        met = f"the IOMMU is on: {facts.iommu_groups} groups"
        return Judged(Requirement(name, "Met", met), word)
    vendor = _INTEL if _has_vtd(facts) else facts.processor
    firmware = _FIRMWARE.get(vendor, "Enable the IOMMU in the firmware")
    if not facts.iommu_tables and ACPI_TABLES not in facts.unreadable:
        return _impossible(name, f"the firmware offers no IOMMU. {firmware}.")
    if was_off := iommu_off(boot.running):
        if not word or boot.will_run(word):
            later = f"the kernel runs with {was_off}, and does not at the next boot"
            return Judged(Requirement(name, "RebootNeeded", later), word)
    elif not word or boot.runs(word):
        return _impossible(
            name,
            f"the kernel does not use the IOMMU that the firmware offers. {firmware}, and see what "
            "the kernel says: dmesg | grep -iE 'dmar|iommu|amd-vi'",
        )
    return _staged(name, word, boot, runs=False)


def _has_vtd(facts: BootFacts) -> bool:
    """Whether the IOMMU is Intel's; other vendors build it as well, and its table tells."""
    return "DMAR" in facts.iommu_tables or (not facts.iommu_tables and facts.processor == _INTEL)


def _driver(driver: str, facts: BootFacts, boot: Configured) -> Judged:
    name = f"BlockedDriver/{driver}"
    group = f"{BLACKLIST}={driver}"
    if why := facts.needed.get(driver):
        return _impossible(name, why)
    state = facts.modules.get(driver, "missing")
    if state == "missing":
        return Judged(Requirement(name, "Met", f"the kernel has no {driver}"))
    if state == "built in":
        return _impossible(
            name, f"{driver} is built into the kernel. Boot a kernel that has it as a module."
        )
    loaded = state == "loaded"
    if not loaded and driver.replace("-", "_") in facts.blocked and not _is_ours(group, boot):
        return Judged(Requirement(name, "Met", f"a file of modprobe.d keeps {driver} from loading"))
    judged = _staged(name, group, boot, runs=boot.runs(group))
    if loaded and judged.requirement.state == "Met":
        return _impossible(
            name, f"{driver} is loaded although {group} blocks it: something loads it by its name."
        )
    return judged


def _is_ours(group: str, boot: Configured) -> bool:
    return any(group in entry.ours for entry in boot.entries)


def _too_much(pages: HugePages, total: int, facts: BootFacts) -> Judged | None:
    """A host without memory of its own does not come up."""
    own = max(facts.memory // 10, _OWN_MEMORY)
    if not facts.memory or total + own <= facts.memory:
        return None
    return _impossible(
        f"HugePages/{pages.size}",
        f"{total} MiB of huge pages leave less than {own} of {facts.memory} MiB to the host itself."
        " Request fewer.",
    )


def _huge_pages(pages: HugePages, facts: BootFacts, boot: Configured) -> Judged:
    name = f"HugePages/{pages.size}"
    group = f"hugepagesz={pages.size} hugepages={pages.count}"
    if facts.huge_pages and pages.size not in facts.huge_pages:
        sizes = ", ".join(facts.huge_pages)
        return _impossible(name, f"the processor has no pages of {pages.size}, only {sizes}.")
    if found := boot.conflict(group):
        return _conflict(name, group, found)
    there = facts.huge_pages.get(pages.size, 0)
    if there < pages.count and boot.runs(group) and boot.will_run(group):
        return _impossible(
            name,
            f"the kernel could set aside {there} of {pages.count} pages of {pages.size}. Request "
            "fewer, or add memory.",
        )
    return _staged(name, group, boot, runs=there >= pages.count)
