"""What is said of a node: each check on facts that are well, and on facts that are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.doctor.finding import Finding, Level, healthy
from laneway.core.doctor.node import judge
from laneway.core.doctor.node_facts import NodeFacts
from laneway.core.driver_toolkit.standing import Standing
from laneway.core.inventory import DeviceError, Inventory
from laneway.core.pci import Bar, PciAddress, PciFunction

GPU = PciAddress.parse("0000:08:00.0")
NIC = PciAddress.parse("0000:04:00.0")
MODULES = {"vfio-pci": "loaded", "vfio": "built in", "vfio_iommu_type1": "built in"}


def a2(**changes: Any) -> PciFunction:
    facts: dict[str, Any] = {
        "address": GPU,
        "vendor": "10de",
        "device": "25b6",
        "class_code": "030200",
        "driver": "nvidia",
        "iommu_group": 12,
        "reset_methods": ("flr",),
        "total_vfs": 16,
        "sriov_gpu": True,
    }
    return PciFunction(**facts | changes)


def nic(**changes: Any) -> PciFunction:
    facts: dict[str, Any] = {
        "address": NIC,
        "vendor": "8086",
        "device": "1521",
        "class_code": "020000",
        "driver": "igb",
        "iommu_group": 4,
        "reset_methods": ("flr",),
        "total_vfs": 7,
    }
    return PciFunction(**facts | changes)


def node(
    *functions: PciFunction, inventory: dict[str, Any] | None = None, **facts: Any
) -> NodeFacts:
    """A node that is well, but for what a test says."""
    inside = {"functions": functions or (nic(),), "nvidia_driver": "535.1"} | (inventory or {})
    well: dict[str, Any] = {
        "kernel": "6.8.0",
        "iommu_groups": 20,
        "remapping": True,
        "modules": MODULES,
        "sriov_manage": True,
        "kubelet": "/var/lib/kubelet",
        "kubelet_state": "ready",
        "vfio_nodes": frozenset({"vfio"}),
        "huge_pages": 0,
        "taken": (),
    }
    return NodeFacts(inventory=Inventory(**inside), **well | facts)


def of(facts: NodeFacts, check: str) -> list[Finding]:
    """What one check says, but that all is well."""
    return [one for one in judge(facts) if one.check == check and one.level is not Level.OK]


def only(facts: NodeFacts, check: str) -> Finding:
    [found] = of(facts, check)
    return found


def test_a_node_that_is_well_has_no_findings_but_good_ones() -> None:
    assert {one.level for one in judge(node(a2(), nic()))} == {Level.OK}


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        ({"arguments": ("quiet", "intel_iommu=off")}, "Remove intel_iommu=off from"),
        ({"iommu_tables": ("DMAR",), "processor": "GenuineIntel"}, "Add intel_iommu=on"),
        (
            {"iommu_tables": ("DMAR",), "processor": "GenuineIntel"},
            "with: laneway host prepare --apply. Reboot the node.",
        ),
        ({"processor": "AuthenticAMD"}, "AMD-Vi"),
    ],
)
def test_an_iommu_that_is_off_is_reported_with_who_has_it_off(
    facts: dict[str, Any], remedy: str
) -> None:
    found = only(node(iommu_groups=0, **facts), "Iommu")
    assert found.level is Level.PROBLEM
    assert remedy in found.remedy


def test_interrupts_that_are_not_remapped_are_a_problem_unless_unknown() -> None:
    assert only(node(remapping=False), "InterruptRemapping").level is Level.PROBLEM
    assert of(node(remapping=None), "InterruptRemapping") == []
    assert only(node(unsafe_interrupts=True), "InterruptRemapping").level is Level.ADVICE


@pytest.mark.parametrize(
    ("modules", "problem"),
    [
        ({"vfio-pci": "missing"}, True),
        ({"vfio-pci": "loadable", "vfio_iommu_type1": "missing"}, False),
        (MODULES | {"vfio_iommu_type1": "missing"}, True),
        (MODULES | {"vfio-pci": "built in"}, False),
    ],
)
def test_vfio_may_be_loaded_built_in_or_loadable(modules: dict[str, str], problem: bool) -> None:
    found = of(node(modules=modules), "VfioModules")
    assert bool(found) == problem


def test_vfio_without_its_node_is_a_problem() -> None:
    assert "modprobe vfio" in only(node(vfio_nodes=frozenset()), "VfioModules").remedy


def test_a_log_that_cannot_be_read_is_reported() -> None:
    assert "no /dev/kmsg" in only(node(kernel_log="no /dev/kmsg"), "KernelLog").what


def test_nouveau_is_reported_with_its_cards() -> None:
    found = only(node(a2(driver="nouveau")), "Nouveau")
    assert found.level is Level.PROBLEM
    assert "0000:08:00.0" in found.what
    assert "laneway host prepare --apply --block-driver nouveau. Reboot" in found.remedy


@pytest.mark.parametrize("driver", ["NovaCore", "nova_core"])
def test_the_remedy_is_about_the_driver_that_has_the_card(driver: str) -> None:
    found = only(node(a2(driver=driver)), "Nouveau")
    assert found.what.endswith(f"on driver {driver}")
    assert "laneway host prepare --apply --block-driver nova_core. Reboot" in found.remedy
    assert "nouveau" not in found.remedy


def test_a_plain_driver_on_a_card_that_could_be_shared_is_reported() -> None:
    plain = node(a2(), sriov_manage=False)
    assert "is not the vGPU driver for hosts" in only(plain, "VgpuDriver").what
    part = node(a2(), sriov_manage=False, vgpu_modules=("nvidia_vgpu_vfio",))
    assert only(part, "VgpuDriver").what == "sriov-manage is not installed"
    none = node(a2(driver=""), inventory={"nvidia_driver": ""})
    assert only(none, "NvidiaDriver").level is Level.ADVICE
    assert of(node(nic(), inventory={"nvidia_driver": ""}), "NvidiaDriver") == []


def test_the_driver_toolkits_words_take_the_place_of_advice_to_install() -> None:
    bare = {"inventory": {"nvidia_driver": ""}}
    failed = node(a2(driver=""), driver=Standing("HashMismatch", "Other bytes."), **bare)
    assert only(failed, "DriverToolkit").level is Level.PROBLEM
    assert only(failed, "DriverToolkit").what == "HashMismatch: Other bytes."
    assert of(failed, "NvidiaDriver") == []

    coming = node(a2(driver=""), driver=Standing("DriverInstalling", "17 MiB."), **bare)
    assert only(coming, "DriverToolkit").level is Level.ADVICE
    assert of(node(a2(), driver=Standing("DriverReady", "", ready=True)), "DriverToolkit") == []


def test_sriov_that_is_off_in_firmware_is_reported() -> None:
    gpu = node(a2(total_vfs=None, sriov_gpu=False))
    assert only(gpu, "SriovFirmware").level is Level.PROBLEM
    in_vm = only(node(a2(total_vfs=None, sriov_gpu=False), virtual=True), "SriovFirmware")
    assert in_vm.level is Level.ADVICE
    assert "itself a VM" in in_vm.what
    card = node(nic(total_vfs=0))
    assert "allows 0 virtual functions" in only(card, "SriovFirmware").what


def test_memory_without_a_place_is_reported_with_whose_it_is() -> None:
    own = only(node(nic(), unassigned={NIC: (0, 2)}), "MemoryRanges")
    assert "memory of it (ranges 0, 2)" in own.what
    vfs = only(node(nic(), unassigned={NIC: (7,)}), "MemoryRanges")
    assert "memory of its virtual functions" in vfs.what
    assert "Above 4G" in vfs.remedy


def test_ari_matters_only_beyond_seven_functions() -> None:
    assert of(node(nic(), no_ari=frozenset({NIC})), "Ari") == []
    assert (
        "63 virtual functions" in only(node(nic(total_vfs=63), no_ari=frozenset({NIC})), "Ari").what
    )


def test_a_group_with_a_disk_of_the_node_is_reported_with_the_refusals_text() -> None:
    disk = PciAddress.parse("0000:05:00.0")
    member = nic(address=disk, class_code="010802", driver="nvme", iommu_group=12, total_vfs=None)
    found = only(
        node(a2(), member, inventory={"critical": {disk: ("holds the root file system",)}}),
        "IommuGroups",
    )
    assert "it shares IOMMU group 12 with 0000:05:00.0" in found.what
    assert "ACS" in found.remedy


def test_functions_without_a_server_are_a_problem() -> None:
    vf = PciAddress.parse("0000:08:00.4")
    gpu = a2(vfs=(vf,), num_vfs=1)
    child = nic(address=vf, vendor="10de", class_code="030200", driver="", physfn=GPU)
    assert only(node(gpu, child), "Framework").level is Level.PROBLEM


def test_whole_cards_with_much_memory_want_huge_pages() -> None:
    bar = Bar(index=1, size=64 << 30, wide=True)
    whole = a2(driver="vfio-pci", bars=(bar,))
    facts = {"vfio_nodes": frozenset({"vfio", "12"}), "taken": ("0000:08:00.0",)}
    assert "no huge pages" in only(node(whole, **facts), "HugePages").what
    assert of(node(whole, huge_pages=64, **facts), "HugePages") == []
    assert of(node(a2(bars=(bar,))), "HugePages") == []


def test_what_is_on_vfio_by_others_is_reported_with_who_may_have_done_it() -> None:
    bound = nic(driver="vfio-pci")
    nodes = frozenset({"vfio", "4"})
    assert "another program" in only(node(bound, vfio_nodes=nodes), "OnVfio").what
    by_boot = node(bound, vfio_nodes=nodes, arguments=("vfio-pci.ids=8086:1521",))
    assert "the kernel command line" in only(by_boot, "OnVfio").what
    assert of(node(bound, vfio_nodes=nodes, taken=(str(NIC),)), "OnVfio") == []
    assert of(node(bound, vfio_nodes=nodes, taken=None), "OnVfio") == []


def test_a_device_on_vfio_without_its_node_is_a_problem_where_that_can_be_seen() -> None:
    bound = nic(driver="vfio-pci")
    assert only(node(bound), "VfioNodes").level is Level.PROBLEM
    assert of(node(bound, hidden=("/dev/vfio",)), "VfioNodes") == []


@pytest.mark.parametrize(
    ("state", "level"),
    [("none", Level.ADVICE), ("no folder", Level.PROBLEM), ("no socket", Level.PROBLEM)],
)
def test_a_kubelet_that_takes_no_plugins_is_reported(state: Any, level: Level) -> None:
    assert only(node(kubelet_state=state), "Kubelet").level is level


def test_who_else_allocates_or_changes_devices_is_reported() -> None:
    plugin = node(plugin_sockets=("kubevirt-intel.com-x.sock", "nvidia-gpu.sock"))
    assert "nvidia-gpu.sock" in only(plugin, "OtherPlugins").what
    other = only(node(programs={"pcidevices": 1}), "OtherControllers")
    assert other.level is Level.PROBLEM
    assert "laneway takeover" in other.remedy
    client = only(node(programs={"nv-hostengine": 2}), "GpuClients")
    assert "2 processes" in client.what


def test_what_could_not_be_seen_is_reported() -> None:
    found = of(node(visibility_error="root is needed", hidden=("/var/lib/laneway",)), "Rights")
    assert len(found) == 2
    assert "/var/lib/laneway" in found[1].what


def test_what_failed_is_reported() -> None:
    bad = node(
        nic(),
        inventory={"errors": (DeviceError("0000:09:00.0", "cannot be read"),)},
        quarantined={NIC: "reset timed out"},
    )
    assert "0000:09:00.0: cannot be read" in only(bad, "Unreadable").what
    assert "laneway host quarantine --lift 0000:04:00.0" in only(bad, "Quarantine").remedy
    assert not healthy(judge(bad))


def test_a_machine_without_devices_has_nothing_to_give() -> None:
    empty = NodeFacts(inventory=Inventory())
    assert "no PCI device" in only(empty, "PciDevices").what


functions = st.builds(
    PciFunction,
    address=st.builds(PciAddress, st.just(0), st.integers(0, 255), st.just(0), st.integers(0, 7)),
    vendor=st.sampled_from(["10de", "8086", "ffff"]),
    device=st.sampled_from(["25b6", "20f1", "0000"]),
    class_code=st.sampled_from(["030200", "030000", "060400", "020000", "010802"]),
    driver=st.sampled_from(["", "nvidia", "vfio-pci", "nouveau", "igb"]),
    iommu_group=st.none() | st.integers(0, 5),
    total_vfs=st.none() | st.integers(0, 64),
    sriov_gpu=st.booleans(),
)


@given(
    st.lists(functions, max_size=6, unique_by=lambda one: one.address),
    st.integers(0, 3),
    st.sampled_from([None, True, False]),
    st.text(max_size=9),
)
def test_any_facts_can_be_judged_and_every_problem_has_a_why_and_a_remedy(
    devices: list[PciFunction], groups: int, remapping: bool | None, text: str
) -> None:
    inventory = Inventory(functions=tuple(sorted(devices, key=lambda one: one.address)))
    facts = NodeFacts(
        inventory=inventory,
        iommu_groups=groups,
        remapping=remapping,
        kubelet=text,
        plugin_sockets=(text,),
        programs={text: 1},
        visibility_error=text,
    )
    for one in judge(facts):
        assert one.what
        assert one.level is not Level.PROBLEM or (one.why and one.remedy)
