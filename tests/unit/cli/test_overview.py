"""The rows of `laneway devices`, for hosts put together by hand."""

from typing import Any

from laneway.cli.overview import COLUMNS, overview
from laneway.cli.table import Row, plain
from laneway.core.inventory import (
    ConfiguredVgpu,
    Inventory,
    NetworkInterface,
    UsbDevice,
    VgpuFunction,
    VgpuType,
)
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.situation import Holder

GPU = PciAddress.parse("0000:08:00.0")
NIC = PciAddress.parse("0000:17:00.0")


def function(address: PciAddress, **fields: Any) -> PciFunction:
    defaults = {
        "vendor": "10de",
        "device": "25b6",
        "class_code": "030200",
        "driver": "nvidia",
        "iommu_group": address.bus * 256 + address.device * 8 + address.function,
        "reset_methods": ("flr",),
    }
    return PciFunction(address=address, **(defaults | fields))


def a2(configured: int) -> Inventory:
    """A card with four VFs, the first ones with a vGPU."""
    vfs = tuple(GPU._replace(function=n) for n in range(4, 8))
    free = (VgpuType("1", "NVIDIA A2-16Q"), VgpuType("2", "NVIDIA A2-4Q"))
    vgpus = tuple(
        VgpuFunction(
            address=vf,
            parent=GPU,
            framework="vendor-vfio",
            supported=free,
            creatable=() if n < configured else free,
            configured=ConfiguredVgpu("2", "NVIDIA A2-4Q") if n < configured else None,
        )
        for n, vf in enumerate(vfs)
    )
    return Inventory(
        functions=(
            function(GPU, vfs=vfs, num_vfs=4, total_vfs=16, sriov_gpu=True),
            *(function(vf, physfn=GPU) for vf in vfs),
        ),
        vgpus=vgpus,
    )


def cell(row: Row, title: str) -> str:
    return row.cells[[column.title for column in COLUMNS].index(title)]


def rows(inventory: Inventory, **options: Any) -> dict[str, Row]:
    sections = overview(inventory, **options)
    return {row.cells[0]: row for section in sections for row in section.rows}


def test_a_device_is_shown_with_the_processes_that_have_it() -> None:
    users = {
        "0000:08:00.0": (
            Holder("process", "process 7 (qemu) has /dev/vfio/8 open", 7),
            Holder("mount", "it holds the root file system"),
        )
    }
    [section] = overview(Inventory(functions=(function(GPU),)), users)
    assert cell(section.rows[0], "USED BY") == "process 7 (qemu) has /dev/vfio/8 open"


def test_gpu_counts_its_vgpus_and_lists_only_the_configured_ones() -> None:
    shown = rows(a2(configured=1))
    assert list(shown) == ["0000:08:00.0", "0000:08:00.4"]
    assert shown["0000:08:00.0"].notes == (
        "VFs 4: 1 with a vGPU, 3 free",
        "can be created now: A2-4Q, A2-16Q",
    )
    assert shown["0000:08:00.0"].cells[-1] == "no: its virtual functions are enabled: 4"
    vgpu = shown["0000:08:00.4"]
    assert vgpu.child
    assert cell(vgpu, "DEVICE") == "vGPU NVIDIA A2-4Q"
    assert vgpu.cells[-1] == "yes, its vGPU: nvidia.com/NVIDIA_A2-4Q"


def test_everything_lists_free_vfs_below_their_card() -> None:
    shown = rows(a2(configured=1), everything=True)
    assert len(shown) == 5
    assert shown["0000:08:00.5"].child
    assert shown["0000:08:00.5"].cells[-1] == "yes, once a vGPU is configured on it"


def test_full_card_says_that_nothing_more_fits() -> None:
    assert "no other vGPU can be created now" in rows(a2(configured=4))["0000:08:00.0"].notes


