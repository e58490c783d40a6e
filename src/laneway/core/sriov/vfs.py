"""Virtual functions: how many a card is to have, and whether those it has can be taken away.

The kernel knows only 0 to N and N to 0, and switching off while a VM holds a VF blocks the PCI core
of the whole host. So a change of the number is a removal of everything first, nothing is removed
before every VF is free, and a VF leaves vfio-pci before it goes: should a VM open it at the last
moment, then only that one step waits.

A card that the node uses by its own interface or disk keeps the number it has, because another one
resets the card; only what a boot took comes back.

VFs for passthrough are not offered to drivers of the node. Once they are gone, that is put back to
the kernel's default, on: an administrator who makes VFs by hand afterwards expects it.

NVIDIA's vGPU driver refuses a plain write; its program switches all VFs of a GPU at once, and gives
the GPU a new driver binding each time, which no open file and no GPU instance survives.
"""

from __future__ import annotations

from msgspec.structs import replace

from laneway.core.decision import Decision, conclude
from laneway.core.gpu.vendors import AMDGPU, SRIOV_DRIVERS, Vendor, gpu_of
from laneway.core.inventory import ConfiguredVgpu, Inventory
from laneway.core.passthrough.fitness import find, unfit
from laneway.core.passthrough.usability import VFIO_DRIVER, Reason, ReasonKind, remedy, text
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.plan import (
    OverrideDriver,
    Probe,
    Satisfied,
    SetAutoprobe,
    SetVfCount,
    Step,
    SwitchGpuVfs,
    Unbind,
)
from laneway.core.programs import SRIOV_MANAGE
from laneway.core.refusals import (
    CardCriticalToNode,
    DeviceHeld,
    DeviceQuarantined,
    DeviceUnusable,
    DriverMissing,
    GpuUnreadable,
    GpuVfCountInvalid,
    HoldersUnknown,
    IommuDisabled,
    NoSriov,
    Refusal,
    ToolMissing,
    VfCountInvalid,
    VgpuUnsupported,
)
from laneway.core.situation import Situation, ends, pids

NVIDIA_DRIVER = "nvidia"
VGPU_DRIVER = "NVIDIA's vGPU driver for hosts"
"""What a GPU needs, in words."""


def set_vfs(
    address: PciAddress,
    count: int,
    situation: Situation,
    *,
    passthrough: bool = True,
    restores: bool = False,
) -> Decision:
    """Have a card carry this many VFs, for VMs or (`passthrough` False) for the node's drivers.

    `restores`: it had as many before the boot, so they come back though the node uses the card.
    """
    card = find(address, situation)
    if card is None or not card.total_vfs:
        return unfit(address, situation) or (NoSriov(str(address)),)
    against = list(unfit(address, situation))
    existing = vf_count(card)
    if count == existing and not against:
        return Satisfied()
    if not 0 <= count <= card.total_vfs:
        against.append(VfCountInvalid(str(address), count, card.total_vfs))
    elif card.sriov_gpu:
        if count not in (0, card.total_vfs):
            return (*against, GpuVfCountInvalid(str(address), count, card.total_vfs))
        return switch_gpu(address, bool(count), situation)
    if card.driver in ("", VFIO_DRIVER):
        needed = situation.originals.get(address) or "the driver that makes its virtual functions"
        against.append(DriverMissing(str(address), card.driver, needed))
    elif count and card.driver == AMDGPU:
        needed = SRIOV_DRIVERS[Vendor.AMD]
        against.append(DriverMissing(str(address), card.driver, needed))
    if not restores and (used := in_use(card, situation.inventory)):
        against.append(used)
    against += obstacles(card, situation)
    return conclude(against, _steps(card, count, situation, probed=not passthrough, used=restores))


def in_use(card: PciFunction, inventory: Inventory) -> CardCriticalToNode | None:
    """That the node uses a card itself; a use of its VFs is found with these."""
    why = inventory.critical.get(card.address, ())
    if not why or any(vf in inventory.critical for vf in card.vfs):
        return None
    return CardCriticalToNode(str(card.address), why)


def _steps(
    card: PciFunction, count: int, situation: Situation, *, probed: bool, used: bool
) -> list[Step]:
    existing, autoprobe = vf_count(card), situation.autoprobe.get(card.address)
    steps: list[Step] = []
    vfs = _existing(card, situation)
    if autoprobe is False or any(vf.driver == VFIO_DRIVER for vf in vfs):
        # Undone in reverse, VFs come back without a driver, and then each is given its own.
        for vf in vfs:
            steps += _freed(vf, situation)
        if autoprobe:
            steps.append(SetAutoprobe(card.address, enabled=False))
            autoprobe = False
    if existing:
        steps.append(SetVfCount(card.address, 0, existing))
    wanted = probed or count == 0
    if autoprobe is not None and autoprobe != wanted:
        steps.append(SetAutoprobe(card.address, wanted))
    if count:
        steps.append(SetVfCount(card.address, count, 0, used=used))
    return steps


