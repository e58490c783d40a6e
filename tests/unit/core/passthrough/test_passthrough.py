"""Giving a function to vfio-pci and back: stories of one GPU with audio, and laws for any group."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.decision import Decision
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuFunction
from laneway.core.passthrough.binding import bind, release
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import (
    LoadModule,
    OverrideDriver,
    Plan,
    Probe,
    ResetFunction,
    Satisfied,
    SetConsole,
    SetFramebuffer,
    Step,
    Unbind,
    undo,
)
from laneway.core.refusals import DriverReserved
from laneway.core.situation import Console, Framebuffer, Holder, Situation
from support.effects import Kernel

PORT = PciAddress.parse("0000:00:01.0")
GPU = PciAddress.parse("0000:08:00.0")
AUDIO = PciAddress.parse("0000:08:00.1")
VM = Holder("process", "process 4711 (qemu-system-x86) has /dev/vfio/8 open")


def function(address: PciAddress, **fields: Any) -> PciFunction:
    given_fields = {
        "vendor": "10de",
        "device": "1b80",
        "class_code": "030000",
        "iommu_group": 8,
        "reset_methods": ("bus",),
    } | fields
    return PciFunction(address=address, **given_fields)


def workstation(gpu: str = "nouveau", audio: str = "snd_hda_intel", **fields: Any) -> Situation:
    """A GPU with its audio function, in one IOMMU group with the port that they are behind."""
    functions = (
        function(PORT, class_code="060400", driver="pcieport"),
        function(GPU, driver=gpu),
        function(AUDIO, class_code="040300", driver=audio, reset_methods=()),
    )
    inventory = fields.pop("inventory", {})
    return Situation(node="node", inventory=Inventory(functions=functions, **inventory), **fields)


def steps(decision: Decision) -> list[Step]:
    assert isinstance(decision, Plan), decision
    return list(decision.steps)


def words(decision: Decision) -> str:
    assert isinstance(decision, tuple), decision
    return "\n".join(refusal.words for refusal in decision)


# -------------------------------------------------------------------------------------------- bind


@pytest.mark.parametrize("asked", [GPU, AUDIO])
def test_the_group_goes_as_a_whole_whichever_function_was_requested(asked: PciAddress) -> None:
    assert steps(bind(asked, workstation())) == [
        Unbind(GPU, "nouveau"),
        OverrideDriver(GPU, "vfio-pci", ""),
        Probe(GPU, "vfio-pci"),
        Unbind(AUDIO, "snd_hda_intel"),
        OverrideDriver(AUDIO, "vfio-pci", ""),
        Probe(AUDIO, "vfio-pci"),
    ]


def test_what_is_on_vfio_pci_already_is_left_as_it_is() -> None:
    assert bind(GPU, workstation("vfio-pci", "vfio-pci")) == Satisfied()
    held = workstation("vfio-pci", "vfio-pci", holders={GPU: (VM,), AUDIO: (VM,)})
    assert bind(GPU, held) == Satisfied()
    half = steps(bind(GPU, workstation(audio="vfio-pci")))
    assert {step.function for step in half if not isinstance(step, LoadModule)} == {GPU}


def test_what_an_interruption_left_reserved_is_only_probed() -> None:
    left = workstation("", "vfio-pci", overrides={GPU: "vfio-pci", AUDIO: "vfio-pci"})
    assert steps(bind(GPU, left)) == [Probe(GPU, "vfio-pci")]


@pytest.mark.parametrize("driver", ["", "nouveau"])
def test_what_is_reserved_for_another_driver_is_left_to_it(driver: str) -> None:
    reserved = workstation(driver, overrides={AUDIO: "pci-stub"})
    assert bind(GPU, reserved) == (DriverReserved(str(AUDIO), "pci-stub"),)
    # Taken by other means than ours: the reservation is not ours to remove.
    taken = workstation("vfio-pci", "vfio-pci", overrides={GPU: "pci-stub", AUDIO: "vfio-pci"})
    assert [one for one in steps(release(GPU, taken)) if isinstance(one, OverrideDriver)] == [
        OverrideDriver(AUDIO, "", "vfio-pci")
    ]


def test_what_is_reserved_for_another_driver_than_it_has_can_still_be_put_back() -> None:
    reserved = workstation(audio="vfio-pci", overrides={GPU: "vfio-pci"})
    assert steps(bind(GPU, reserved)) == [
        OverrideDriver(GPU, "", "vfio-pci"),
        Unbind(GPU, "nouveau"),
        OverrideDriver(GPU, "vfio-pci", ""),
        Probe(GPU, "vfio-pci"),
    ]


def test_a_bridge_without_driver_stays_out_of_it() -> None:
    bridge = function(PORT, class_code="060000", driver="")
    planned = steps(bind(GPU, of(bridge, function(GPU, driver="nouveau"))))
    assert {step.function for step in planned if not isinstance(step, LoadModule)} == {GPU}


def test_vfio_pci_is_loaded_first_where_it_can_be() -> None:
    loadable = workstation(vfio_pci="loadable")
    assert steps(bind(GPU, loadable))[0] == LoadModule("vfio-pci")
    refusal = words(bind(GPU, workstation(vfio_pci="missing", kernel="6.1.0-x")))
    assert "6.1.0-x has no vfio-pci" in refusal


def test_the_console_leaves_the_boot_gpu_before_its_driver_does() -> None:
    screens = {
        "consoles": (
            Console(0, "(S) dummy device", attached=True),
            Console(1, "(M) frame buffer device", attached=True),
            Console(2, "(M) other device", attached=False),
        ),
        "framebuffers": (Framebuffer("efi-framebuffer.0", "efi-framebuffer"),),
    }
    boot = {"displays": {GPU: ("is the boot display",)}}
    dark = [
        SetConsole(1, "(M) frame buffer device", attached=False),
        SetFramebuffer("efi-framebuffer.0", "efi-framebuffer", bound=False),
    ]
    for asked in (GPU, AUDIO):
        assert steps(bind(asked, workstation(inventory=boot, **screens)))[:2] == dark
    # A GPU that shows nothing takes no console away.
    assert steps(bind(GPU, workstation(**screens)))[0] == Unbind(GPU, "nouveau")


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        (workstation(holders={AUDIO: (VM,)}), "0000:08:00.1 is in use: process 4711"),
        (workstation(visibility_error="no root"), "nothing is changed: no root"),
        (workstation(quarantined={AUDIO: "EIO"}), "0000:08:00.1 is in quarantine"),
        (workstation(silent=frozenset([GPU])), "no longer answers"),
        (
            workstation(inventory={"critical": {AUDIO: ("carries the console",)}}),
            "critical to the node: carries the console",
        ),
    ],
)
def test_nothing_of_a_group_goes_when_one_member_cannot(
    situation: Situation, expected: str
) -> None:
    for asked in (GPU, AUDIO):
        assert expected in words(bind(asked, situation))


def test_everything_that_speaks_against_is_reported_at_once() -> None:
    situation = workstation(
        holders={GPU: (VM,)}, vfio_pci="missing", inventory={"critical": {GPU: ("is needed",)}}
    )
    reported = words(bind(GPU, situation))
    assert "critical to the node: is needed" in reported
    assert "Make the node use another device" in reported
    assert "qemu-system-x86" in reported
    assert "no vfio-pci" in reported


def test_how_the_node_uses_what_it_needs_is_reported_once() -> None:
    use = Holder("mount", "it is mounted on /")
    situation = workstation(
        holders={GPU: (VM, use)}, inventory={"critical": {GPU: ("is mounted on /",)}}
    )
    reported = words(bind(GPU, situation))
    assert reported.count("mounted on /") == 1
    assert "qemu-system-x86" in reported
    assert "mounted on /" in words(bind(GPU, workstation(holders={GPU: (use,)})))


def test_a_device_without_iommu_group_or_with_vfs_or_vgpus_is_refused_with_the_remedy() -> None:
    lone = function(GPU, driver="nvidia", iommu_group=None)
    [reported] = words(bind(GPU, of(lone))).splitlines()
    assert "intel_iommu=on" in reported
    vf = PciAddress.parse("0000:08:00.4")
    card = function(GPU, driver="nvidia", vfs=(vf,), num_vfs=1, total_vfs=16, sriov_gpu=True)
    vgpu = VgpuFunction(
        address=vf,
        parent=GPU,
        framework="vendor-vfio",
        supported=(),
        creatable=(),
        configured=ConfiguredVgpu("1145", "NVIDIA A2-4Q"),
    )
    served = function(vf, driver="nvidia", physfn=GPU, iommu_group=9)
    assert "NVIDIA A2-4Q" in words(bind(GPU, of(card, served, vgpus=(vgpu,))))
    assert "Use the vGPU in the VM instead" in words(bind(vf, of(card, served, vgpus=(vgpu,))))
    idle = replace(vgpu, configured=None)
    assert "it is a virtual function of GPU" in words(bind(vf, of(card, served, vgpus=(idle,))))


def of(*functions: PciFunction, **fields: Any) -> Situation:
    return Situation(node="node", inventory=Inventory(functions=functions, **fields))


@pytest.mark.parametrize("decide", [bind, release])
def test_a_device_that_is_not_there_is_refused(decide: Any) -> None:
    assert "0000:08:00.0 does not exist" in words(decide(GPU, of()))


# ----------------------------------------------------------------------------------------- release


def given_away(**fields: Any) -> Situation:
    overrides = {GPU: "vfio-pci", AUDIO: "vfio-pci"}
    originals = {GPU: "nouveau", AUDIO: "snd_hda_intel"}
    defaults = {"gpu": "vfio-pci", "audio": "vfio-pci"}
    return workstation(**defaults | {"overrides": overrides, "originals": originals} | fields)


def test_the_group_comes_back_as_a_whole_reset_before_any_driver_has_it() -> None:
    for asked in (GPU, AUDIO):
        assert steps(release(asked, given_away())) == [
            Unbind(GPU, "vfio-pci"),
            Unbind(AUDIO, "vfio-pci"),
            ResetFunction(GPU),
            OverrideDriver(GPU, "", "vfio-pci"),
            Probe(GPU, ""),
            OverrideDriver(AUDIO, "", "vfio-pci"),
            Probe(AUDIO, ""),
        ]


def test_what_is_not_on_vfio_pci_has_nothing_to_release() -> None:
    assert release(GPU, workstation()) == Satisfied()
    assert release(GPU, workstation("", "", originals={GPU: ""})) == Satisfied()


def test_what_lost_its_driver_to_a_plan_that_was_given_up_comes_back() -> None:
    lost = workstation("", "", originals={GPU: "nouveau"})
    assert steps(release(AUDIO, lost)) == [ResetFunction(GPU), Probe(GPU, "")]


def test_what_an_interruption_left_without_driver_comes_back_too() -> None:
    left = given_away(gpu="")
    found = steps(release(GPU, left))
    assert [step for step in found if isinstance(step, Unbind)] == [Unbind(AUDIO, "vfio-pci")]
    assert Probe(GPU, "") in found


def test_a_device_on_vfio_pci_by_another_comes_back_when_it_is_not_in_use() -> None:
    foreign = workstation("vfio-pci", "snd_hda_intel")
    assert steps(release(GPU, foreign)) == [
        Unbind(GPU, "vfio-pci"),
        ResetFunction(GPU),
        Probe(GPU, ""),
    ]
    assert "qemu" in words(release(GPU, replace(foreign, holders={GPU: (VM,)})))


def test_a_group_that_a_vm_has_stays_whole_even_where_unbinding_seems_done() -> None:
    # While unbinding waits for the VM, the kernel shows no driver any more.
    for gpu in ("vfio-pci", ""):
        held = given_away(gpu=gpu, holders={GPU: (VM,), AUDIO: (VM,)})
        assert "qemu" in words(release(AUDIO, held))


@pytest.mark.parametrize("decide", [bind, release])
def test_what_the_kernel_waits_for_is_not_touched(decide: Any) -> None:
    # What it is reserved for cannot be read then.
    waiting = workstation("", holders={GPU: (VM,)}, locked=frozenset([GPU]))
    assert "qemu" in words(decide(GPU, waiting))


def test_the_module_of_the_former_driver_is_loaded_where_it_can_be() -> None:
    planned = steps(release(GPU, given_away(loadable=("nouveau",))))
    assert planned.index(LoadModule("nouveau")) < planned.index(Probe(GPU, ""))
    assert planned.index(LoadModule("nouveau")) > planned.index(OverrideDriver(GPU, "", "vfio-pci"))


def test_what_had_no_driver_gets_none() -> None:
    planned = steps(release(GPU, given_away(originals={GPU: "", AUDIO: "snd_hda_intel"})))
    assert Probe(GPU, "") not in planned
    assert Probe(AUDIO, "") in planned


def test_a_device_in_quarantine_is_not_allocated() -> None:
    assert "quarantine" in words(release(AUDIO, given_away(quarantined={GPU: "EIO"})))


# -------------------------------------------------------------------------------------------- laws

ADDRESSES = [PciAddress(0, 8, 0, number) for number in range(6)]
CLASSES = ["030000", "040300", "020000", "010802", "060400", "060000", "060100", "068000"]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Any few functions in any few groups, some needed, used or half-way given away."""
    some = st.sets(st.sampled_from(ADDRESSES), max_size=2)
    addresses = draw(st.lists(st.sampled_from(ADDRESSES), min_size=1, unique=True).map(sorted))
    vf = draw(st.none() | st.sampled_from(addresses))
    functions = tuple(
        function(
            address,
            class_code=draw(st.sampled_from(CLASSES)),
            driver=draw(st.sampled_from(["", "native", "native", "vfio-pci"])),
            iommu_group=draw(st.sampled_from([1, 1, 2, None])),
            reset_methods=draw(st.sampled_from([(), ("flr",)])),
            physfn=ADDRESSES[0] if address == vf else None,
        )
        for address in addresses
    )
    loadable = draw(st.sampled_from(["ready", "loadable"]))
    return Situation(
        node="node",
        inventory=Inventory(
            functions=functions,
            critical=dict.fromkeys(draw(some), ("is needed",)),
            displays=dict.fromkeys(draw(some), ("is the boot display",)),
        ),
        holders=dict.fromkeys(draw(some), (VM,)),
        overrides=dict.fromkeys(draw(some), "vfio-pci"),
        quarantined=dict.fromkeys(draw(st.sets(st.sampled_from(ADDRESSES), max_size=1)), "EIO"),
        vfio_pci=loadable,  # type: ignore[arg-type]
        consoles=(Console(1, "(M) frame buffer device", attached=True),),
    )


