"""`nvidia-smi vgpu`: whether a GPU, or one GPU instance, carries vGPUs of different sizes."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.sim.nvidia.arguments import Arguments, UsageError, parse
from laneway.sim.nvidia.driver import NvidiaDriver
from laneway.sim.nvidia.nvml import NvmlError
from laneway.sim.nvidia.selection import bus_id, select
from laneway.sim.programs import Completed

_VALUED = frozenset({"-i", "-gi", "-shm"})
_FLAGS = frozenset({"-ghm"})


def run(driver: NvidiaDriver, words: Sequence[str]) -> Completed:
    """Carry out what follows `vgpu` on the command line."""
    arguments = parse(words, _VALUED, _FLAGS)
    output = ""
    for path in select(driver, arguments.get("-i")):
        where = f"GPU {bus_id(path)}"
        if "-gi" in arguments:
            where += f" GPU instance ID {arguments['-gi']}"
        try:
            output += _one(driver, path, where, arguments)
        except NvmlError as error:
            does = "set" if "-shm" in arguments else "get"
            output += f"Unable to {does} vGPU heterogeneous mode for {where}: {error}\n"
            return Completed(error.status, output)
    return Completed(0, output)


def _one(driver: NvidiaDriver, path: str, where: str, arguments: Arguments) -> str:
    card = driver.card(path)
    given = arguments.get("-gi")
    instance = int(given) if given and given.isdecimal() else None
    if given is not None and instance is None:
        raise UsageError(f"Invalid GPU instance ID: {given!r}.")
    if "-shm" in arguments:
        if arguments["-shm"] not in ("0", "1"):
            raise UsageError(f"Invalid vGPU heterogeneous mode: {arguments['-shm']!r}.")
        enabled = arguments["-shm"] == "1"
        if instance is None:
            card.set_mixed(enabled=enabled)
        else:
            card.set_instance_mixed(instance, enabled=enabled)
        return f"{'Enabled' if enabled else 'Disabled'} vGPU heterogeneous mode for {where}\n"
    if "-ghm" in arguments and instance is not None:
        mode = "Enabled" if card.instance(instance).mixed else "Disabled"
        return (
            f"GPU {bus_id(path)}\n"
            f"    GPU Instance ID                       : {instance}\n"
            f"        vGPU Heterogeneous Mode           : {mode}\n"
        )
    raise UsageError("Invalid combination of input arguments.")
