"""vGPUs of both frameworks.

A profile's name is what is desired; the id that the driver has for it is looked up right before
each write, and a type that the driver does not offer is never written: vendor VFIO answers that by
removing the vGPU that is there. A mediated device that a VM holds while it is being removed is
gone from the bus but still in its function's directory, so both places are looked at.
"""

from __future__ import annotations

import errno

import msgspec

from laneway.core.inventory import VgpuType
from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, RemoveMdev, SetVgpuParameters, SetVgpuType
from laneway.core.vgpu.catalogue import profile_name
from laneway.core.vgpu.desired import NO_VGPU
from laneway.host import mdev, vendor_vfio
from laneway.host.attributes import Attributes
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.access import (
    component,
    function_home,
    link,
    text,
    write,
)
from laneway.host.plans.operations.operation import (
    Limits,
    Operation,
    Seen,
    State,
    compare,
    gone,
)
from laneway.host.plans.operations.sriov import vf_links

_MDEV_BUS = "/sys/bus/mdev/devices"


# -------------------------------------------------------------------------------- mediated devices


async def create_state(hardware: Hardware, step: CreateMdev) -> Seen:
    home = function_home(step.function)
    if not hardware.host.exists(home):
        return gone(step.function)
    type_id, name = _mdev(hardware, step.function, step.uuid)
    if not type_id:
        return Seen(State.BEFORE, "")
    alike = type_id == step.type_id or (name == step.profile and name != "")
    return Seen(State.AFTER if alike else State.OTHER, type_id)


async def create(hardware: Hardware, step: CreateMdev, limits: Limits) -> None:
    types = f"{function_home(step.function)}/mdev_supported_types"
    path = f"{types}/{component(step.type_id)}/create"
    await write(hardware, step.function, path, component(step.uuid), limits)


async def resolve_create(hardware: Hardware, step: CreateMdev) -> CreateMdev:
    vf = _attributes(hardware, step.function)
    carried = mdev.read_name(vf, component(step.type_id))
    if carried == step.profile:
        return step
    type_id = mdev.find_type(vf, step.profile)
    if not type_id and carried:
        raise OSError(errno.ENODEV, f"the driver offers no {step.profile} any more")
    return msgspec.structs.replace(step, type_id=type_id or step.type_id)


async def remove_state(hardware: Hardware, step: RemoveMdev) -> Seen:
    type_id, _ = _mdev(hardware, step.function, step.uuid)
    if type_id:
        return Seen(State.BEFORE if type_id != _GOING else State.OTHER, type_id)
    if hardware.host.exists(f"{_MDEV_BUS}/{component(step.uuid)}"):
        return Seen(State.OTHER, "on another function")
    return Seen(State.AFTER, "")


async def remove(hardware: Hardware, step: RemoveMdev, limits: Limits) -> None:
    path = f"{_MDEV_BUS}/{component(step.uuid)}/remove"
    await write(hardware, step.function, path, "1", limits)


_GOING = "being removed"


def _mdev(hardware: Hardware, function: PciAddress, uuid: str) -> tuple[str, str]:
    """Type id and profile of a mediated device of a function; empty when it is not there."""
    home = f"{function_home(function)}/{component(uuid)}"
    if not hardware.host.exists(home):
        return "", ""
    type_id = link(hardware, f"{home}/mdev_type")
    try:
        name = text(hardware, f"{home}/mdev_type/name")
    except OSError:
        name = ""  # A recorded host keeps only the link.
    return (type_id or _GOING), name


# -------------------------------------------------------------------------------------- vendor VFIO


async def type_state(hardware: Hardware, step: SetVgpuType) -> Seen:
    try:
        current = text(hardware, _current(step.function))
    except FileNotFoundError:
        return gone(f"{step.function}, or its driver,")
    if step.type_id == NO_VGPU and not step.before:
        return Seen(State.AFTER if current == NO_VGPU else State.BEFORE, current)
    if not step.type_id and current != NO_VGPU:
        carried = _profile_of(hardware, step.function, current)
        return Seen(State.AFTER if carried == step.profile else State.OTHER, current)
    return compare(current, before=step.before or NO_VGPU, after=step.type_id)


async def set_type(hardware: Hardware, step: SetVgpuType, limits: Limits) -> None:
    await write(hardware, step.function, _current(step.function), step.type_id, limits)


async def resolve_type(hardware: Hardware, step: SetVgpuType) -> SetVgpuType:
    current = text(hardware, _current(step.function))
    if step.type_id == NO_VGPU:
        return msgspec.structs.replace(step, before=current)
    _, creatable = vendor_vfio.read_types(_attributes(hardware, step.function), {})
    type_id = _type_id(creatable, step.profile)
    if not type_id:
        raise OSError(errno.ENOSPC, "the driver leaves no room for it")
    return msgspec.structs.replace(step, type_id=type_id, before=current)


def _current(function: PciAddress) -> str:
    return f"{function_home(function)}/nvidia/current_vgpu_type"


def _profile_of(hardware: Hardware, function: PciAddress, type_id: str) -> str:
    """What the driver, or else our memory or the catalogue calls a type that a function carries.

    The function itself lists what could be created, which is less than what exists.
    """
    home = function_home(function)
    for sibling in vf_links(hardware, PciAddress.parse(link(hardware, f"{home}/physfn"))):
        names: dict[str, str] = {}
        vendor_vfio.read_types(Attributes(hardware.host, sibling, str(function)), names)
        if type_id in names:
            return names[type_id]
    known = hardware.state.profiles.get(type_id, "")
    return known or profile_name(text(hardware, f"{home}/device").removeprefix("0x"), type_id)


# --------------------------------------------------------------------------------------------- both


async def parameters_state(hardware: Hardware, step: SetVgpuParameters) -> Seen:
    try:
        value = text(hardware, _parameters(step))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENXIO):
            return gone(f"the vGPU of {step.function}")
        raise
    return compare(value, before=step.before, after=step.parameters)


async def set_parameters(hardware: Hardware, step: SetVgpuParameters, limits: Limits) -> None:
    data = step.parameters or "\n"  # A write of nothing reaches no driver.
    await write(hardware, step.function, _parameters(step), data, limits)


def _parameters(step: SetVgpuParameters) -> str:
    home = f"{_MDEV_BUS}/{component(step.uuid)}" if step.uuid else function_home(step.function)
    return f"{home}/nvidia/vgpu_params"


def _attributes(hardware: Hardware, function: PciAddress) -> Attributes:
    return Attributes(hardware.host, function_home(function), str(function))


def _type_id(types: tuple[VgpuType, ...], profile: str) -> str:
    """What the driver calls a profile now, empty when it does not offer it."""
    return next((kind.id for kind in types if kind.name == profile), "")


OPERATIONS: dict[type, Operation] = {
    CreateMdev: Operation(create_state, create, resolve_create),
    RemoveMdev: Operation(remove_state, remove),
    SetVgpuType: Operation(type_state, set_type, resolve_type),
    SetVgpuParameters: Operation(parameters_state, set_parameters),
}
