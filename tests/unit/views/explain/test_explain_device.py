"""The page about a device of a host, for hosts put together by hand."""

from typing import Any

import click
import pytest

from laneway.cli.page import text
from laneway.core.inventory import (
    ConfiguredVgpu,
    DeviceError,
    Inventory,
    UsbDevice,
    VgpuFunction,
    VgpuType,
)
from laneway.core.pci import Bar, Link, PciAddress, PciFunction
from laneway.views.explain.device import explain_pci, explain_usb, link, size

GPU = PciAddress.parse("0000:08:00.0")
AUDIO = PciAddress.parse("0000:08:00.1")
VF = PciAddress.parse("0000:08:00.4")


def gpu(**fields: Any) -> PciFunction:
    defaults: dict[str, Any] = {
        "address": GPU,
        "vendor": "10de",
        "device": "27b8",
        "class_code": "030200",
        "driver": "nvidia",
        "iommu_group": 42,
        "reset_methods": ("flr",),
    }
    return PciFunction(**(defaults | fields))


def page_of(
    capsys: pytest.CaptureFixture[str], inventory: Inventory, device: PciFunction | UsbDevice
) -> str:
    explain = explain_pci if isinstance(device, PciFunction) else explain_usb
    click.echo(text(explain(device, inventory)), nl=False)  # type: ignore[arg-type]
    return capsys.readouterr().out


def test_page_names_the_group_group_members_and_what_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    audio = gpu(address=AUDIO, class_code="040300", device="ffff", driver="snd_hda_intel")
    out = page_of(capsys, Inventory(functions=(gpu(), audio)), gpu())
    assert "NVIDIA Corporation AD104GL [L4]" in out
    assert "with 0000:08:00.1 NVIDIA Corporation Device ffff (Audio device)" in out
    assert "driver snd_hda_intel" in out
    assert "Yes, as nvidia.com/AD104GL_L4." in out
    assert "- other devices of IOMMU group 42 also leave the node: 0000:08:00.1" in out


def test_refusal_comes_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    lonely = gpu(iommu_group=None)
    out = page_of(capsys, Inventory(functions=(lonely,)), lonely)
    assert "  No.\n  - it has no IOMMU group" in out
    assert "\n    Enable the IOMMU" in out


def test_warning_is_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    stuck = gpu(reset_methods=())
    out = page_of(capsys, Inventory(functions=(stuck,)), stuck)
    assert "Yes, as" in out
    assert "- warning: the kernel has no method to reset it" in out


def test_memory_counts_every_bar_but_ports(capsys: pytest.CaptureFixture[str]) -> None:
    bars = (
        Bar(0, 1 << 20),
        Bar(1, 3 << 20, prefetchable=True, wide=True),
        Bar(5, 1 << 20, io=True),
    )
    out = page_of(capsys, Inventory(functions=(gpu(bars=bars),)), gpu(bars=bars))
    assert "0: 1 MiB memory, 32-bit\n" in out
    assert "1: 3 MiB memory, 64-bit, prefetchable\n" in out
    assert "5: 1 MiB I/O ports\n" in out
    assert "memory, all BARs  4 MiB" in out


def test_vf_tells_what_it_carries_and_what_it_could(capsys: pytest.CaptureFixture[str]) -> None:
    small, large = VgpuType("744", "NVIDIA A2-1Q"), VgpuType("746", "NVIDIA A2-4Q")
    free = VgpuFunction(
        address=VF,
        parent=GPU,
        framework="vendor-vfio",
        supported=(small, large),
        creatable=(large,),
    )
    vf = gpu(address=VF, physfn=GPU)
    out = page_of(capsys, Inventory(functions=(gpu(), vf), vgpus=(free,)), vf)
    assert "can be created now  NVIDIA A2-4Q (type 746)" in out
    assert "not possible now    NVIDIA A2-1Q (type 744)" in out
    assert "Not the function itself." in out

    taken = VgpuFunction(
        address=VF,
        parent=GPU,
        framework="vendor-vfio",
        supported=(),
        creatable=(),
        configured=ConfiguredVgpu("746", "NVIDIA A2-4Q"),
    )
    out = page_of(capsys, Inventory(functions=(gpu(), vf), vgpus=(taken,)), vf)
    assert "Its vGPU can, as nvidia.com/NVIDIA_A2-4Q." in out


def test_what_could_not_be_read_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    errors = (DeviceError("0000:08:00.0", "resource: no such file"),)
    out = page_of(capsys, Inventory(functions=(gpu(),), errors=errors), gpu())
    assert "Could not be read\n  resource: no such file" in out


def test_usb_device_says_why_the_node_keeps_it(capsys: pytest.CaptureFixture[str]) -> None:
    stick = UsbDevice(port="1-2", vendor="0781", product="5583", bus=1, number=3, class_code="08")
    inventory = Inventory(usb=(stick,), critical_usb={"1-2": ("holds /",)})
    assert "- critical to the node: holds /" in page_of(capsys, inventory, stick)


def test_link_shows_what_is_missing() -> None:
    assert link(Link("8.0 GT/s PCIe", 8, "16.0 GT/s PCIe", 16)) == (
        "x8 of x16, 8.0 GT/s PCIe of 16.0 GT/s PCIe"
    )
    assert link(Link("16.0 GT/s PCIe", 16, "16.0 GT/s PCIe", 16)) == "x16, 16.0 GT/s PCIe"
    assert link(Link()) == ""


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1 << 20, "1 MiB"),
        (3 << 19, "1.5 MiB"),
        (1 << 64, "16777216 TiB"),
    ],
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text
