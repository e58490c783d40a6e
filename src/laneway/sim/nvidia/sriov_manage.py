"""`sriov-manage` on a simulated host: NVIDIA's program that makes a GPU's VFs and removes them.

The real one is a shell script: it takes the GPU from its driver, writes `sriov_numvfs` and gives
it back. That is why it needs a lock that any management client of the GPU blocks, and why
mixed-size mode and all GPU instances are gone afterwards. Where there is nothing to do it leaves
the driver alone.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from laneway.sim.nvidia.driver import NvidiaDriver
from laneway.sim.nvidia.selection import plain_address
from laneway.sim.programs import Completed

_USAGE = """Usage:
    /usr/lib/nvidia/sriov-manage <-e|-d> <ssss:bb:dd.f|ALL>
        Enable/disable Virtual functions on the GPU specified by the PCI_ID=ssss:bb:dd.f.
        If 'ALL' is specified in place of PCI_ID, operate on all the nvidia GPUs in the system.

    /usr/lib/nvidia/sriov-manage -h
        Print this help.
"""


def run(driver: NvidiaDriver, argv: Sequence[str]) -> Completed:
    """Carry out a command line; its first word is the program."""
    match list(argv[1:]):
        case ["-h"]:
            return Completed(0, _USAGE)
        case ["-e" | "-d" as option, which]:
            return _switch_all(driver, which, enable=option == "-e")
    return Completed(1, _USAGE)


def _switch_all(driver: NvidiaDriver, which: str, *, enable: bool) -> Completed:
    gpus = driver.known()
    if which.lower() != "all":
        wanted = plain_address(which)
        gpus = [path for path in gpus if posixpath.basename(path) == wanted]
        if not gpus:
            return Completed(1, "")
    output = ""
    for path in gpus:
        if "sriov_numvfs" not in driver.devices[path].attributes:
            continue  # the program skips what has no VFs without a word
        done = _switch(driver, path, enable=enable)
        output += done.output
        if done.status:
            return Completed(done.status, output)
    return Completed(0, output)


def _switch(driver: NvidiaDriver, path: str, *, enable: bool) -> Completed:
    core, address = driver.core, posixpath.basename(path)
    if bool(core.vfs(path)) is enable:
        word = "enabled" if enable else "disabled"
        return Completed(0, f"GPU at {address} already has VFs {word}.\n")
    output = f"{'Enabling' if enable else 'Disabling'} VFs on {address}\n"
    if driver.card(path).vgpus:
        return Completed(1, f"{output}{_write_error(205, 'Device or resource busy')}")
    bound = core.driver_of(path)
    if bound == driver.name and driver.watched(path):
        return Completed(1, f"{output}Cannot obtain unbindLock for {address}\n")
    try:
        for function in core.vfs(path):
            if core.driver_of(function) == "vfio-pci":
                core.unbind(function)
        if bound:
            core.unbind(path)
        try:
            core.set_vfs(path, _total(driver, path) if enable else 0)
        finally:
            core.bind(path, driver.name)
        for function in core.vfs(path):
            if core.driver_of(function) != driver.name:
                core.bind(function, driver.name)
    except OSError as error:
        return Completed(1, f"{output}{_write_error(152, error.strerror or '')}")
    return Completed(0, output)


def _total(driver: NvidiaDriver, path: str) -> int:
    return int(driver.devices[path].attributes["sriov_totalvfs"])


def _write_error(line: int, words: str) -> str:
    return f"/usr/lib/nvidia/sriov-manage: line {line}: echo: write error: {words}\n"
