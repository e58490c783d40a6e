"""The programs that Laneway runs on a node. An executor runs these and nothing else."""

from typing import NamedTuple

SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"
"""Switches a GPU's virtual functions on and off; comes with NVIDIA's vGPU driver."""

NVIDIA_SMI = "nvidia-smi"
"""Reads a GPU's state and switches MIG mode and instances; comes with NVIDIA's driver."""

MODPROBE = "modprobe"
"""Loads a kernel module and what it depends on; belongs to the node's own system."""

SYSTEMCTL = "systemctl"
"""Reboots the node."""

GRUB_MKCONFIG = "grub-mkconfig"
"""Makes the configuration of GRUB, as on Debian and Ubuntu."""

GRUB2_MKCONFIG = "grub2-mkconfig"
"""The same as on SUSE and RHEL."""

DRIVER_PROGRAMS = frozenset({SRIOV_MANAGE, NVIDIA_SMI})
"""Those that are where the driver was installed, which may be in a pod."""

MENU_PROGRAMS = frozenset({GRUB_MKCONFIG, GRUB2_MKCONFIG})
"""Those that write texts for people, in the node's language. What boots by default may be named by
such a text."""

PROGRAMS = DRIVER_PROGRAMS | MENU_PROGRAMS | {MODPROBE, SYSTEMCTL}


class Completed(NamedTuple):
    """How a command ended."""

    status: int
    output: str
    """What it printed, standard output first, bounded, as text without control characters other
    than tab and newline."""


class CommandMissingError(FileNotFoundError):
    """The program is not there (ENOENT); `strerror` says where it was looked for."""
