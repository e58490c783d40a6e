"""On which hosts the vCenter would start a VM."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.vsphere.inventory.vms import DynamicBacking, FixedBacking
from support.memory_vcenter.vms import Vm
from support.memory_vcenter.world import EsxiHost, RefusedError


def candidates(vm: Vm, hosts: Sequence[EsxiHost]) -> list[EsxiHost]:
    """Its own host first. Raises RefusedError where there is none."""
    cluster = vm.host.cluster
    none = RefusedError("NoCompatibleHost", "No host is compatible with the virtual machine.")
    fixed = any(isinstance(one.backing, FixedBacking) for one in vm.devices)
    if not cluster.drs or fixed:
        vm.host.refuse()
        if not _allowed(vm, vm.host):
            raise none
        return [vm.host]
    others = (one for one in hosts if one.cluster is cluster and one is not vm.host)
    found = [
        one
        for one in (vm.host, *others)
        if one.usable and _allowed(vm, one) and one.offers(vm.groups)
    ]
    if not found or not _any_has(found, vm):
        raise none
    return found


def _allowed(vm: Vm, host: EsxiHost) -> bool:
    cluster = host.cluster
    return all(
        host.name in cluster.host_groups.get(hosts, ())
        for group, hosts in cluster.must_run.items()
        if vm.ref in cluster.vm_groups.get(group, ())
    )


def _any_has(hosts: Sequence[EsxiHost], vm: Vm) -> bool:
    return all(
        any(gpu.serves(one.backing) for host in hosts for gpu in host.gpus)
        for one in vm.devices
        if isinstance(one.backing, DynamicBacking)
    )
