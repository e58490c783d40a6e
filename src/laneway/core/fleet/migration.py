"""Between which GPUs a VM with a vGPU can be live-migrated, as far as the devices decide it.

NVIDIA requires the same GPU model, the same ECC mode, and host drivers that belong together; within
one branch they do. The profile must be the same, which only a GPU of that board offers. What is not
known is told as not known: nothing is moved on a guess.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from laneway.core.fleet.model import Gpu

_NOT_READ = "0000"
"""The device id of a GPU in a fleet whose PCI device could not be read."""


class Answer(StrEnum):
    """Whether a running VM can be moved between two GPUs."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Verdict(msgspec.Struct, frozen=True):
    """The answer, and what differs or is not known."""

    answer: Answer
    why: tuple[str, ...] = ()
    """`ECC mode`, `host driver`: what differs; for UNKNOWN what is not known."""


class Group(msgspec.Struct, frozen=True):
    """What GPUs have in common between which VMs can be moved."""

    device: str
    subsystem: str
    ecc: bool | None
    branch: str
    """Of the host driver: `580`; empty: not known."""

    @property
    def label(self) -> str:
        """As a label's value: `26b9-16a1-ecc-580`; empty where something is not known."""
        if self.unknown:
            return ""
        parts = (self.device, self.subsystem, "ecc" if self.ecc else "noecc", self.branch)
        return "-".join(part for part in parts if part)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What is not known, without which nothing can be said."""
        parts = (
            ("GPU model", bool(self.device)),
            ("ECC mode", self.ecc is not None),
            ("host driver", bool(self.branch)),
        )
        return tuple(name for name, known in parts if not known)


def branch(driver: str) -> str:
    """The branch of a driver's version: `580` of `580.65.05`."""
    first = driver.strip().partition(".")[0]
    return first if first.isdecimal() else ""


def ecc_of(mode: str) -> bool | None:
    """Whether ECC is on, by what `nvidia-smi` calls its mode; None: not known."""
    return {"Enabled": True, "Disabled": False}.get(mode)


def group_of(gpu: Gpu) -> Group:
    """The group of a GPU."""
    device = "" if gpu.device == _NOT_READ else gpu.device
    return Group(device, gpu.subsystem, gpu.ecc, branch(gpu.driver))


def between(one: Gpu, other: Gpu) -> Verdict:
    """Whether a running VM can be moved from one GPU to the other; the profile stays the same."""
    a, b = group_of(one), group_of(other)
    pairs = (
        (
            "GPU model",
            (a.device, a.subsystem),
            (b.device, b.subsystem),
            bool(a.device and b.device),
        ),
        ("ECC mode", a.ecc, b.ecc, a.ecc is not None and b.ecc is not None),
        ("host driver", a.branch, b.branch, bool(a.branch and b.branch)),
    )
    differ = tuple(name for name, left, right, known in pairs if known and left != right)
    if differ:
        return Verdict(Answer.NO, differ)
    unknown = tuple(name for name, _, _, known in pairs if not known)
    return Verdict(Answer.UNKNOWN if unknown else Answer.YES, unknown)