def touched(plan: Plan) -> set[PciAddress]:
    return {step.function for step in plan.steps if hasattr(step, "function")}


def run(plan: Plan, situation: Situation, drivers: dict[PciAddress, str]) -> Situation:
    """What the plan makes of the functions; the model knows neither modules nor consoles."""
    mine = [step for step in plan.steps if hasattr(step, "function")]
    return Kernel(drivers=drivers).run(mine, situation)


def drivers(situation: Situation) -> dict[PciAddress, str]:
    return {one.address: one.driver for one in situation.inventory.functions}


def group(asked: PciFunction, situation: Situation) -> set[PciAddress]:
    """The function and its group members that are no bridges, without the code under test."""
    return {asked.address} | {
        one.address
        for one in situation.inventory.functions
        if one.iommu_group is not None
        and one.iommu_group == asked.iommu_group
        and one.class_code[:4] != "0604"
        and (one.driver or one.class_code[:4] not in ("0600", "0601"))
    }


@given(situations(), st.data())
def test_binding_touches_the_whole_group_and_nothing_needed_or_used(
    situation: Situation, data: st.DataObject
) -> None:
    asked = data.draw(st.sampled_from(situation.inventory.functions))
    decision = bind(asked.address, situation)
    members = group(asked, situation)
    if isinstance(decision, tuple):
        assert decision
        return
    before = drivers(situation)
    if isinstance(decision, Satisfied):
        assert {before[one] for one in members} == {"vfio-pci"}
        return
    moved = touched(decision)
    assert moved == {one for one in members if before[one] != "vfio-pci"}
    assert not moved & situation.holders.keys()
    assert not moved & situation.inventory.critical.keys()
    assert not members & situation.quarantined.keys()
    after = run(decision, situation, before)
    for address, driver in drivers(after).items():
        assert driver == ("vfio-pci" if address in members else before[address])
    assert {after.overrides[one] for one in moved} == {"vfio-pci"}
    assert bind(asked.address, after) == Satisfied()


