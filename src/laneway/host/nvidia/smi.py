"""The command lines of `nvidia-smi` that Laneway uses, and what its answers mean.

The program prints for people, and what it prints differs a little between releases: borders, blank
columns, more rows. So what is not needed is passed over. But an answer without its heading, or a
row in it that should tell something and has another form, is not "no": it raises UnreadableError
with that line. GPUs are always named by their PCI address;
indexes change when a card is given to a virtual machine.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile
from laneway.core.pci import PciAddress
from laneway.core.programs import NVIDIA_SMI
from laneway.host.attributes import shorten

Argv = tuple[str, ...]

NOTHING_FOUND = re.compile(r"No (?:(?:GPU|compute) instances?|MIG-\w+ devices?) found")
"""How the program says that a list is empty; it then ends with an error."""

IN_USE = 19
"""Exit code: another client uses the GPU."""

_NUMBER = re.compile(r"[0-9]{1,9}")
_SHARE = re.compile(r"[0-9]{1,9}/([0-9]{1,9})")
_NAME = re.compile(r"[1-9]g\.[0-9]{1,4}gb(?:[+-][a-z0-9.+-]{1,24})?")
_GPU = re.compile(r"GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]", re.MULTILINE)
"""The heading of a GPU's report."""
_SPOT = re.compile(r"([0-9]{1,4}):([0-9]{1,4})")
_PLACEMENT = "Profile ID"
_PLACEMENTS = re.compile(
    r"Profile ID\s{1,9}([0-9]{1,9})\s{1,9}Placements?\s{0,9}:\s{0,9}"
    r"\{([0-9, ]{0,200})\}\s{0,9}:\s{0,9}([0-9]{1,4})"
)
_MIG = "MIG Mode"
_MIXED = "vGPU Heterogeneous Mode"
_SWITCH = {"Enabled": True, "Disabled": False, "N/A": None, "Not Supported": None}


class UnreadableError(OSError):
    """The program ended well, but its answer has not the form that it should have."""

    def __init__(self, text: str, line: str = "") -> None:
        """`line`: the first one that cannot be read; without it the first of the text."""
        found = line or next(filter(str.strip, text.splitlines()), "")
        said = f"cannot be read from {shorten(found.strip())} on" if found else "is empty"
        super().__init__(errno.EBADMSG, f"the answer of nvidia-smi {said}")


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
    """None: the card has no MIG mode (`N/A`), or the driver is older than it.

    The row below the heading counts; rows of the same name stand below other headings.
    """
    lines = _report(text)
    if not any(line.strip() == _MIG for line in lines):
        return None
    row = next(lines, "")
    name, _, value = row.partition(" : ")
    if name.strip() != "Current" or value.strip() not in _SWITCH:
        raise UnreadableError(text, row)
    return _SWITCH[value.strip()]


def parse_mixed(text: str) -> bool | None:
    """None: the mode does not apply, or the driver is older than it."""
    return _mixed(text, _report(text))


def parse_instance_mixed(text: str) -> bool | None:
    """The same of one GPU instance, which is asked this alone."""
    if _MIXED not in text:
        raise UnreadableError(text)
    return _mixed(text, iter(text.splitlines()))


def _mixed(text: str, lines: Iterator[str]) -> bool | None:
    for line in lines:
        name, colon, value = line.partition(" : ")
        if colon and name.strip() == _MIXED:
            if value.strip() not in _SWITCH:
                raise UnreadableError(text, line)
            return _SWITCH[value.strip()]
    return None


def _report(text: str) -> Iterator[str]:
    """The lines of `nvidia-smi -q`, from the GPU's own heading on."""
    heading = _GPU.search(text)
    if heading is None:
        raise UnreadableError(text)
    return iter(text[heading.start() :].splitlines())


def parse_profiles(profiles: str, placements: str) -> tuple[GpuInstanceProfile, ...]:
    """GPU instance profiles from both lists; one whose placements are not listed has none."""
    spots = _placements(placements)
    found: dict[int, GpuInstanceProfile] = {}
    above: list[str] = []
    for cells, line in _lines(profiles, "GPU instance profiles"):
        # copy-engines jpeg ofa, below decoders and encoders
        if len(cells) == 3 and above and (engines := _engines(above, cells)):
            number = int(above[3])
            found[number] = msgspec.structs.replace(found[number], engines=engines)
        above = []
        # gpu MIG name id free/total memory p2p sm dec enc
        if cells[1:2] != ["MIG"]:
            continue
        share = _SHARE.fullmatch(cells[4]) if len(cells) > 4 else None
        if share is None or not _NAME.fullmatch(cells[2]) or not _NUMBER.fullmatch(cells[3]):
            raise UnreadableError(profiles, line)
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
    for line in text.splitlines():
        if _PLACEMENT not in line:
            continue
        match = _PLACEMENTS.search(line)
        if match is None:
            raise UnreadableError(text, line)
        starts = (start.strip() for start in match[2].split(","))
        numbers = sorted({int(start) for start in starts if _NUMBER.fullmatch(start)})
        found[int(match[1])] = tuple(numbers), int(match[3])
    if not found and not NOTHING_FOUND.search(text):
        raise UnreadableError(text)
    return found


def parse_instances(instances: str, computes: str = "") -> tuple[GpuInstance, ...]:
    """GPU instances by placement, each with how many compute instances it has.

    `computes` is read only where there is an instance that could have one.
    """
    found = {}
    for cells, line in _lines(instances, "GPU instances"):
        # gpu MIG name profile-id instance-id start:size
        spot = _SPOT.fullmatch(cells[5]) if len(cells) > 5 else None
        if (
            spot is None
            or cells[1] != "MIG"
            or not _NAME.fullmatch(cells[2])
            or not all(map(_NUMBER.fullmatch, cells[3:5]))
        ):
            raise UnreadableError(instances, line)
        number = int(cells[4])
        found[number] = GpuInstance(
            id=number,
            profile=cells[2],
            profile_id=int(cells[3]),
            start=int(spot[1]),
            size=int(spot[2]),
        )
    counts = _computes(computes) if found else {}
    return tuple(
        msgspec.structs.replace(one, compute_instances=counts.get(one.id, 0))
        for one in sorted(found.values(), key=lambda one: (one.start, one.id))
    )


def _computes(text: str) -> Counter[int]:
    """How many compute instances each GPU instance has."""
    counts: Counter[int] = Counter()
    for cells, line in _lines(text, "Compute instances"):
        # gpu instance-id MIG name profile-id compute-id start:size
        if cells[2:3] != ["MIG"] or not _NUMBER.fullmatch(cells[1]):
            raise UnreadableError(text, line)
        counts[int(cells[1])] += 1
    return counts


def _lines(text: str, title: str) -> Iterator[tuple[list[str], str]]:
    """The words of each row of the table with this title, and the row; none of an empty list."""
    if f"{title}:" not in text:
        if NOTHING_FOUND.search(text):
            return
        raise UnreadableError(text)
    for line in text.partition(f"{title}:")[2].splitlines():
        cells = line.replace("|", " ").split()
        if cells and _NUMBER.fullmatch(cells[0]):
            yield cells, line


def is_pending(text: str) -> bool:
    """Whether a change of MIG mode waits for a reset of the GPU that could not be done."""
    return "pending" in text.lower()
