"""`nvidia-smi vgpu`: sizes of vGPUs that a GPU, or a GPU instance, mixes; vGPUs that VMs use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from laneway.sim.nvidia import measured
from laneway.sim.nvidia.arguments import Arguments, UsageError, parse
from laneway.sim.nvidia.driver import NvidiaDriver
from laneway.sim.nvidia.nvml import NvmlError
from laneway.sim.nvidia.selection import bus_id, select
from laneway.sim.programs import Completed

_VALUED = frozenset({"-i", "-gi", "-shm"})
_FLAGS = frozenset({"-ghm", "-q"})
_NO_VGPUS = "No supported devices in vGPU mode\n"


def run(driver: NvidiaDriver, words: Sequence[str]) -> Completed:
    """Carry out what follows `vgpu` on the command line."""
    arguments = parse(words, _VALUED, _FLAGS)
    if "-q" in arguments:
        gpus = select(driver, arguments.get("-i"))
        able = [path for path in gpus if driver.card(path).types]
        return Completed(0, "".join(map(partial(_report, driver), able)) or _NO_VGPUS)
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


def _report(driver: NvidiaDriver, path: str) -> str:
    """The vGPUs of a GPU that a VM has open. Its form is that of release 580."""
    active = measured.active(driver, path)
    lines = [f"GPU {bus_id(path)}", _row(4, "Active vGPUs", str(len(active)))]
    for home, (vgpu, mdev) in active.items():
        identity = driver.identity(path, home)
        lines += [
            _row(4, "vGPU ID", str(measured.number(home))),
            _row(8, "VM UUID", driver.identity(path, home, "vm")),
            _row(8, "VM Name", "N/A"),
            _row(8, "vGPU Name", vgpu.kind.name),
            _row(8, "vGPU Type", str(vgpu.kind.id)),
            _row(8, "vGPU UUID", identity),
            *([_row(8, "MDEV UUID", mdev)] if mdev else []),
            _row(8, "Guest Driver Version", "N/A"),
            _row(8, "License Status", "N/A (Expiry: N/A)"),
            _row(8, "GPU Instance ID", _or_none(vgpu.instance)),
            _row(8, "Placement ID", _or_none(vgpu.placement)),
            _row(8, "Accounting Mode", "N/A"),
            _row(8, "ECC Mode", "N/A"),
            _row(8, "Accounting Buffer Size", "4000"),
            _row(8, "Frame Rate Limit", "N/A"),
            "        PCI",
            _row(12, "Bus Id", "00000000:00:00.0"),
            "        FB Memory Usage",
            _row(12, "Total", f"{vgpu.kind.framebuffer_mib} MiB"),
            _row(12, "Used", f"{measured.USED_MIB} MiB"),
            _row(12, "Free", f"{vgpu.kind.framebuffer_mib - measured.USED_MIB} MiB"),
            "        Utilization",
            *(
                _row(12, engine, "N/A" if vgpu.kind.flags else "0 %")
                for engine in ("GPU", "Memory", "Encoder", "Decoder")
            ),
            "        Encoder Stats",
            _row(12, "Active Sessions", "0"),
            _row(12, "Average FPS", "0"),
            _row(12, "Average Latency", "0"),
            "        FBC Stats",
            _row(12, "Active Sessions", "0"),
            _row(12, "Average FPS", "0"),
            _row(12, "Average Latency", "0"),
        ]
    return "".join(f"{line}\n" for line in [*lines, ""])


def _row(indent: int, name: str, value: str) -> str:
    return f"{' ' * indent + name:<42}: {value}"


def _or_none(number: int | None) -> str:
    return "N/A" if number is None else str(number)