def switch_gpu(address: PciAddress, enabled: bool, situation: Situation) -> Decision:
    """Have an NVIDIA GPU carry all the VFs that vGPUs are made on, or none."""
    gpu = vgpu_card(address, situation)
    if isinstance(gpu, tuple):
        return gpu
    against = list(unfit(address, situation))
    existing = vf_count(gpu)
    if enabled == bool(existing) and not against:
        return Satisfied()
    if gpu.driver != NVIDIA_DRIVER:
        against.append(DriverMissing(str(address), gpu.driver, VGPU_DRIVER))
    if not situation.sriov_manage:
        against.append(ToolMissing(SRIOV_MANAGE))
    if enabled and gpu.iommu_group is None:
        against.append(IommuDisabled(str(address)))
    if (error := situation.unasked.get(address)) is not None:
        against.append(GpuUnreadable(str(address), error))  # it may have GPU instances
    against += busy(gpu, situation)
    against += obstacles(gpu, situation)
    steps: list[Step] = []
    for vf in _existing(gpu, situation):
        # Undone in reverse: the program brings every VF back on NVIDIA's driver.
        if vf.driver == VFIO_DRIVER:
            steps += (*_freed(vf, situation), Probe(vf.address, NVIDIA_DRIVER))
    steps.append(SwitchGpuVfs(address, enabled, (gpu.total_vfs or 0) if enabled else existing))
    return conclude(against, steps)


def vgpu_card(address: PciAddress, situation: Situation) -> PciFunction | tuple[Refusal, ...]:
    """The GPU whose VFs carry vGPUs, or why there is none at this address."""
    gpu = find(address, situation)
    if gpu is None:
        return unfit(address, situation)
    if gpu.vendor != NVIDIA or not gpu.is_gpu or gpu.physfn is not None:
        return (VgpuUnsupported(str(address), _shared_otherwise(gpu)),)
    if not gpu.total_vfs:
        return (*unfit(address, situation), NoSriov(str(address)))
    return gpu if gpu.sriov_gpu else (VgpuUnsupported(str(address)),)


def _shared_otherwise(function: PciFunction) -> str:
    """How a GPU of another vendor is shared; empty for what is none."""
    found = gpu_of(function)
    if found is None or found.is_vf or found.vendor is Vendor.NVIDIA:
        return ""
    return (
        f"A GPU of {found.vendor.written} is shared by plain virtual functions, with "
        f"{SRIOV_DRIVERS[found.vendor]}."
    )


def vf_count(card: PciFunction) -> int:
    """How many VFs a card has. While they come or go, links and number may differ."""
    return max(len(card.vfs), card.num_vfs)


def emptied(gpu: PciAddress, situation: Situation) -> Situation:
    """The situation once a GPU's vGPUs and GPU instances are gone; its users are still there."""
    vgpus = tuple(
        replace(one, configured=None) if one.parent == gpu else one
        for one in situation.inventory.vgpus
    )
    bare = without_instances(gpu, situation)
    return replace(bare, inventory=replace(situation.inventory, vgpus=vgpus))


def without_instances(gpu: PciAddress, situation: Situation) -> Situation:
    """The situation once a GPU's GPU instances are gone; its users are still there."""
    modes = situation.gpus.get(gpu)
    gpus = {**situation.gpus, gpu: replace(modes, instances=())} if modes else situation.gpus
    return replace(situation, gpus=gpus)


def obstacles(card: PciFunction, situation: Situation) -> list[Refusal]:
    """Everything that forbids taking away the VFs that a card has."""
    against: list[Refusal] = []
    for address in card.vfs:
        needed = _needed(address, situation)
        against += needed
        if (error := situation.quarantined.get(address)) is not None:
            against.append(DeviceQuarantined(str(address), error))
        against += held(address, situation, *_vgpu(address, situation), needed=bool(needed))
    return against


def held(
    address: PciAddress, situation: Situation, *more: str, needed: bool = False
) -> list[Refusal]:
    """Who uses a function, all in one refusal; also that this cannot be known.

    `needed`: that the node cannot do without it is reported already, so how the node uses it is
    not.
    """
    if situation.visibility_error:
        return [HoldersUnknown(situation.visibility_error)]
    users = situation.holders.get(address, ())
    texts = (user.text for user in users if user.kind == "process" or not needed)
    holders = (*more, *texts)
    return [DeviceHeld(str(address), holders, pids(users), ends(users))] if holders else []


def carried(address: PciAddress, situation: Situation) -> ConfiguredVgpu | None:
    """The vGPU on a function."""
    function = situation.inventory.vgpu(address)
    return function.configured if function else None


def _vgpu(address: PciAddress, situation: Situation) -> tuple[str, ...]:
    vgpu = carried(address, situation)
    if vgpu is None:
        return ()
    return (configured_words(str(address), vgpu.type_name or vgpu.type_id),)


def configured_words(address: str, name: str) -> str:
    """That a function carries a vGPU, as a use of it."""
    return f"vGPU {name} is configured on it (to remove it: laneway host release {address})"


def _needed(address: PciAddress, situation: Situation) -> list[Refusal]:
    details = situation.inventory.critical.get(address)
    if not details:
        return []
    reason = Reason(kind=ReasonKind.CRITICAL, details=details)
    return [DeviceUnusable(str(address), (text(reason),), (remedy(reason),))]


def busy(gpu: PciFunction, situation: Situation) -> list[Refusal]:
    """What a new driver binding of the GPU itself would destroy."""
    modes = situation.gpus.get(gpu.address)
    instances = modes.instances if modes else ()
    return held(
        gpu.address,
        situation,
        *(f"GPU instance {one.profile} at {one.start} exists on it" for one in instances),
    )


def _existing(card: PciFunction, situation: Situation) -> list[PciFunction]:
    """The VFs of a card in the order of their numbers."""
    by_address = {function.address: function for function in situation.inventory.functions}
    return [by_address[address] for address in card.vfs if address in by_address]


def _freed(vf: PciFunction, situation: Situation) -> list[Step]:
    """A VF away from its driver, and its bound driver away from the VF."""
    steps: list[Step] = []
    if vf.driver:
        steps.append(Unbind(vf.address, vf.driver))
    if override := situation.overrides.get(vf.address):
        steps.append(OverrideDriver(vf.address, "", override))
    return steps
