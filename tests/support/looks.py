"""Looks at one GPU, made up by hand: what a layout is decided from."""

from __future__ import annotations

import msgspec

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import ConfiguredVgpu, Framework, Inventory, VgpuFunction, VgpuType
from laneway.core.layout.plan import DesiredGpu
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Plan, Step
from laneway.core.refusals import Refusal
from laneway.core.situation import Holder, Situation

GPU = PciAddress.parse("0000:08:00.0")
VFS = tuple(PciAddress(0, 8, 1 + index // 8, index % 8) for index in range(20))
A2, L40S, A100, RTX_PRO = "25b6", "26b9", "20f1", "2bb5"
DC = "NVIDIA RTX Pro 6000 Blackwell DC"
QEMU = Holder("process", "process 4711 (qemu-system-x86) has /dev/vfio/12 open")


def pf(device: str = A2, vfs: int = 16, **more: object) -> PciFunction:
    facts = {
        "address": GPU,
        "vendor": "10de",
        "device": device,
        "class_code": "030200",
        "driver": "nvidia",
        "iommu_group": 42,
        "total_vfs": 16,
        "num_vfs": vfs,
        "vfs": VFS[:vfs],
        "sriov_gpu": True,
    }
    return PciFunction(**{**facts, **more})


def kinds(*names: str, framework: Framework = "mdev") -> tuple[VgpuType, ...]:
    """Types with made-up ids, as a driver would list them."""
    prefix = "nvidia-" if framework == "mdev" else ""
    return tuple(VgpuType(f"{prefix}{700 + sum(map(ord, name)) % 200}", name) for name in names)


A2_NAMES = tuple(f"NVIDIA A2-{size}" for size in ("1Q", "2Q", "4Q", "8Q", "16Q", "4C", "8C", "1B"))


def situation(
    gpu: PciFunction | None = None,
    carried: dict[int, str] | None = None,
    *,
    names: tuple[str, ...] = A2_NAMES,
    framework: Framework = "mdev",
    modes: GpuModes | None = None,
    held: tuple[int, ...] = (),
    places: dict[int, tuple[int | None, int | None]] | None = None,
    **more: object,
) -> Situation:
    gpu = gpu or pf()
    listed = kinds(*names, framework=framework)
    vgpus = []
    for index, address in enumerate(gpu.vfs):
        name = (carried or {}).get(index)
        placement, instance = (places or {}).get(index, (None, None))
        vgpus.append(
            VgpuFunction(
                address=address,
                parent=gpu.address,
                framework=framework,
                supported=listed,
                creatable=() if name else listed,
                configured=ConfiguredVgpu(
                    kinds(name, framework=framework)[0].id,
                    name,
                    uuid=f"uuid-{index}" if framework == "mdev" else "",
                    placement=placement,
                    gpu_instance=instance,
                )
                if name
                else None,
            )
        )
    vf_functions = tuple(
        msgspec.structs.replace(
            gpu, address=address, physfn=gpu.address, vfs=(), num_vfs=0, total_vfs=None
        )
        for address in gpu.vfs
    )
    facts: dict[str, object] = {
        "node": "node",
        "inventory": Inventory(functions=(gpu, *vf_functions), vgpus=tuple(vgpus)),
        "holders": {VFS[index]: (QEMU,) for index in held},
        "gpus": {gpu.address: modes or GpuModes(mixed_size=False)},
        "sriov_manage": True,
    }
    return Situation(**{**facts, **more})


def desired(*vgpus: tuple[str, int], mixed_size: bool = False, parameters: str = "") -> DesiredGpu:
    return DesiredGpu(GPU, vgpus, mixed_size, parameters)


def steps(decision: object) -> list[Step]:
    assert isinstance(decision, Plan), decision
    return list(decision.steps)


def reasons(decision: object) -> list[str]:
    assert isinstance(decision, tuple), decision
    for refusal in decision:
        assert isinstance(refusal, Refusal)
        assert refusal.words
    return [refusal.reason for refusal in decision]
