"""A host's files as real ones, so that programs which know no simulation can read them too."""

from __future__ import annotations

import errno
import os
import tempfile

from laneway.host.port import Host

_DEVICES = "/sys/bus/pci/devices"


def in_memory_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory that is gone after its block: like sysfs in memory, where the machine offers it.

    Thousands of small files would otherwise measure the disk.
    """
    shared = "/dev/shm"
    where = shared if os.access(shared, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="laneway-bench-", dir=where)


def materialise(host: Host, root: str) -> None:
    """Copy everything below `/` of the host to the directory."""
    _copy(host, "", root)
    _add_configuration_space(host, root)


def _copy(host: Host, path: str, root: str) -> None:
    os.makedirs(root + path, exist_ok=True)
    for name in host.names(path or "/"):
        child = f"{path}/{name}"
        try:
            os.symlink(host.readlink(child), root + child)
            continue
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        try:
            content = host.read(child)
        except IsADirectoryError:
            _copy(host, child, root)
            continue
        except PermissionError:
            content = b""  # can only be written
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            content = b""  # answers only while there is a vGPU
        with open(root + child, "wb") as file:
            file.write(content)


def _add_configuration_space(host: Host, root: str) -> None:
    """The header of each function without one: the kernel always has it, and lspci needs it."""
    for name in host.names(_DEVICES):
        path = f"{root}{_DEVICES}/{name}/config"
        if os.path.exists(path):
            continue
        vendor, device, code = (
            int(host.read(f"{_DEVICES}/{name}/{attribute}"), 16)
            for attribute in ("vendor", "device", "class")
        )
        head = vendor | device << 16 | code << 72 | (code >> 8 == 0x0604) << 112
        with open(path, "wb") as file:
            file.write(head.to_bytes(64, "little"))
