"""What a machine of a KubevirtMachineTemplate will have, as its cluster will see it.

CPU and memory are what CAPK says of templates. Each vGPU is a GPU, and so is each whole device that
is one as far as any node's devices tell. A number that is not certain is not reported, as machines
would be made for it; and of GPUs of several vendors none, as the autoscaler knows one kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from laneway.core import names
from laneway.core.gpu.vendors import Vendor, resource_of
from laneway.core.machine_pools.capacity import CPU, GPU_COUNT, GPU_TYPE, MEMORY
from laneway.kube.capk import KubevirtMachineTemplate
from laneway.kube.kubevirt import Cpu, Domain

VendorsOf = Callable[[str], Iterable[Vendor | None]]
"""Whose GPUs the devices are that go by a resource, each; None for one that is no GPU."""


def of_template(template: KubevirtMachineTemplate, vendors_of: VendorsOf) -> dict[str, str]:
    """Values of annotations; none where the machines have no devices, or no size is said."""
    domain = template.machine.virtual_machine_template.spec.template.spec.domain
    memory = _memory(domain)
    requested = Counter(one.device_name for one in domain.devices.all if one.device_name)
    if not (requested and memory):
        return {}
    gpus: Counter[Vendor] = Counter()
    for resource, count in requested.items():
        vendors = {Vendor.NVIDIA} if names.is_vgpu_resource(resource) else {*vendors_of(resource)}
        if len(vendors) != 1:
            return _annotations(domain, memory)
        if (vendor := vendors.pop()) is not None:
            gpus[vendor] += count
    return _annotations(domain, memory) | (_of_gpus(gpus) if len(gpus) == 1 else {})


def _annotations(domain: Domain, memory: str) -> dict[str, str]:
    return {CPU: _cpu(domain), MEMORY: memory}


def _of_gpus(gpus: Counter[Vendor]) -> dict[str, str]:
    [(vendor, count)] = gpus.items()
    return {GPU_TYPE: resource_of(vendor), GPU_COUNT: str(count)}


def _cpu(domain: Domain) -> str:
    """The virtual processors, else what is requested of the scheduler; KubeVirt's default is 1."""
    resources = domain.resources
    said = resources.requests.get("cpu") or resources.limits.get("cpu")
    return str(said) if said and domain.cpu == Cpu() else str(domain.cpu.count)


def _memory(domain: Domain) -> str:
    """Empty where nothing is said of it."""
    resources = domain.resources
    said = (domain.memory.guest, resources.requests.get("memory"), resources.limits.get("memory"))
    return next((str(one) for one in said if one), "")
