"""Whether as many vGPUs fit as is said: what a contract test and a law both try, by a story."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.programs import NVIDIA_SMI
from laneway.core.vgpu.capacity import still_fits
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.placement import arrange

Story = Sequence[tuple[bool, int]]
"""Whether a vGPU is made, and a number that chooses which, or which one is removed."""


@asynccontextmanager
async def sizes(gpu: Any, *, mixed: bool) -> AsyncIterator[None]:
    """Mixed-size mode for a while, or none."""
    await _mix(gpu, on=mixed)
    try:
        yield
    finally:
        await _mix(gpu, on=False)


async def _mix(gpu: Any, *, on: bool) -> None:
    argv = [NVIDIA_SMI, "vgpu", "-i", str(gpu.address), "-shm", "1" if on else "0"]
    done = await gpu.machine.executor.run(argv, seconds=60)
    assert done.status == 0, done.output


def card(look: Inventory, address: PciAddress) -> PciFunction:
    return next(one for one in look.functions if one.address == address)


def offered(gpu: Any) -> list[str]:
    """The names of the profiles that can be made now."""
    return sorted({kind.name for one in gpu.functions() for kind in one.creatable})


def as_many_fit(gpu: Any, story: Story, *, mixed: bool) -> None:
    """After a story the driver takes as many of a profile as is said, and no more."""
    removed = False
    try:
        for make, number in story:
            carried = [one for one in gpu.functions() if one.configured]
            makeable = [(one, kind) for one in _free(gpu) for kind in one.creatable]
            if make and makeable:
                gpu.create(*makeable[number % len(makeable)])
            elif carried:
                gpu.remove(carried[number % len(carried)])
                removed = True
        look = gpu.look()
        fits = still_fits(card(look, gpu.address), gpu.functions(), GpuModes(mixed_size=mixed))
        names = sorted(fits)
        chosen = names[sum(number for _, number in story) % len(names)]
        assert {name for name, count in fits.items() if count} == {
            kind.name for one in _free(gpu) for kind in one.creatable
        }
        # A mediated device tells its place only once it is used: gaps between such are not known,
        # and fewer may fit than is said.
        places = [one.configured.placement for one in gpu.functions() if one.configured]
        fewest = 0 if mixed and removed and None in places else fits[chosen]
        assert fewest <= _fill(gpu, chosen) <= fits[chosen], chosen
    finally:
        _empty(gpu)


def order_works(gpu: Any, wanted: Sequence[str]) -> None:
    """In mixed-size mode: what `arrange` says is what the driver does, place by place."""
    device = card(gpu.look(), gpu.address).device
    order = arrange(card_of(device, offered(gpu)), (), Counter(wanted), mixed=True)
    try:
        for placed in order or ():
            function = _free(gpu)[0]
            kind = next(one for one in function.creatable if one.name == placed.profile)
            gpu.create(function, kind)
        found = [one.configured for one in gpu.functions() if one.configured]
        if any(one.placement is not None for one in found):
            there = sorted((one.type_name, one.placement) for one in found)
            assert there == sorted((one.profile, one.start) for one in order or ())
        if order is None:
            # Not the order by size either, nor any that its own story came in.
            assert not _takes(gpu, wanted)
    finally:
        _empty(gpu)


def _free(gpu: Any) -> list[VgpuFunction]:
    return [one for one in gpu.functions() if one.configured is None]


def _fill(gpu: Any, name: str) -> int:
    """Make vGPUs of a profile until there is no room, and take them back."""
    made = []
    while function := next(
        (one for one in _free(gpu) if any(kind.name == name for kind in one.creatable)), None
    ):
        kind = next(kind for kind in function.creatable if kind.name == name)
        gpu.create(function, kind)
        made.append(function)
    for function in made:
        gpu.remove(function)
    return len(made)


def _empty(gpu: Any) -> None:
    for function in gpu.functions():
        if function.configured:
            gpu.remove(function)


def _takes(gpu: Any, wanted: list[str]) -> bool:
    for name in wanted:
        free = _free(gpu)
        kinds = [kind for kind in free[0].creatable if kind.name == name] if free else []
        if not kinds:
            return False
        gpu.create(free[0], kinds[0])
    return True
