"""Steps in words: the one place where they become text that people read.

The same words stand in conditions, events, the audit record, progress and the command line. They
may change with any release; what a program goes by is the step itself.
"""

from __future__ import annotations

from typing import assert_never

from laneway.core.phrases import short_name
from laneway.core.plan import (
    BootStep,
    CreateComputeInstance,
    CreateGpuInstance,
    CreateMdev,
    DestroyComputeInstance,
    DestroyGpuInstance,
    DeviceStep,
    LoadModule,
    MigStep,
    OverrideDriver,
    Probe,
    RemoveMdev,
    ResetFunction,
    SetAutoprobe,
    SetBootArguments,
    SetConsole,
    SetFramebuffer,
    SetMigMode,
    SetMixedSize,
    SetNodeOwner,
    SetVfCount,
    SetVgpuParameters,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
    Unbind,
    VgpuStep,
    WriteConfiguration,
)


def describe(step: Step) -> str:
    """The step in words, as the rest of a sentence that starts with `Could not` or `will`."""
    if isinstance(step, VgpuStep):
        return _vgpu(step)
    if isinstance(step, MigStep):
        return _mig(step)
    if isinstance(step, BootStep):
        return _boot(step)
    return _device(step)


def _device(step: DeviceStep) -> str:  # noqa: C901, PLR0912 - one line a step
    match step:
        case LoadModule(module):
            return f"load the kernel module {module}"
        case Unbind(function, driver):
            return f"unbind {function} from driver {driver}"
        case OverrideDriver(function, "", before):
            return f"remove the driver override {before} of {function}"
        case OverrideDriver(function, driver):
            return f"set the driver override of {function} to {driver}"
        case Probe(function, ""):
            return f"let the kernel bind a driver to {function}"
        case Probe(function, driver):
            return f"bind {function} to driver {driver}"
        case ResetFunction(function):
            return f"reset {function}"
        case SetConsole(number, name, attached):
            done = (
                "attach the virtual consoles to" if attached else "detach the virtual consoles from"
            )
            return f"{done} {name} (vtcon{number})"
        case SetFramebuffer(device, driver, bound):
            done = "bind the firmware framebuffer" if bound else "unbind the firmware framebuffer"
            return f"{done} {device} {'to' if bound else 'from'} driver {driver}"
        case SetAutoprobe(function, enabled):
            how = "on" if enabled else "off"
            return f"switch automatic driver binding of new virtual functions of {function} {how}"
        case SetVfCount(function, 0, before):
            return f"remove the {before} virtual functions of {function}"
        case SetVfCount(function, count):
            return f"create {count} virtual functions of {function}"
        case SwitchGpuVfs(function, enabled, count):
            done = "enable" if enabled else "disable"
            return f"{done} the {count} virtual functions of GPU {function} with sriov-manage"
        case SetNodeOwner(port, bus, number, uid, gid):
            node = f"/dev/bus/usb/{bus:03d}/{number:03d}"
            return f"change the owner of {node} (USB port {port}) to user {uid}, group {gid}"
        case _:
            assert_never(step)


def _mig(step: MigStep) -> str:
    match step:
        case SetMigMode(function, enabled):
            return f"switch {'on' if enabled else 'off'} MIG mode of {function}"
        case SetMixedSize(function, enabled, start):
            where = "" if start is None else f", GPU instance at {start}"
            return f"{'allow' if enabled else 'forbid'} vGPUs of mixed sizes on {function}{where}"
        case CreateGpuInstance(function, profile, _, start):
            return f"create GPU instance {profile} at {start} on {function}"
        case DestroyGpuInstance(function, profile, _, start):
            return f"destroy GPU instance {profile} at {start} on {function}"
        case CreateComputeInstance(function, start):
            return f"create the compute instance of the GPU instance at {start} on {function}"
        case DestroyComputeInstance(function, start):
            return f"destroy the compute instances of the GPU instance at {start} on {function}"
        case _:
            assert_never(step)


def _boot(step: BootStep) -> str:
    match step:
        case SetBootArguments(_, path, _, _, arguments, before):
            added = [word for word in arguments if word not in before]
            removed = [word for word in before if word not in arguments]
            parts = [
                f"{verb} the kernel command line: {' '.join(words)}"
                for verb, words in (("remove from", removed), ("add to", added))
                if words
            ]
            return f"{'; '.join(parts) or 'have the boot loader read its files again'} ({path})"
        case WriteConfiguration(path, _, None):
            return f"remove {path}"
        case WriteConfiguration(path):
            return f"write {path}"
        case _:
            assert_never(step)


def _vgpu(step: VgpuStep) -> str:
    match step:
        case CreateMdev(function, _, profile, uuid):
            return f"create {short_name(profile)} on {function} with UUID {uuid}"
        case RemoveMdev(function, _, profile, uuid):
            return f"remove {short_name(profile)} with UUID {uuid} from {function}"
        case SetVgpuType(function, "0", _, profile):
            return f"remove {short_name(profile)} from {function}"
        case SetVgpuType(function, "", _, profile):
            return f"configure {short_name(profile)} on {function}"
        case SetVgpuType(function, type_id, _, profile):
            return f"configure {short_name(profile)} (type {type_id}) on {function}"
        case SetVgpuParameters(function, _, parameters):
            return f"set the vGPU parameters of {function} to {parameters or 'the defaults'}"
        case _:
            assert_never(step)
