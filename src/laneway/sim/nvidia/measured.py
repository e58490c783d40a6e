"""What simulated GPUs measure of themselves: healthy, with idle guests whose driver is not loaded.

Numbers follow from what is there and are always the same. What an H100 with release 580 prints is
the model for words and units; a GPU in MIG mode tells no utilization.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

from laneway.sim.nvidia.card import Vgpu
from laneway.sim.nvidia.contents import UUID
from laneway.sim.nvidia.driver import NvidiaDriver

USED_MIB = 128
"""Framebuffer that a vGPU takes before its guest has done anything."""
_FIRST_ID = 3251634176

_NOT_TOLD = "[N/A]"
_ENGINES = ("gpu", "memory", "encoder", "decoder")


def active(driver: NvidiaDriver, path: str) -> dict[str, tuple[Vgpu, str]]:
    """The vGPUs of a GPU that a VM has open, by function, with the UUID of a mediated device."""
    found = {}
    card, vfio = driver.card(path), driver.core.vfio
    for home in card.functions:
        vgpu = card.vgpu(home)
        mdevs = [name for name in driver.tree.names(f"/sys{home}") if UUID.fullmatch(name)]
        if vgpu is not None and any(map(vfio.held, [f"{home}/{name}" for name in mdevs] or [home])):
            found[home] = vgpu, mdevs[0] if mdevs else ""
    return found


def number(home: str) -> int:
    """What the driver calls the vGPU of a function."""
    return _FIRST_ID + zlib.crc32(home.encode()) % 100_000


def with_unit(value: str, unit: str) -> str:
    return f"{value} {unit}" if unit and value != _NOT_TOLD else value


def _total(driver: NvidiaDriver, path: str) -> str:
    sizes = [kind.framebuffer_mib for kind in driver.card(path).types.values()]
    return str(max(sizes)) if sizes else _NOT_TOLD


def _used(driver: NvidiaDriver, path: str) -> str:
    return str(sum(vgpu.kind.framebuffer_mib for vgpu in driver.card(path).vgpus))


def _busy(driver: NvidiaDriver, path: str) -> str:
    return _NOT_TOLD if driver.card(path).mig else "0"


def _by_vgpus(first: float, each: float, places: int = 0) -> Callable[[NvidiaDriver, str], str]:
    return lambda driver, path: f"{first + each * len(active(driver, path)):.{places}f}"


def _always(value: str) -> Callable[[NvidiaDriver, str], str]:
    return lambda _driver, _path: value


FIELDS: Mapping[str, Callable[[NvidiaDriver, str], str]] = {
    "temperature.gpu": _by_vgpus(34, 1),
    "temperature.memory": _by_vgpus(38, 1),
    "temperature.gpu.tlimit": _by_vgpus(53, -1),
    "power.draw": _by_vgpus(71, 4, places=2),
    "enforced.power.limit": _always("300.00"),
    **{f"utilization.{engine}": _busy for engine in _ENGINES},
    "memory.used": _used,
    "memory.total": _total,
    "encoder.stats.sessionCount": _always("0"),
    "ecc.mode.current": _always("Enabled"),
    **{
        f"ecc.errors.{severity}.{counter}.total": _always("0")
        for severity in ("corrected", "uncorrected")
        for counter in ("volatile", "aggregate")
    },
    "clocks_throttle_reasons.hw_thermal_slowdown": _always("Not Active"),
    "clocks_throttle_reasons.sw_thermal_slowdown": _always("Not Active"),
}
"""The fields of `--query-gpu` that measure something."""

UNITS: Mapping[str, str] = {
    "power.draw": "W",
    "enforced.power.limit": "W",
    **{f"utilization.{engine}": "%" for engine in _ENGINES},
    "memory.used": "MiB",
    "memory.total": "MiB",
}
"""What is printed behind a value, and in the heading of its column."""
