"""What devices of one VM may not be together.

So many vGPUs of a profile (`core/vgpu/together`), more than one display with ramFB, one resource in
both lists, and two resources of which KubeVirt cannot distinguish the devices. A profile that
allows one vGPU allows no other with it either, so all vGPUs of the VM are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laneway.admission.vms.devices import find, is_usb
from laneway.admission.world import RESOURCE, World
from laneway.core.device_plugin.allocate import environment_name
from laneway.core.refusals import (
    MultipleDisplays,
    Refusal,
    ResourceInTwoLists,
    ResourceNamesConflict,
    TooManyVgpus,
    UsbDeviceInGpus,
)
from laneway.core.vgpu.catalogue import profile_named
from laneway.core.vgpu.together import instead, most_per_vm
from laneway.kube.kubevirt import DeviceRequest, Devices


def conflicts(devices: Devices, world: World) -> Iterator[Refusal]:
    """What keeps a VM from starting although each of its devices could be had."""
    yield from displays(devices.gpus)
    yield from _in_both_lists(devices)
    yield from _usb_in_gpus(devices.gpus, world)
    yield from _alike(devices.all)


def too_many(requests: Sequence[DeviceRequest], world: World) -> Iterator[Refusal]:
    """The profiles that do not allow so many vGPUs."""
    profiles = [name for one in requests if (name := _profile(one, world))]
    count = len(profiles)
    for name in sorted(set(profiles)):
        known = profile_named(name)
        most = most_per_vm(name, known)
        if most is not None and count > most:
            yield TooManyVgpus(name, count, most, instead(known, count))


def _profile(request: DeviceRequest, world: World) -> str:
    """The profile of the vGPU that an entry requests; empty when it requests something else."""
    found = find(world, request.name)
    vgpu = found.vgpu if found is not None and request.device_name in found.resources else None
    if vgpu is None:
        vgpu = world.vgpus.first(RESOURCE, request.device_name)
    if vgpu is None:
        return ""
    return vgpu.status.configure_vgpu_type_name or vgpu.spec.vgpu_type_name


def _in_both_lists(devices: Devices) -> Iterator[Refusal]:
    asked = {one.device_name for one in devices.host_devices} - {""}
    for resource in sorted(asked & {one.device_name for one in devices.gpus}):
        hosts, gpus = (
            tuple(one.name for one in part if one.device_name == resource)
            for part in (devices.host_devices, devices.gpus)
        )
        yield ResourceInTwoLists(resource, hosts, gpus)


def _usb_in_gpus(gpus: Sequence[DeviceRequest], world: World) -> Iterator[Refusal]:
    for one in gpus:
        if one.device_name and is_usb(world, one.device_name):
            yield UsbDeviceInGpus(one.name, one.device_name)


def _alike(requests: Sequence[DeviceRequest]) -> Iterator[Refusal]:
    """Resources for which the kubelet sets one variable, of which one value is lost."""
    variables: dict[str, set[str]] = {}
    for one in requests:
        if one.device_name:
            variables.setdefault(environment_name(one.device_name), set()).add(one.device_name)
    for resources in variables.values():
        if len(resources) > 1:
            yield ResourceNamesConflict(tuple(sorted(resources)))


def displays(gpus: Sequence[DeviceRequest]) -> Iterator[Refusal]:
    """More than one display with ramFB, as KubeVirt counts them: what is not said is on."""
    names = [one.name for one in gpus if _shows(one)]
    if len(names) > 1:
        yield MultipleDisplays(tuple(names))


def _shows(request: DeviceRequest) -> bool:
    options = request.virtual_gpu_options
    display = options.display if options is not None else None
    if display is None or display.enabled is False:
        return False
    return display.ram_fb is None or display.ram_fb.enabled is not False
