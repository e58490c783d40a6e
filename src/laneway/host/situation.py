"""The one observer: everything that a plan must know of a node, read right before it is made.

A scan tells what there is. Users, overrides and modes are read only for the functions that a plan
can touch: those that it names, their PFs and VFs, and the group members of each in its IOMMU group.
What cannot be read is left out or reported (`visibility_error`, `unasked`), never guessed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import NVIDIA, PciAddress
from laneway.core.programs import SRIOV_MANAGE
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import NVIDIA_DRIVER
from laneway.host import console, modules
from laneway.host.attributes import describe
from laneway.host.hardware import Hardware
from laneway.host.holders import usb_holders, visibility_error
from laneway.host.leaving import read_users
from laneway.host.nvidia.modes import read_modes
from laneway.host.pci import read_autoprobe, read_override
from laneway.host.plans.state import StateFolder
from laneway.host.port import Host
from laneway.host.scan import scan
from laneway.host.silence import read_silent
from laneway.host.usb import read_owners
from laneway.host.vgpu import read_parameters


async def observe(
    hardware: Hardware, node: str, addresses: Iterable[PciAddress], ports: Iterable[str] = ()
) -> Situation:
    """Look at a node for a plan about these functions and USB ports."""
    asked = frozenset(addresses)
    situation = await asyncio.to_thread(_look, hardware, node, asked, tuple(ports))
    gpus: dict[PciAddress, GpuModes] = {}
    unasked: dict[PciAddress, str] = {}
    for gpu in _gpus(situation.inventory, asked):
        try:
            gpus[gpu] = await read_modes(hardware.executor, gpu)
        except OSError as error:
            unasked[gpu] = describe(error)
    for gpu, why in situation.inventory.unread_gpus().items():
        gpus.pop(gpu, None)
        unasked[gpu] = why
    return msgspec.structs.replace(
        situation,
        gpus=gpus,
        unasked=unasked,
        sriov_manage=await hardware.executor.has(SRIOV_MANAGE),
    )


def _look(
    hardware: Hardware, node: str, asked: frozenset[PciAddress], ports: tuple[str, ...]
) -> Situation:
    """All that comes from files."""
    host, state = hardware.host, hardware.state
    inventory = named(scan(host), state)
    concerned = _concerned(inventory, asked)
    users, locked = read_users(host, inventory, concerned, hardware.workloads)
    originals = state.originals
    usb = {device.port: device for device in inventory.usb if device.port in ports}
    return Situation(
        node=node,
        inventory=inventory,
        holders=users,
        usb_holders=usb_holders(host, usb, hardware.workloads),
        visibility_error=visibility_error(host),
        silent=read_silent(host, concerned),
        locked=locked,
        vfio_pci=modules.driver_availability(host, VFIO_DRIVER),
        kernel=modules.kernel_release(host),
        consoles=tuple(console.read_consoles(host)),
        framebuffers=tuple(console.read_framebuffers(host)),
        overrides=_overrides(host, (one for one in concerned if one not in locked)),
        autoprobe=_autoprobe(host, concerned),
        originals=originals,
        loadable=_loadable(host, {originals.get(one, "") for one in concerned}),
        usb_owners=read_owners(host, usb.values()),
        usb_originals=state.usb_originals,
        quarantined=state.quarantined,
        parameters=read_parameters(
            host, (vgpu for vgpu in inventory.vgpus if vgpu.address in concerned)
        ),
    )


def named(inventory: Inventory, state: StateFolder) -> Inventory:
    """With the names of vGPUs that neither their full card nor the catalogue tells."""
    if all(vgpu.configured is None or vgpu.configured.type_name for vgpu in inventory.vgpus):
        return inventory
    profiles = state.profiles
    vgpus = tuple(
        msgspec.structs.replace(vgpu, configured=msgspec.structs.replace(carried, type_name=name))
        if (carried := vgpu.configured)
        and not carried.type_name
        and (name := profiles.get(carried.type_id))
        else vgpu
        for vgpu in inventory.vgpus
    )
    return msgspec.structs.replace(inventory, vgpus=vgpus)


def _concerned(inventory: Inventory, asked: frozenset[PciAddress]) -> list[PciAddress]:
    """What a plan about these functions can touch, and whatever can stand in its way."""
    known = inventory.by_address()
    cards = {known[one].physfn or one for one in asked if one in known} | asked
    family = {one for card in cards if card in known for one in (card, *known[card].vfs)}
    groups = {known[one].iommu_group for one in family if one in known} - {None}
    return sorted(
        address
        for address, function in known.items()
        if not function.is_bridge and (address in family or function.iommu_group in groups)
    )


def _overrides(host: Host, readable: Iterable[PciAddress]) -> dict[PciAddress, str]:
    return {address: override for address in readable if (override := read_override(host, address))}


def _autoprobe(host: Host, concerned: Iterable[PciAddress]) -> dict[PciAddress, bool]:
    read = ((address, read_autoprobe(host, address)) for address in concerned)
    return {address: enabled for address, enabled in read if enabled is not None}


def _loadable(host: Host, drivers: Iterable[str]) -> tuple[str, ...]:
    found = (driver for driver in sorted(drivers) if driver)
    return tuple(
        driver for driver in found if modules.driver_availability(host, driver) == "loadable"
    )


def _gpus(inventory: Inventory, asked: frozenset[PciAddress]) -> list[PciAddress]:
    """The GPUs on NVIDIA's driver that are meant, themselves or by one of their VFs."""
    physfns = {function.physfn for function in inventory.functions if function.address in asked}
    return [
        function.address
        for function in inventory.functions
        if (function.address in asked or function.address in physfns)
        and function.physfn is None
        and function.is_gpu
        and (function.vendor, function.driver) == (NVIDIA, NVIDIA_DRIVER)
    ]
