"""Drivers that are loaded at every boot, by a file of Laneway's own."""

from __future__ import annotations

from typing import NamedTuple

from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.plan import LoadModule, Step, WriteConfiguration
from laneway.core.preparation.facts import BootFacts
from laneway.core.preparation.loaders.elemental import STAGE
from laneway.core.preparation.loaders.loader import ABOUT
from laneway.core.preparation.requirements import Requirement
from laneway.core.preparation.wanted import Wanted

MODULES = ("vfio", "vfio_iommu_type1", "vfio_pci")
LOADED_AT_BOOT = "/etc/modules-load.d/laneway.conf"
OWN_FILES = (LOADED_AT_BOOT, STAGE)
"""All that is written here: a closed table."""


class Change(NamedTuple):
    """What is to be done for drivers at boot."""

    requirement: Requirement | None
    """None where nothing is requested."""
    steps: tuple[Step, ...]


def judge_modules(wanted: Wanted, facts: BootFacts) -> Change:
    """Whether the drivers are there and will be, and the steps that are missing."""
    path = STAGE if facts.loader.name == "elemental" else LOADED_AT_BOOT
    state = facts.modules.get(VFIO_DRIVER, "missing")
    needed = wanted.vfio_at_boot and state != "built in"
    after = _content(path) if needed else None
    before = facts.files.get(path)
    steps: list[Step] = []
    if needed and state == "loadable":
        steps.append(LoadModule(VFIO_DRIVER))
    if before != after:
        steps.append(WriteConfiguration(path, before, after))
    return Change(
        _requirement(state, facts, path, steps) if wanted.vfio_at_boot else None, tuple(steps)
    )


def _requirement(state: str, facts: BootFacts, path: str, steps: list[Step]) -> Requirement:
    name = "VfioModules"
    if state == "missing":
        why = (
            f"the kernel {facts.kernel or 'that runs'} has no {VFIO_DRIVER}. Install the package "
            "with the modules of this kernel (Ubuntu: linux-modules-extra-$(uname -r))."
        )
        return Requirement(name, "Impossible", why)
    if state == "built in":
        return Requirement(name, "Met", f"{VFIO_DRIVER} is built into the kernel")
    if steps:
        return Requirement(name, "Missing", f"{path} does not load {VFIO_DRIVER} at boot yet")
    return Requirement(name, "Met", f"{VFIO_DRIVER} is loaded, and {path} loads it at boot")


def _content(path: str) -> str:
    if path == STAGE:
        lines = [
            ABOUT.rstrip("\n"),
            'name: "Laneway: drivers that pass devices to VMs"',
            "stages:",
            "  boot:",
            f'    - name: "{VFIO_DRIVER}"',
            "      commands:",
            f"        - modprobe -a {' '.join(MODULES)}",
        ]
    else:
        lines = [ABOUT.rstrip("\n"), *MODULES]
    return "".join(f"{line}\n" for line in lines)
