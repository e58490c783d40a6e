"""What steps do to a situation: a small model of a kernel and driver, to hold plans against.

It refuses (AssertionError) what a kernel or NVIDIA's driver would refuse, hang at, or destroy
silently, so that a plan which runs through it is one that could be carried out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from laneway.core.gpu.modes import GpuInstance
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    CreateMdev,
    DestroyComputeInstance,
    DestroyGpuInstance,
    OverrideDriver,
    Probe,
    RemoveMdev,
    ResetFunction,
    SetAutoprobe,
    SetMigMode,
    SetMixedSize,
    SetNodeOwner,
    SetVfCount,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
    Unbind,
)
from laneway.core.situation import Situation


@dataclass(frozen=True)
class Kernel:
    """What is true of the hardware whatever is done to it."""

    vfs: dict[PciAddress, tuple[PciFunction, ...]] = field(default_factory=dict)
    """All VFs that a card can have, each with the driver that wants it."""
    drivers: dict[PciAddress, str] = field(default_factory=dict)
    """The driver that wants a function, where it is no VF."""
    framework: str = "mdev"
    types: tuple[VgpuType, ...] = ()

    def run(self, steps: Iterable[Step], situation: Situation) -> Situation:
        for step in steps:
            situation = self.after(step, situation)
        return situation

    def after(self, step: Step, situation: Situation) -> Situation:  # noqa: C901, PLR0912 - one case a step
        match step:
            case Unbind(address, driver):
                assert not situation.holders.get(address), f"{step} waits for ever"
                assert _function(address, situation).driver == driver
                return _changed(address, situation, driver="")
            case OverrideDriver(address, driver, before):
                assert situation.overrides.get(address, "") == before
                rest = {a: d for a, d in situation.overrides.items() if a != address}
                added = {address: driver} if driver else {}
                return replace(situation, overrides=rest | added)
            case Probe(address, driver):
                assert _function(address, situation).driver == ""
                override = situation.overrides.get(address)
                found = override or driver or self._wanted(address)
                return _changed(address, situation, driver=found)
            case ResetFunction(address):
                assert _function(address, situation).driver == ""
                return situation
            case SetAutoprobe(address, enabled):
                assert situation.autoprobe[address] is not enabled
                return replace(situation, autoprobe=situation.autoprobe | {address: enabled})
            case SetVfCount(address, count, before):
                card = _function(address, situation)
                assert card.num_vfs == before
                assert 0 in (count, before), "EBUSY"
                assert card.driver not in ("", "vfio-pci"), "ENOENT"
                assert not card.sriov_gpu, "refused by NVIDIA's driver"
                return self._with_vfs(card, count, situation, situation.autoprobe[address])
            case SwitchGpuVfs(address, enabled, count):
                gpu = _function(address, situation)
                assert gpu.driver == "nvidia"
                assert situation.sriov_manage
                assert not situation.holders.get(address), "unbindLock"
                assert len(gpu.vfs) == (0 if enabled else count)
                modes = situation.gpus.get(address)
                if modes:
                    assert not modes.instances, "destroyed silently"
                    assert not modes.mixed_size, "cleared silently"
                return self._with_vfs(gpu, count if enabled else 0, situation, probed=True)
            case CreateMdev(address, type_id, profile, uuid):
                assert _vgpu(address, situation).configured is None
                return _with_vgpu(address, ConfiguredVgpu(type_id, profile, uuid), situation)
            case RemoveMdev(address, type_id, profile, uuid):
                assert not situation.holders.get(address), f"{step} waits for ever"
                configured = ConfiguredVgpu(type_id, profile, uuid)
                assert _vgpu(address, situation).configured == configured
                return _with_vgpu(address, None, situation)
            case SetVgpuType(address, "0", before, profile):
                assert not situation.holders.get(address), "EBUSY"
                assert _vgpu(address, situation).configured == ConfiguredVgpu(before, profile)
                return _with_vgpu(address, None, situation)
            case SetVgpuType(address, type_id, _, profile):
                assert _vgpu(address, situation).configured is None
                return _with_vgpu(address, ConfiguredVgpu(type_id, profile), situation)
            case SetMigMode(address, enabled):
                gpu, modes = _function(address, situation), situation.gpus[address]
                assert not gpu.vfs, "refused while there are virtual functions"
                assert not situation.holders.get(address), "in use by another client"
                assert not modes.instances, "destroyed silently"
                assert modes.mig is not None
                assert modes.mig is not enabled
                mixed = None if enabled else False
                return _with_modes(address, situation, mig=enabled, mixed_size=mixed)
            case SetMixedSize(address, enabled):
                assert all(v.configured is None for v in situation.inventory.vgpus), "in use"
                assert not enabled or _function(address, situation).vfs, "silently without effect"
                assert situation.gpus[address].mixed_size is not None, "not supported"
                return _with_modes(address, situation, mixed_size=enabled)
            case CreateGpuInstance(address, profile, profile_id, start):
                modes = situation.gpus[address]
                kind = next((one for one in modes.profiles if one.id == profile_id), None)
                new = GpuInstance(0, profile, profile_id, start, kind.size if kind else 1)
                if kind:
                    assert modes.mig
                    assert start in kind.starts, "Invalid Argument"
                instances = (*modes.instances, new)
                assert not _overlap(instances), "Insufficient Resources"
                ordered = tuple(sorted(instances, key=lambda one: one.start))
                return _with_modes(address, situation, instances=ordered)
            case DestroyGpuInstance(address, profile, profile_id, start):
                instances = situation.gpus[address].instances
                (gone,) = (one for one in instances if one.start == start)
                assert (gone.profile, gone.profile_id) == (profile, profile_id)
                assert not gone.compute_instances, "In use by another client"
                inside = (v.configured and v.configured.gpu_instance for v in _on(situation))
                assert gone.id not in inside, "In use by another client"
                rest = tuple(one for one in instances if one != gone)
                return _with_modes(address, situation, instances=rest)
            case CreateComputeInstance(address, start):
                return _with_compute(address, start, 1, situation)
            case DestroyComputeInstance(address, start):
                return _with_compute(address, start, 0, situation)
            case SetNodeOwner(port, _, _, uid, gid, before_uid, before_gid):
                assert situation.usb_owners[port] == (before_uid, before_gid)
                return replace(situation, usb_owners=situation.usb_owners | {port: (uid, gid)})
            case _:
                raise NotImplementedError(step)

    def _wanted(self, address: PciAddress) -> str:
        every = (vf for vfs in self.vfs.values() for vf in vfs)
        return next((vf.driver for vf in every if vf.address == address), None) or (
            self.drivers.get(address, "")
        )

    def _with_vfs(
        self, card: PciFunction, count: int, situation: Situation, probed: bool
    ) -> Situation:
        for vf in card.vfs:
            assert not situation.holders.get(vf), "blocks the PCI core of the whole host"
            assert vf not in situation.overrides, "forgotten by the kernel"
        carried = {v.address for v in situation.inventory.vgpus if v.configured is not None}
        assert not carried & set(card.vfs), "destroyed silently"
        new = self.vfs[card.address][:count]
        kept = [f for f in situation.inventory.functions if f.physfn != card.address]
        kept = [
            replace(f, vfs=tuple(vf.address for vf in new), num_vfs=count) if f == card else f
            for f in kept
        ]
        created = [vf if probed else replace(vf, driver="") for vf in new]
        vgpus = [v for v in situation.inventory.vgpus if v.parent != card.address]
        if card.sriov_gpu:
            vgpus += [self.vgpu(vf.address, card.address) for vf in new]
        functions = tuple(sorted((*kept, *created), key=lambda f: f.address))
        inventory = replace(situation.inventory, functions=functions, vgpus=tuple(vgpus))
        return replace(situation, inventory=inventory)

    def vgpu(self, address: PciAddress, parent: PciAddress) -> VgpuFunction:
        """A VF that carries nothing."""
        return VgpuFunction(
            address=address,
            parent=parent,
            framework=self.framework,  # type: ignore[arg-type]
            supported=self.types,
            creatable=self.types,
        )


def _function(address: PciAddress, situation: Situation) -> PciFunction:
    return next(f for f in situation.inventory.functions if f.address == address)


def _vgpu(address: PciAddress, situation: Situation) -> VgpuFunction:
    return next(v for v in situation.inventory.vgpus if v.address == address)


def _on(situation: Situation) -> Iterable[VgpuFunction]:
    return (one for one in situation.inventory.vgpus if one.configured is not None)


def _overlap(instances: Iterable[GpuInstance]) -> bool:
    taken = [slot for one in instances for slot in range(one.start, one.start + one.size)]
    return len(taken) != len(set(taken))


def _changed(address: PciAddress, situation: Situation, **fields: Any) -> Situation:
    functions = tuple(
        replace(f, **fields) if f.address == address else f for f in situation.inventory.functions
    )
    return replace(situation, inventory=replace(situation.inventory, functions=functions))


def _with_vgpu(
    address: PciAddress, configured: ConfiguredVgpu | None, situation: Situation
) -> Situation:
    vgpus = tuple(
        replace(v, configured=configured) if v.address == address else v
        for v in situation.inventory.vgpus
    )
    return replace(situation, inventory=replace(situation.inventory, vgpus=vgpus))


def _with_modes(address: PciAddress, situation: Situation, **fields: Any) -> Situation:
    modes = replace(situation.gpus[address], **fields)
    return replace(situation, gpus=situation.gpus | {address: modes})


def _with_compute(address: PciAddress, start: int, count: int, situation: Situation) -> Situation:
    instances = tuple(
        replace(one, compute_instances=count) if one.start == start else one
        for one in situation.gpus[address].instances
    )
    assert instances != situation.gpus[address].instances
    return _with_modes(address, situation, instances=instances)
