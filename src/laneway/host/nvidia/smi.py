"""The command lines of `nvidia-smi` that Laneway uses, and what its answers mean.

The program prints for people, and what it prints differs a little between releases: borders, blank
columns, more rows. So a line counts only if it has the form that is looked for, anything else is
passed over, and no text whatever makes a reader fail. GPUs are always named by their PCI address;
indexes change when a card is given to a virtual machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile
from laneway.core.pci import PciAddress
from laneway.core.programs import NVIDIA_SMI

Argv = tuple[str, ...]

NOTHING_FOUND = re.compile(r"No (?:(?:GPU|compute) instances?|MIG-\w+ devices?) found")
"""How the program says that a list is empty; it then ends with an error."""

IN_USE = 19
"""Exit code: another client uses the GPU."""

_NUMBER = re.compile(r"[0-9]{1,9}")
_SHARE = re.compile(r"[0-9]{1,9}/([0-9]{1,9})")
_NAME = re.compile(r"[1-9]g\.[0-9]{1,4}gb(?:[+-][a-z0-9.+-]{1,24})?")
_SPOT = re.compile(r"([0-9]{1,4}):([0-9]{1,4})")
_PLACEMENTS = re.compile(
    r"Profile ID\s{1,9}([0-9]{1,9})\s{1,9}Placements?\s{0,9}:\s{0,9}"
    r"\{([0-9, ]{0,200})\}\s{0,9}:\s{0,9}([0-9]{1,4})"
)
_MIG = "MIG Mode"
_MIXED = "vGPU Heterogeneous Mode"
_SWITCH = {"Enabled": True, "Disabled": False}


# --------------------------------------------------------------------------------------- questions


def _gpu(address: PciAddress, *words: str) -> Argv:
    return (NVIDIA_SMI, "-i", str(address), *words)


def _mig(address: PciAddress, *words: str) -> Argv:
    return (NVIDIA_SMI, "mig", "-i", str(address), *words)


def query_all(address: PciAddress) -> Argv:
    """Both modes in one answer: to start the program costs more than anything that it is asked."""
    return _gpu(address, "-q")


def list_profiles(address: PciAddress) -> Argv:
    return _mig(address, "-lgip")


def list_placements(address: PciAddress) -> Argv:
    return _mig(address, "-lgipp")


def list_instances(address: PciAddress) -> Argv:
    return _mig(address, "-lgi")


def list_compute_instances(address: PciAddress) -> Argv:
    return _mig(address, "-lci")


def query_instance_mixed(address: PciAddress, instance: int) -> Argv:
    return (NVIDIA_SMI, "vgpu", "-i", str(address), "-gi", str(instance), "-ghm")


# ----------------------------------------------------------------------------------------- changes


def set_mig_mode(address: PciAddress, *, enabled: bool) -> Argv:
    return _gpu(address, "-mig", "1" if enabled else "0")


def set_mixed(address: PciAddress, *, enabled: bool, instance: int | None = None) -> Argv:
    where = () if instance is None else ("-gi", str(instance))
    return (NVIDIA_SMI, "vgpu", "-i", str(address), *where, "-shm", "1" if enabled else "0")


def create_instance(address: PciAddress, profile_id: int, start: int) -> Argv:
    return _mig(address, "-cgi", f"{profile_id}:{start}")


def destroy_instance(address: PciAddress, instance: int) -> Argv:
    return _mig(address, "-dgi", "-gi", str(instance))


def create_compute_instance(address: PciAddress, instance: int) -> Argv:
    """Of the profile that takes all of the GPU instance, which is the default."""
    return _mig(address, "-cci", "-gi", str(instance))


def destroy_compute_instances(address: PciAddress, instance: int) -> Argv:
    return _mig(address, "-dci", "-gi", str(instance))


# ----------------------------------------------------------------------------------------- answers


def parse_mig_mode(text: str) -> bool | None:
    """None: the card has no MIG mode (`N/A`), or the report says nothing.

    The row below the heading counts; rows of the same name stand below other headings.
    """
    lines = iter(text.splitlines())
    if not any(line.strip() == _MIG for line in lines):
        return None
    name, _, value = next(lines, "").partition(" : ")
    return _SWITCH.get(value.strip()) if name.strip() == "Current" else None


def parse_mixed(text: str) -> bool | None:
    """None: the mode does not apply. Values count when equal: `Not Supported` ends like another."""
    return next((_SWITCH.get(value) for name, value in rows(text) if name == _MIXED), None)


def rows(text: str) -> Iterator[tuple[str, str]]:
    """The rows `name : value` of `nvidia-smi -q`."""
    for line in text.splitlines():
        name, colon, value = line.partition(" : ")
        if colon:
            yield name.strip(), value.strip()


def parse_profiles(profiles: str, placements: str) -> tuple[GpuInstanceProfile, ...]:
    """GPU instance profiles from both lists; one whose placements are not told has none."""
    spots = _placements(placements)
    found: dict[int, GpuInstanceProfile] = {}
    above: list[str] = []
    for cells in _lines(profiles):
        # copy-engines jpeg ofa, below decoders and encoders
        if len(cells) == 3 and (engines := _engines(above, cells)):
            number = int(above[3])
            found[number] = msgspec.structs.replace(found[number], engines=engines)
        above = []
        # gpu MIG name id free/total memory p2p sm dec enc
        if len(cells) < 5 or cells[1] != "MIG" or not _NAME.fullmatch(cells[2]):
            continue
        share = _SHARE.fullmatch(cells[4])
        if not _NUMBER.fullmatch(cells[3]) or share is None:
            continue
        above, number = cells, int(cells[3])
        starts, size = spots.get(number, ((), 0))
        found[number] = GpuInstanceProfile(
            name=cells[2],
            id=number,
            total=int(share[1]),
            starts=starts,
            size=size,
        )
    return tuple(found.values())


def _engines(above: list[str], below: list[str]) -> tuple[int, ...]:
    """From both lines of a profile; empty where they have another form."""
    cells = [*above[8:], *below[1:]]
    complete = len(above) == 10 and all(map(_NUMBER.fullmatch, cells))
    return tuple(map(int, cells)) if complete else ()


def _placements(text: str) -> dict[int, tuple[tuple[int, ...], int]]:
    found = {}
    for match in _PLACEMENTS.finditer(text):
        starts = (start.strip() for start in match[2].split(","))
        numbers = sorted({int(start) for start in starts if _NUMBER.fullmatch(start)})
        found[int(match[1])] = tuple(numbers), int(match[3])
    return found


def parse_instances(instances: str, computes: str = "") -> tuple[GpuInstance, ...]:
    """GPU instances by placement, each with how many compute instances it has."""
    counts = _computes(computes)
    found = {}
    for cells in _lines(instances):
        # gpu MIG name profile-id instance-id start:size
        if len(cells) < 6 or cells[1] != "MIG" or not _NAME.fullmatch(cells[2]):
            continue
        spot = _SPOT.fullmatch(cells[5])
        if not _NUMBER.fullmatch(cells[3]) or not _NUMBER.fullmatch(cells[4]) or spot is None:
            continue
        number = int(cells[4])
        found[number] = GpuInstance(
            id=number,
            profile=cells[2],
            profile_id=int(cells[3]),
            start=int(spot[1]),
            size=int(spot[2]),
            compute_instances=counts[number],
        )
    return tuple(sorted(found.values(), key=lambda one: (one.start, one.id)))


def _computes(text: str) -> Counter[int]:
    # gpu instance-id MIG name profile-id compute-id start:size
    rows_of_it = (cells for cells in _lines(text) if len(cells) >= 3 and cells[2] == "MIG")
    return Counter(int(cells[1]) for cells in rows_of_it if _NUMBER.fullmatch(cells[1]))


def _lines(text: str) -> Iterator[list[str]]:
    """The words of each row of a table."""
    for line in text.splitlines():
        cells = line.replace("|", " ").split()
        if cells and _NUMBER.fullmatch(cells[0]):
            yield cells


def is_pending(text: str) -> bool:
    """Whether a change of MIG mode waits for a reset of the GPU that could not be done."""
    return "pending" in text.lower()