def test_card_that_carries_vgpus_without_sriov_is_listed_once() -> None:
    vgpu = VgpuFunction(
        address=GPU,
        parent=GPU,
        framework="mdev",
        supported=(),
        creatable=(VgpuType("nvidia-222", "GRID T4-1B"),),
    )
    shown = overview(Inventory(functions=(function(GPU),), vgpus=(vgpu,)), everything=True)
    [section] = shown
    [row] = section.rows
    assert row.notes[0] == "vGPUs: 0 with a vGPU, 1 free"
    assert row.cells[-1] == "yes"


def test_nic_tells_how_many_of_its_vfs_are_free_to_give() -> None:
    vfs = tuple(NIC._replace(device=1, function=n) for n in range(2))
    nic = function(NIC, class_code="020000", vfs=vfs, num_vfs=2, total_vfs=8)
    free, isolated = (function(vf, class_code="020000", physfn=NIC) for vf in vfs)
    isolated = function(vfs[1], class_code="020000", physfn=NIC, iommu_group=None)
    interface = NetworkInterface(name="ens1f0", address=NIC)
    inventory = Inventory(functions=(nic, free, isolated), interfaces=(interface,))
    [section] = overview(inventory)
    assert section.title == "Network cards with SR-IOV"
    [row] = section.rows
    assert row.notes == ("VFs 2 of 8: 1 can be given to a VM",)
    assert cell(row, "DEVICE").endswith("(ens1f0)")


def test_vf_without_its_pf_is_not_lost() -> None:
    vf = function(GPU, physfn=NIC)
    assert list(rows(Inventory(functions=(vf,)))) == ["0000:08:00.0"]


def test_parts_of_the_machine_appear_only_on_request() -> None:
    root = PciAddress.parse("0000:00:01.0")
    bridge = function(root, class_code="060400", driver="pcieport")
    counters = function(root._replace(device=2), class_code="110100")
    nvswitch = function(GPU, class_code="068000", upstream=root)
    dma = function(root._replace(device=3), class_code="088000", driver="ioatdma")
    card = function(PciAddress.parse("0000:09:00.0"), class_code="088000", upstream=root)
    hub = UsbDevice(port="1-1", vendor="8087", product="8000", bus=1, number=2, class_code="09")
    inventory = Inventory(functions=(bridge, counters, nvswitch, dma, card), usb=(hub,))
    assert set(rows(inventory)) == {"0000:08:00.0", "0000:09:00.0"}
    assert set(rows(inventory, everything=True)) == {
        "0000:08:00.0", "0000:09:00.0", "0000:00:01.0", "0000:00:02.0", "0000:00:03.0", "1-1",
    }  # fmt: skip


def test_group_column_names_few_group_members_and_counts_many() -> None:
    def group_of(size: int) -> str:
        functions = tuple(function(GPU._replace(function=n), iommu_group=9) for n in range(size))
        return cell(rows(Inventory(functions=functions))["0000:08:00.0"], "IOMMU")

    assert group_of(1) == "9"
    assert group_of(2) == "9 (with 0000:08:00.1)"
    assert group_of(5) == "9 (with 4 more)"


def test_bridge_in_the_group_is_no_group_member() -> None:
    bridge = function(PciAddress.parse("0000:00:01.0"), class_code="060400", iommu_group=9)
    inventory = Inventory(functions=(bridge, function(GPU, iommu_group=9)))
    assert cell(rows(inventory)["0000:08:00.0"], "IOMMU") == "9"


def test_refusal_stands_in_the_row_with_its_reason() -> None:
    inventory = Inventory(functions=(function(GPU),), critical={GPU: ("holds swap",)})
    assert rows(inventory)["0000:08:00.0"].cells[-1] == "no: critical to the node: holds swap"


def test_plain_table_is_one_line_per_device_whatever_the_device_says() -> None:
    hostile = function(GPU, driver="a\x1b[2J\nb")
    text = plain(COLUMNS, overview(Inventory(functions=(hostile,))))
    lines = text.splitlines()
    assert len(lines) == 3
    assert "\x1b" not in text
    assert lines[2].startswith("  0000:08:00.0  NVIDIA")
