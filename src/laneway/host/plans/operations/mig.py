"""MIG mode, mixed sizes and GPU instances, through `nvidia-smi`.

A GPU instance is named by its placement: its id is given again by the driver each time. A card
without MIG mode has no instances, so that what is to be destroyed there is gone already.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from laneway.core.gpu.modes import GpuInstance
from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    SetMigMode,
    SetMixedSize,
)
from laneway.host.command import run
from laneway.host.hardware import Hardware
from laneway.host.nvidia import smi
from laneway.host.nvidia.modes import read_instances, read_mig_mode, read_mixed
from laneway.host.plans.operations.operation import Limits, Operation, Seen, State, gone

_WORDS = {True: "on", False: "off"}


# --------------------------------------------------------------------------------------- modes


async def mig_mode_state(hardware: Hardware, step: SetMigMode) -> Seen:
    return _switched(await read_mig_mode(hardware.executor, step.function), step.enabled)


async def set_mig_mode(hardware: Hardware, step: SetMigMode, limits: Limits) -> None:
    output = await _change(hardware, smi.set_mig_mode(step.function, enabled=step.enabled), limits)
    if smi.is_pending(output):
        said = " ".join(output.split())[:300]
        raise OSError(errno.EBUSY, f"the GPU needs a reset that others prevent: {said}")


async def mixed_size_state(hardware: Hardware, step: SetMixedSize) -> Seen:
    instance = await _instance(hardware, step.function, step.instance_start)
    if step.instance_start is not None and instance is None:
        return gone(f"a GPU instance at {step.instance_start}")
    number = instance.id if instance else None
    return _switched(await read_mixed(hardware.executor, step.function, number), step.enabled)


async def set_mixed_size(hardware: Hardware, step: SetMixedSize, limits: Limits) -> None:
    instance = await _instance(hardware, step.function, step.instance_start)
    number = _present(instance, step.instance_start).id if step.instance_start is not None else None
    await _change(
        hardware, smi.set_mixed(step.function, enabled=step.enabled, instance=number), limits
    )
    # The program reports success also where the hardware does not know the mode.
    if await read_mixed(hardware.executor, step.function, number) is not step.enabled:
        raise OSError(
            errno.EOPNOTSUPP,
            "nvidia-smi reported success, but the mode did not change: card or driver lack it",
        )


def _switched(value: bool | None, wanted: bool) -> Seen:
    if value is None:
        return Seen(State.OTHER, "not available")
    return Seen(State.AFTER if value is wanted else State.BEFORE, _WORDS[value])


# ------------------------------------------------------------------------------- GPU instances


async def create_instance_state(hardware: Hardware, step: CreateGpuInstance) -> Seen:
    instance = await _instance(hardware, step.function, step.start)
    if instance is None:
        return Seen(State.BEFORE, "")
    alike = instance.profile_id == step.profile_id
    return Seen(State.AFTER if alike else State.OTHER, instance.profile)


async def create_instance(hardware: Hardware, step: CreateGpuInstance, limits: Limits) -> None:
    argv = smi.create_instance(step.function, step.profile_id, step.start)
    await _change(hardware, argv, limits)


async def destroy_instance_state(hardware: Hardware, step: DestroyGpuInstance) -> Seen:
    instance = await _instance(hardware, step.function, step.start)
    if instance is None:
        return Seen(State.AFTER, "")
    alike = instance.profile_id == step.profile_id
    return Seen(State.BEFORE if alike else State.OTHER, instance.profile)


async def destroy_instance(hardware: Hardware, step: DestroyGpuInstance, limits: Limits) -> None:
    instance = _present(await _instance(hardware, step.function, step.start), step.start)
    await _change(hardware, smi.destroy_instance(step.function, instance.id), limits)


# --------------------------------------------------------------------------- compute instances


async def create_compute_state(hardware: Hardware, step: CreateComputeInstance) -> Seen:
    instance = await _instance(hardware, step.function, step.start)
    if instance is None:
        return gone(f"a GPU instance at {step.start}")
    count = instance.compute_instances
    return Seen(State.AFTER if count else State.BEFORE, str(count))


async def create_compute(hardware: Hardware, step: CreateComputeInstance, limits: Limits) -> None:
    instance = _present(await _instance(hardware, step.function, step.start), step.start)
    await _change(hardware, smi.create_compute_instance(step.function, instance.id), limits)


async def destroy_compute_state(hardware: Hardware, step: DestroyComputeInstance) -> Seen:
    instance = await _instance(hardware, step.function, step.start)
    count = instance.compute_instances if instance else 0
    return Seen(State.BEFORE if count else State.AFTER, str(count))


async def destroy_compute(hardware: Hardware, step: DestroyComputeInstance, limits: Limits) -> None:
    instance = _present(await _instance(hardware, step.function, step.start), step.start)
    await _change(hardware, smi.destroy_compute_instances(step.function, instance.id), limits)


# ------------------------------------------------------------------------------------- helpers


async def _instance(
    hardware: Hardware, function: PciAddress, start: int | None
) -> GpuInstance | None:
    """The GPU instance at a placement."""
    if start is None:
        return None
    instances = await read_instances(hardware.executor, function)
    return next((one for one in instances if one.start == start), None)


def _present(instance: GpuInstance | None, start: int) -> GpuInstance:
    if instance is None:
        raise OSError(errno.ENODEV, f"no GPU instance exists at {start}")
    return instance


async def _change(hardware: Hardware, argv: Sequence[str], limits: Limits) -> str:
    ended = await run(hardware.executor, argv, limits.command_seconds)
    if ended.status != 0:
        raise ended.error(errno.EBUSY if ended.status == smi.IN_USE else errno.EIO)
    return ended.output


OPERATIONS: dict[type, Operation] = {
    SetMigMode: Operation(mig_mode_state, set_mig_mode),
    SetMixedSize: Operation(mixed_size_state, set_mixed_size),
    CreateGpuInstance: Operation(create_instance_state, create_instance),
    DestroyGpuInstance: Operation(destroy_instance_state, destroy_instance),
    CreateComputeInstance: Operation(create_compute_state, create_compute),
    DestroyComputeInstance: Operation(destroy_compute_state, destroy_compute),
}
