"""The facts about a node, from files as a kernel shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from laneway.core.pci import PciAddress
from laneway.host.driver_record import RECORD
from laneway.host.examine import examine
from laneway.host.modules import module_state
from laneway.host.plans.state import open_state
from laneway.host.real import RealHost
from laneway.sim.spec import build, parse_spec

GPU = PciAddress.parse("0000:08:00.0")


class NoPrograms:
    """An executor on a node that has none."""

    async def has(self, _program: str) -> bool:
        return False


@pytest.fixture
def host(files: Callable[[Mapping[str, str]], str]) -> Callable[[Mapping[str, str]], RealHost]:
    """A host with these files."""
    return lambda content: RealHost(files(content))


async def test_a_node_tells_kernel_interrupts_memory_and_programs(host: Any) -> None:
    node = host(
        {
            "/proc/cmdline": "quiet intel_iommu=on\n",
            "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\n"
            "flags\t\t: fpu hypervisor aes\n",
            "/proc/interrupts": " 1: 9 IR-IO-APIC 1-edge i8042\n 9: 0 IR-PCI-MSI 4-edge nvme0\n",
            "/proc/meminfo": "MemTotal: 1 kB\nHugePages_Total:       0\n",
            "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
            "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "12\n",
            "/proc/71/comm": "nv-hostengine\n",
            "/proc/72/comm": "nvidia-mig-mana\n",
            "/proc/73/comm": "bash\n",
            "/sys/kernel/iommu_groups/0/type": "DMA\n",
            "/sys/firmware/acpi/tables/DMAR": "",
            "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts": "Y\n",
            "/var/lib/kubelet/device-plugins/nvidia-gpu.sock": "",
            "/var/lib/kubelet/device-plugins/kubelet.sock": "",
            "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": "",
            "/dev/vfio/vfio": "",
        }
    )
    facts = await examine(node, NoPrograms(), "")
    assert facts.arguments == ("quiet", "intel_iommu=on")
    assert facts.processor == "GenuineIntel"
    assert facts.virtual
    assert facts.remapping is True
    assert facts.unsafe_interrupts
    assert facts.huge_pages == 12
    assert facts.programs == {"nv-hostengine": 1, "nvidia-mig-manager": 1}
    assert facts.iommu_groups == 1
    assert facts.iommu_tables == ("DMAR",)
    assert facts.kubelet_state == "ready"
    assert facts.plugin_sockets == ("nvidia-gpu.sock",)
    assert facts.vfio_nodes == {"vfio"}
    assert facts.kernel_log  # There is none below a folder.


async def test_an_empty_machine_has_neutral_facts(host: Any) -> None:
    facts = await examine(host({}), NoPrograms(), "")
    assert not facts.virtual
    assert facts.remapping is None
    assert facts.huge_pages is None
    assert facts.kubelet_state == "none"
    assert facts.programs == {}
    assert facts.modules["vfio-pci"] == "missing"


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ({"/var/lib/kubelet/pods/x": ""}, "no folder"),
        ({"/var/lib/kubelet/device-plugins/kubevirt-x.sock": ""}, "no socket"),
    ],
)
async def test_a_kubelet_is_known_by_its_files(
    host: Any, content: dict[str, str], state: str
) -> None:
    facts = await examine(host(content), NoPrograms(), "")
    assert facts.kubelet_state == state


async def test_interrupts_without_remapping_are_reported(host: Any) -> None:
    node = host({"/proc/interrupts": " 1: 9 IO-APIC 1-edge i8042\n 9: 0 PCI-MSI 4-edge nvme0\n"})
    assert (await examine(node, NoPrograms(), "")).remapping is False


async def test_memory_without_a_place_is_found_in_the_resource_file() -> None:
    simulated = build(parse_spec("a2"), "node1")
    path = f"/sys/bus/pci/devices/{GPU}/resource"
    lines = simulated.read(path).decode().splitlines()
    lines[1] = "0x0000000000000000 0x00000003ffffffff 0x000000002014220c"
    lines[7] = "0x0000000000000000 0x000000000fffffff 0x000000002014220c"
    content = "".join(f"{line}\n" for line in lines).encode()
    real = simulated.read
    simulated.read = lambda one: content if one == path else real(one)  # type: ignore[method-assign]
    facts = await examine(simulated, simulated, "")
    assert facts.unassigned == {GPU: (1, 7)}


async def test_what_laneway_noted_is_read_and_what_it_may_not_read_is_reported(
    tmp_path: Path,
) -> None:
    simulated = build(parse_spec("a2"), "node1")
    folder = tmp_path / "state"
    notes = open_state(str(folder), simulated)
    with notes.lock("test"):
        notes.claim(["0000:04:00.1"])
        notes.remember(GPU, "nvidia")
        notes.quarantine(GPU, "reset timed out")
    facts = await examine(simulated, simulated, str(folder))
    assert facts.taken == ("0000:04:00.1", "0000:08:00.0")
    assert facts.quarantined == {GPU: "reset timed out"}
    assert facts.sriov_manage
    assert facts.driver is None
    (folder / "devices.json").write_text("{")
    (folder / "driver").mkdir()
    (folder / RECORD).write_text('{"stage": "Failed", "boot": "an earlier one"}')
    spoilt = await examine(simulated, simulated, str(folder))
    assert spoilt.driver is not None
    assert spoilt.driver.reason == "DriverNotStarted"
    assert spoilt.taken is None
    assert str(folder) in spoilt.hidden


def test_a_module_is_loaded_built_in_loadable_or_missing(host: Any) -> None:
    node = host(
        {
            "/proc/sys/kernel/osrelease": "6.1.0\n",
            "/lib/modules/6.1.0/modules.builtin": "kernel/drivers/vfio/vfio.ko\n",
            "/lib/modules/6.1.0/modules.dep": "kernel/drivers/vfio/vfio_iommu_type1.ko.xz:\n"
            "kernel/x/loaded-one.ko:\n",
            "/sys/module/loaded_one/refcnt": "0\n",
        }
    )
    states = {
        name: module_state(node, name)
        for name in ("vfio", "vfio-iommu-type1", "loaded-one", "other")
    }
    assert list(states.values()) == ["built in", "loadable", "loaded", "missing"]
