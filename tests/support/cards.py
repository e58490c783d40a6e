"""Cards with virtual functions in every condition, for the decisions about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.gpu.modes import GpuInstance, GpuModes
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuType
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.situation import Holder, Situation
from support.effects import Kernel

CARD = PciAddress.parse("0000:08:00.0")
TYPES = (VgpuType("nvidia-745", "NVIDIA A2-4Q"), VgpuType("nvidia-746", "NVIDIA A2-8Q"))
USER = Holder("process", "process 4711 (qemu-system-x86) has /dev/vfio/12 open")


@dataclass(frozen=True)
class Scene:
    """A card and everything around it."""

    card: PciAddress
    situation: Situation
    kernel: Kernel

    def function(self, address: PciAddress) -> PciFunction:
        functions = self.situation.inventory.functions
        return next(function for function in functions if function.address == address)

    def but(self, **fields: Any) -> Scene:
        """The same with other facts about the node."""
        return Scene(self.card, replace(self.situation, **fields), self.kernel)

    def where(self, address: PciAddress, **fields: Any) -> Scene:
        """The same with other facts about one function."""
        inventory = self.situation.inventory
        functions = tuple(
            replace(one, **fields) if one.address == address else one for one in inventory.functions
        )
        return self.but(inventory=replace(inventory, functions=functions))


def vf_addresses(count: int) -> list[PciAddress]:
    """As an A2's: from `.4` on, over the end of the slot."""
    return [PciAddress(0, 8, (4 + n) // 8, (4 + n) % 8) for n in range(count)]


def scene(
    *, gpu: bool = False, total: int = 16, existing: int = 0, framework: str = "mdev"
) -> Scene:
    """A healthy card that is not in use; VFs are on the drivers that want them."""
    driver, vf_driver = ("nvidia", "nvidia") if gpu else ("ice", "iavf")
    ids = ("10de", "25b6", "030200") if gpu else ("8086", "1592", "020000")
    vendor, device, class_code = ids
    vfs = tuple(
        PciFunction(
            address=address,
            vendor=vendor,
            device=device,
            class_code=class_code,
            driver=vf_driver,
            iommu_group=100 + n,
            reset_methods=("flr",),
            physfn=CARD,
        )
        for n, address in enumerate(vf_addresses(total))
    )
    card = PciFunction(
        address=CARD,
        vendor=vendor,
        device=device,
        class_code=class_code,
        driver=driver,
        iommu_group=42,
        reset_methods=("flr",),
        total_vfs=total,
        num_vfs=existing,
        vfs=tuple(vf.address for vf in vfs[:existing]),
        sriov_gpu=gpu,
    )
    kernel = Kernel({CARD: vfs}, {CARD: driver}, framework, TYPES)
    vgpus = tuple(kernel.vgpu(vf.address, CARD) for vf in vfs[:existing]) if gpu else ()
    inventory = Inventory(functions=(card, *vfs[:existing]), vgpus=vgpus, nvidia_driver="535")
    situation = Situation(
        node="node1",
        inventory=inventory,
        autoprobe={CARD: True},
        sriov_manage=True,
        gpus={CARD: GpuModes(mixed_size=False)} if gpu else {},
    )
    return Scene(CARD, situation, kernel)


@st.composite
def scenes(draw: st.DrawFn, *, gpu: bool | None = None, free: bool = False) -> Scene:
    """Any card; `free`: nothing of it is in use, broken or needed."""
    gpu = draw(st.booleans()) if gpu is None else gpu
    total = draw(st.integers(1, 8))
    existing = draw(st.integers(0, total)) if not gpu else draw(st.sampled_from((0, total)))
    framework = draw(st.sampled_from(("mdev", "vendor-vfio")))
    base = scene(gpu=gpu, total=total, existing=existing, framework=framework)
    situation = base.situation
    autoprobe = gpu or draw(st.booleans())
    changed: dict[PciAddress, PciFunction] = {}
    overrides: dict[PciAddress, str] = {}
    vgpus = {vgpu.address: vgpu for vgpu in situation.inventory.vgpus}
    for vf in situation.inventory.functions[1:]:
        own = vf.driver if autoprobe else draw(st.sampled_from((vf.driver, "")))
        on_vfio = draw(st.booleans()) and not (gpu and draw(st.booleans()))
        changed[vf.address] = replace(vf, driver="vfio-pci" if on_vfio else own)
        if on_vfio:
            overrides[vf.address] = "vfio-pci"
        elif gpu and draw(st.booleans()):
            kind = draw(st.sampled_from(TYPES))
            uuid = f"00000000-0000-0000-0000-{vf.iommu_group:012}" if framework == "mdev" else ""
            configured = ConfiguredVgpu(kind.id, kind.name, uuid)
            vgpus[vf.address] = replace(vgpus[vf.address], configured=configured)
    addresses = [base.card, *changed]
    functions = [changed.get(f.address, f) for f in situation.inventory.functions]
    some = st.sets(st.sampled_from(addresses), max_size=2)
    held, critical, quarantined = (set() if free else draw(some) for _ in range(3))
    if not free:
        # vfio-pci makes no VFs by itself, and the driver that made them takes them along.
        others = ("",) if existing else ("", "vfio-pci")
        driver = draw(st.sampled_from((functions[0].driver, *others)))
        functions[0] = replace(functions[0], driver=driver)
    modes = GpuModes(
        mig=None, mixed_size=draw(st.booleans()), instances=draw(instances()) if existing else ()
    )
    return Scene(
        base.card,
        replace(
            situation,
            inventory=replace(
                situation.inventory,
                functions=tuple(functions),
                vgpus=tuple(vgpus.values()),
                critical=dict.fromkeys(critical, ("holds /",)),
            ),
            overrides=overrides,
            autoprobe={base.card: autoprobe},
            holders=dict.fromkeys(held, (USER,)),
            quarantined=dict.fromkeys(quarantined, "Connection timed out"),
            sriov_manage=free or draw(st.booleans()),
            gpus={base.card: modes} if gpu else {},
        ),
        base.kernel,
    )


@st.composite
def instances(draw: st.DrawFn) -> tuple[GpuInstance, ...]:
    starts = sorted(draw(st.sets(st.integers(0, 6), max_size=3)))
    return tuple(
        GpuInstance(0, "1g.5gb", 19, start, 1, draw(st.integers(0, 1))) for start in starts
    )