@given(situations(), st.data())
def test_what_was_given_comes_back_as_it_was(situation: Situation, data: st.DataObject) -> None:
    asked = data.draw(st.sampled_from(situation.inventory.functions))
    native = {
        one: "" if driver == "vfio-pci" else driver for one, driver in drivers(situation).items()
    }
    functions = tuple(
        replace(one, driver=native[one.address]) for one in situation.inventory.functions
    )
    situation = replace(
        situation, overrides={}, inventory=replace(situation.inventory, functions=functions)
    )
    decision = bind(asked.address, situation)
    if not isinstance(decision, Plan):
        return
    after = run(decision, situation, native)
    # As carrying out remembers it: what a function was on when it was reserved.
    originals = {one: native[one] for one in touched(decision)}
    back = release(asked.address, replace(after, originals=originals))
    assert isinstance(back, Plan)
    again = run(
        back, after, dict.fromkeys(native, "wants it now") | {k: v for k, v in native.items() if v}
    )
    assert drivers(again) == drivers(situation)
    assert again.overrides == {}
    assert release(asked.address, again) == Satisfied()


@given(situations(), st.data())
def test_a_release_touches_only_what_vfio_pci_has_and_is_not_in_use(
    situation: Situation, data: st.DataObject
) -> None:
    asked = data.draw(st.sampled_from(situation.inventory.functions))
    decision = release(asked.address, situation)
    if isinstance(decision, Plan):
        before = drivers(situation)
        assert touched(decision) <= group(asked, situation)
        for one in touched(decision):
            assert before[one] in ("vfio-pci", "")
            assert one not in situation.holders
        assert "vfio-pci" not in {
            driver
            for one, driver in drivers(run(decision, situation, {})).items()
            if one in touched(decision)
        }


@given(situations(), st.data())
def test_a_binding_that_fails_half_way_is_undone_completely(
    situation: Situation, data: st.DataObject
) -> None:
    asked = data.draw(st.sampled_from(situation.inventory.functions))
    decision = bind(asked.address, situation)
    if not isinstance(decision, Plan):
        return
    done = data.draw(st.integers(0, len(decision.steps)))
    native = drivers(situation)
    after = run(Plan(decision.steps[:done]), situation, native)
    back = [step for one in reversed(decision.steps[:done]) if (step := undo(one)) is not None]
    again = run(Plan(tuple(back)), after, native)
    assert drivers(again) == native
    assert again.overrides == situation.overrides
