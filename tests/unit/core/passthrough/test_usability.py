"""Whether a device can be claimed, on small hosts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.inventory import ConfiguredVgpu, Inventory, UsbDevice, VgpuFunction
from laneway.core.passthrough.usability import (
    Effect,
    Reason,
    ReasonKind,
    judge_all,
    judge_function,
    judge_usb,
    needed_remedy,
    remedy,
    short,
    text,
    usable,
)
from laneway.core.pci import PciAddress, PciFunction

GPU = PciAddress.parse("0000:08:00.0")
AUDIO = PciAddress.parse("0000:08:00.1")
VF = PciAddress.parse("0000:08:00.4")


def function(address: PciAddress = GPU, **fields: Any) -> PciFunction:
    given_fields = {
        "vendor": "10de",
        "device": "25b6",
        "class_code": "030200",
        "driver": "nvidia",
        "iommu_group": 42,
        "reset_methods": ("flr", "bus"),
    } | fields
    return PciFunction(address=address, **given_fields)


def vgpu(address: PciAddress = VF, configured: ConfiguredVgpu | None = None) -> VgpuFunction:
    return VgpuFunction(
        address=address,
        parent=GPU,
        framework="mdev",
        supported=(),
        creatable=(),
        configured=configured,
    )


def kinds(subject: PciFunction, *others: PciFunction, **fields: Any) -> list[ReasonKind]:
    inventory = Inventory(functions=(subject, *others), **fields)
    return [reason.kind for reason in judge_function(subject, inventory)]


def test_device_alone_in_its_group_has_nothing_against_it() -> None:
    assert kinds(function()) == []
    assert usable([])


def test_critical_device_says_why_the_node_needs_it() -> None:
    disk = function(class_code="010802", driver="nvme")
    inventory = Inventory(functions=(disk,), critical={GPU: ("holds /", "holds swap")})
    reasons = judge_function(disk, inventory)
    assert not usable(reasons)
    assert short(reasons) == "critical to the node: holds /; holds swap"


@pytest.mark.parametrize("class_code", ["060400", "060000", "060100"])
def test_bridges_of_every_kind_are_the_machine_itself(class_code: str) -> None:
    assert kinds(function(class_code=class_code, iommu_group=None)) == [ReasonKind.BRIDGE]


def test_nvswitch_is_a_device_like_any_other_though_its_class_says_bridge() -> None:
    assert kinds(function(class_code="068000", driver="")) == []


def test_without_iommu_group_there_is_a_remedy() -> None:
    subject = function(iommu_group=None)
    # A second device without a group is no group member: "no group" is not a group.
    other = function(AUDIO, iommu_group=None)
    [reason] = judge_function(subject, Inventory(functions=(subject, other)))
    assert reason.kind is ReasonKind.NO_IOMMU_GROUP
    assert "intel_iommu=on" in remedy(reason)


def test_harmless_group_group_members_come_along_and_are_named() -> None:
    audio = function(AUDIO, class_code="040300", driver="snd_hda_intel")
    reasons = judge_function(function(), Inventory(functions=(function(), audio)))
    assert usable(reasons)
    assert [text(reason) for reason in reasons] == [
        "other devices of IOMMU group 42 also leave the node: 0000:08:00.1"
    ]


def test_critical_group_group_member_blocks_and_is_named_with_its_reason() -> None:
    member = function(AUDIO, class_code="020000", driver="igb")
    inventory = Inventory(functions=(function(), member), critical={AUDIO: ("default route",)})
    reasons = judge_function(function(), inventory)
    assert not usable(reasons)
    assert "0000:08:00.1, which is critical to the node: default route" in short(reasons)


@pytest.mark.parametrize(
    ("class_code", "driver", "expected"),
    [
        ("060400", "pcieport", []),
        ("060000", "", []),
        ("060100", "lpc_ich", [ReasonKind.GROUP_CRITICAL]),
    ],
)
def test_bridge_in_the_group_matters_only_when_a_driver_holds_it(
    class_code: str, driver: str, expected: list[ReasonKind]
) -> None:
    bridge = function(AUDIO, class_code=class_code, driver=driver)
    critical = {AUDIO: ("bridge above the root disk",)} if class_code == "060400" else {}
    assert kinds(function(), bridge, critical=critical) == expected


def test_pf_with_vfs_cannot_be_given_whole_and_names_the_vgpus_on_them() -> None:
    configured = vgpu(configured=ConfiguredVgpu("nvidia-746", "NVIDIA A2-4Q"))
    card = function(vfs=(VF,), num_vfs=1, total_vfs=16, sriov_gpu=True)
    [reason] = judge_function(card, Inventory(functions=(card,), vgpus=(configured,)))
    assert reason.kind is ReasonKind.VFS_ENABLED
    assert text(reason) == ("its virtual functions are enabled: 1 (0000:08:00.4 has NVIDIA A2-4Q)")


def test_vf_with_a_vgpu_names_the_profile() -> None:
    vf = function(VF, physfn=GPU)
    configured = vgpu(configured=ConfiguredVgpu("nvidia-746", "NVIDIA A2-4Q"))
    [reason] = judge_function(vf, Inventory(functions=(vf,), vgpus=(configured,)))
    assert reason.kind is ReasonKind.VGPU_CONFIGURED
    assert "NVIDIA A2-4Q" in text(reason)


def test_vf_of_a_vgpu_card_is_blocked_and_vf_of_a_nic_is_not() -> None:
    vf = function(VF, physfn=GPU)
    assert kinds(vf, vgpus=(vgpu(),)) == [ReasonKind.VGPU_FUNCTION]
    card = function(iommu_group=7, sriov_gpu=True, vfs=(VF,))
    assert kinds(vf, card) == [ReasonKind.VGPU_FUNCTION]
    nic = function(class_code="020000", iommu_group=7, vfs=(VF,))
    assert kinds(vf, nic) == []


def test_card_that_could_carry_vgpus_itself_is_free_until_one_is_configured() -> None:
    card = function()
    assert kinds(card, vgpus=(vgpu(GPU),)) == []
    occupied = vgpu(GPU, ConfiguredVgpu("nvidia-63", ""))
    assert kinds(card, vgpus=(occupied,)) == [ReasonKind.VGPU_CONFIGURED]


def test_vf_in_the_group_of_its_pf_cannot_leave_alone() -> None:
    nic = function(class_code="020000", vfs=(VF,), num_vfs=1)
    vf = function(VF, class_code="020000", physfn=GPU)
    assert kinds(vf, nic) == [ReasonKind.GROUP_IN_USE]


def test_missing_reset_warns_and_vfio_informs_without_blocking() -> None:
    subject = function(reset_methods=(), driver="vfio-pci")
    reasons = judge_function(subject, Inventory(functions=(subject,)))
    assert [(r.kind, r.effect) for r in reasons] == [
        (ReasonKind.NO_RESET, Effect.WARNS),
        (ReasonKind.ON_VFIO, Effect.INFORMS),
    ]
    assert usable(reasons)


@pytest.mark.parametrize("subject", [GPU, AUDIO])
def test_console_display_warns_whether_it_is_given_or_comes_along(subject: PciAddress) -> None:
    functions = {GPU: function(), AUDIO: function(AUDIO, class_code="040300")}
    inventory = Inventory(
        functions=tuple(functions.values()), displays={GPU: ("is the boot display",)}
    )
    reasons = judge_function(functions[subject], inventory)
    assert usable(reasons)
    [warning] = [reason for reason in reasons if reason.effect is Effect.WARNS]
    assert text(warning) == (
        "the node's console stays blank until the next boot: 0000:08:00.0 is the boot display"
    )
    assert "serial line" in remedy(warning)


def test_usb_hub_and_critical_usb_device_are_kept() -> None:
    hub = UsbDevice(port="1-1", vendor="1d6b", product="0104", bus=1, number=2, class_code="09")
    stick = UsbDevice(port="1-2", vendor="0781", product="5581", bus=1, number=3, class_code="08")
    inventory = Inventory(usb=(hub, stick), critical_usb={"1-2": ("holds /",)})
    assert [r.kind for r in judge_usb(hub, inventory)] == [ReasonKind.USB_HUB]
    assert [text(r) for r in judge_usb(stick, inventory)] == ["critical to the node: holds /"]
    assert judge_usb(stick, Inventory(usb=(stick,))) == []


def test_every_kind_has_words() -> None:
    for kind in ReasonKind:
        assert text(Reason(kind=kind))
        assert isinstance(remedy(Reason(kind=kind)), str)


_functions = st.builds(
    PciFunction,
    address=st.builds(
        PciAddress, st.just(0), st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)
    ),
    vendor=st.just("10de"),
    device=st.just("0001"),
    class_code=st.sampled_from(["030200", "060400", "060100", "020000", "", "zz"]),
    driver=st.sampled_from(["", "vfio-pci", "nvidia", "lpc_ich"]),
    iommu_group=st.none() | st.integers(0, 2),
    physfn=st.none() | st.just(GPU),
    num_vfs=st.integers(0, 1),
)


@given(
    st.lists(_functions, max_size=8, unique_by=lambda f: f.address),
    st.sets(st.integers(0, 7), max_size=3),
)
def test_total_and_never_gives_away_a_group_that_holds_a_needed_device(
    functions: list[PciFunction], needed: set[int]
) -> None:
    critical = {f.address: ("disk",) for n, f in enumerate(functions) if n in needed}
    inventory = Inventory(functions=tuple(functions), critical=critical)
    verdicts = judge_all(inventory)
    for subject in functions:
        assert verdicts[subject.address] == judge_function(subject, inventory)
        if usable(verdicts[subject.address]):
            assert subject.address not in critical
            assert subject.iommu_group is not None
            for member in functions:
                if member.iommu_group == subject.iommu_group and not member.is_bridge:
                    assert member.address not in critical or (
                        member.class_code.startswith("06") and not member.driver
                    )


def test_a_part_of_the_node_itself_is_not_replaced_by_another_device() -> None:
    assert "choose another device" in needed_remedy(["host bridge"])
    assert "choose another device" in needed_remedy(["display of the management controller (BMC)"])
    assert "Make the node use another" in needed_remedy(["holds the root file system"])
