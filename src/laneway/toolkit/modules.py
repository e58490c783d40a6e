"""The driver's modules in the running kernel: which there are, loading them, unloading them.

They are built into a folder of the container next to links to the node's own modules, on which they
depend. Nothing is written to the node's folder of modules: without the toolkit, a node boots
without the driver.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil

from laneway.core.driver_toolkit import failure
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.kernel.log import CAUGHT_UP, added
from laneway.host.attributes import clean
from laneway.host.executors.bounded import run_bounded
from laneway.host.kernel_log import kernel_log
from laneway.host.port import Host, KernelLogUnavailableError
from laneway.host.xids import KERNEL_LOG
from laneway.toolkit.places import Places

WANTED = ("nvidia", "nvidia-vgpu-vfio")
"""The second one is what makes a driver a vGPU host driver; some releases have it in the first."""
FOLDER = "laneway"
_INDEXES = ("modules.order", "modules.builtin", "modules.builtin.modinfo")
_SECONDS = 120.0
_UNKNOWN = "unknown"


def loaded_version(host: Host) -> str:
    """The version of the driver in the kernel; empty when none is."""
    try:
        return clean(host.read("/sys/module/nvidia/version")) or _UNKNOWN
    except OSError:
        return _UNKNOWN if host.exists("/sys/module/nvidia") else ""


def prepare_folder(places: Places, release: str) -> str:
    """The folder for the driver's modules, empty, among links to the node's modules."""
    own = os.path.join(places.modules, release)
    node = f"{places.node.rstrip('/')}/lib/modules/{release}"
    os.makedirs(own, exist_ok=True)
    for name in os.listdir(node) if os.path.isdir(node) else ():
        target = os.path.join(own, name)
        if os.path.lexists(target) or name == FOLDER:
            continue
        if name in _INDEXES:
            shutil.copy(os.path.join(node, name), target)
        elif os.path.isdir(os.path.join(node, name)):
            os.symlink(os.path.join(node, name), target)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(os.path.join(own, FOLDER))
    os.mkdir(os.path.join(own, FOLDER))
    os.makedirs(os.path.dirname(places.depmod), exist_ok=True)
    with open(places.depmod, "w", encoding="utf-8") as file:
        file.write(f"search {FOLDER} updates built-in\n")
    return os.path.join(own, FOLDER)


async def load(folder: str, release: str) -> None:
    """Load what was built. Raises ToolkitError with what the kernel says."""
    built = _built(folder)
    await _run(["depmod", release], "depmod")
    for name in WANTED:
        if name != WANTED[0] and name.replace("-", "_") not in built:
            continue
        before = await _kernel_messages()
        status, said = await _run(["modprobe", name], "modprobe")
        if status != 0:
            lines = added(before, await _kernel_messages())
            raise ToolkitError(failure.load_failed(name, said, lines))


async def unload(host: Host) -> None:
    """Unload all of the driver, users of a module first. Raises ToolkitError."""
    while names := _loaded(host):
        free = [name for name, users in names.items() if not users]
        name = free[0] if free else next(iter(names))
        status, said = await _run(["rmmod", name], "rmmod")
        if status != 0:
            raise ToolkitError(failure.not_unloaded(name, said))


def _built(folder: str) -> set[str]:
    """The names of the modules below a folder, as the kernel writes them."""
    return {
        file.partition(".ko")[0].replace("-", "_")
        for _, _, files in os.walk(folder)
        for file in files
        if ".ko" in file
    }


def _loaded(host: Host) -> dict[str, list[str]]:
    """The driver's modules in the kernel, each with those that use it."""
    found = {}
    for line in clean(host.read("/proc/modules")).splitlines():
        name, _, _, users, *_ = [*line.split(), "", "", "", ""]
        if name == "nvidia" or name.startswith("nvidia_"):
            found[name] = [user for user in users.split(",") if user not in ("", "-")]
    return found


async def _run(argv: list[str], name: str) -> tuple[int, str]:
    try:
        ended = await run_bounded(argv, name, _SECONDS)
    except OSError as error:
        return errno.EIO, error.strerror or str(error)
    return ended.status, " ".join(ended.output.split())


async def _kernel_messages() -> list[str]:
    """All that the kernel's log still has; nothing where it cannot be read."""
    found: list[str] = []
    with contextlib.suppress(KernelLogUnavailableError):
        async with kernel_log(KERNEL_LOG) as messages:
            async for message in messages:
                if message == CAUGHT_UP:
                    break
                found.append(message)
    return found
