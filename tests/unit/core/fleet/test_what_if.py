"""What would fit if: the answers hold by the rules of placement, and nothing held moves."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet import board
from laneway.core.fleet.changes import (
    AddGpus,
    AddNodes,
    AddVms,
    ChangeRequests,
    LeaveNode,
    SetMode,
    carried_out,
)
from laneway.core.fleet.effort import TooLongError
from laneway.core.fleet.known import ChangeError
from laneway.core.fleet.made_up import MadeUpError, made_up
from laneway.core.fleet.model import Fleet, Gpu, Vgpu, Vm
from laneway.core.fleet.what_if import what_if
from laneway.core.ledger.facts import Phase
from laneway.core.vgpu.placement import arrange

_PREFIX = "nvidia.com/NVIDIA_L40S-"
_PROFILES = ("8Q", "12Q", "24Q")


def _holding(fleet: Fleet, index: int, *held: tuple[str, str]) -> Fleet:
    """The fleet, a GPU of which carries these vGPUs: profile and holder."""
    vgpus = tuple(
        Vgpu(name=f"v{index}-{n}", profile=f"NVIDIA L40S-{profile}", holder=holder)
        for n, (profile, holder) in enumerate(held)
    )
    gpus = list(fleet.gpus)
    gpus[index] = msgspec.structs.replace(gpus[index], vgpus=vgpus)
    vms = tuple(
        Vm(name=holder, node=gpus[index].node, requests={_PREFIX + profile: 1})
        for profile, holder in held
        if holder
    )
    return msgspec.structs.replace(fleet, gpus=tuple(gpus), vms=(*fleet.vms, *vms))


@st.composite
def _fleets(draw: st.DrawFn) -> Fleet:
    fleet = made_up("2x l40s")
    mode = draw(st.sampled_from(["SameSize", "MixedSize"]))
    gpus = tuple(msgspec.structs.replace(gpu, mode=mode) for gpu in fleet.gpus)
    fleet = msgspec.structs.replace(fleet, gpus=gpus)
    for index, gpu in enumerate(gpus):
        profile = draw(st.sampled_from(_PROFILES))
        held = draw(st.lists(st.booleans(), max_size=2))
        names = [(profile, f"a/{gpu.name}-{n}" if has else "") for n, has in enumerate(held)]
        fleet = _holding(fleet, index, *names)
    return fleet


_ASKED = st.builds(
    AddVms,
    count=st.integers(1, 5),
    requests=st.dictionaries(
        st.sampled_from([_PREFIX + one for one in _PROFILES]), st.integers(1, 2), min_size=1
    ),
)


def test_one_vm_may_have_more_vgpus_than_python_goes_deep() -> None:
    server = made_up("l40s*16")
    gpus = (
        msgspec.structs.replace(gpu, name=f"{gpu.name}-{n}", node="l40s-1")
        for n in range(5)
        for gpu in server.gpus
    )
    wide = msgspec.structs.replace(server, gpus=tuple(gpus))
    vm = Vm(name="a/b", phase=Phase.PENDING, requests={_PREFIX + "1Q": 2000})
    [placed] = what_if(msgspec.structs.replace(wide, vms=(vm,)), []).placed
    assert len(placed.devices) == 2000
    more = msgspec.structs.replace(vm, requests={_PREFIX + "1Q": 80 * 32 + 1})
    [refused] = what_if(msgspec.structs.replace(wide, vms=(more,)), []).refused
    assert refused.words == (f"2561 x {_PREFIX}1Q: the node with the most room has room for 2560")


def test_a_question_of_more_work_than_is_allowed_ends_without_an_answer() -> None:
    fleet = made_up("100x l40s")
    unlike = [AddVms(requests={f"example.com/{n}": 1}, name=f"vm{n}") for n in range(20)]
    assert len(what_if(fleet, unlike, effort=2 * 20 * 100).refused) == 20
    with pytest.raises(TooLongError):
        what_if(fleet, unlike, effort=20 * 100)
    alike = [AddVms(requests={"example.com/0": 1}, count=1000)]
    assert len(what_if(fleet, alike, effort=2 * 100).refused) == 1000


@given(_fleets(), st.lists(_ASKED, min_size=1, max_size=3), st.booleans())
def test_what_is_placed_fits_and_what_is_held_stays(
    fleet: Fleet, asked: list[AddVms], leaves: bool
) -> None:
    leaving = [LeaveNode(node="l40s-1")] if leaves else []
    found = what_if(fleet, [*leaving, *asked])

    kept = carried_out(fleet, leaving).fleet
    gpus = {gpu.name: gpu for gpu in kept.gpus}
    there = {name: list(board.carried(gpu, held_only=True)) for name, gpu in gpus.items()}
    placed: dict[str, Counter[str]] = {name: Counter() for name in gpus}
    for vm in found.placed:
        got = Counter(device.resource for device in vm.devices)
        assert {gpus[device.gpu].node for device in vm.devices} == {vm.node}
        if vm.vm.startswith("a/"):
            assert leaves  # Only what lost its node is placed again.
        else:
            assert got in [Counter(one.requests) for one in asked]
        for device in vm.devices:
            placed[device.gpu][device.profile] += 1
    for name, counts in placed.items():
        gpu: Gpu = gpus[name]
        mixed = board.is_mixed(gpu)
        assert arrange(board.card(gpu), there[name], counts, mixed=mixed) is not None
    total = sum(one.count for one in asked)
    new = [one for one in (*found.placed, *found.refused) if not one.vm.startswith("a/")]
    assert len(new) == total


def test_a_free_vgpu_is_used_before_one_is_made() -> None:
    fleet = _holding(made_up("l40s"), 1, ("24Q", ""))
    (placed,) = what_if(fleet, [AddVms(requests={_PREFIX + "24Q": 1})]).placed
    assert [(one.gpu, one.how) for one in placed.devices] == [("l40s-1-000002000", "exists")]


def test_a_free_vgpu_in_the_way_is_replaced_and_a_held_one_is_not() -> None:
    free = _holding(_holding(made_up("l40s"), 0, ("8Q", "")), 1, ("8Q", "a/vm"))
    found = what_if(free, [AddVms(requests={_PREFIX + "24Q": 1}, count=3)])
    assert {(d.gpu, d.how) for one in found.placed for d in one.devices} == {
        ("l40s-1-000001000", "made in place of free vGPUs"),
        ("l40s-1-000001000", "made"),
    }
    (refused,) = found.refused
    assert "1 GPU with vGPUs of another size in use, in mode SameSize" in refused.words
    assert "1 GPU with too little free memory" in refused.words


def _placed_at(fleet: Fleet, *at: tuple[int, int, str, str]) -> Fleet:
    """The fleet in mixed-size mode: of each vGPU the GPU, the first slot, profile and holder."""
    vgpus: dict[int, list[Vgpu]] = {}
    for number, (index, slot, profile, holder) in enumerate(at):
        one = Vgpu(name=f"v{number}", profile=f"NVIDIA L40S-{profile}", slot=slot, holder=holder)
        vgpus.setdefault(index, []).append(one)
    return msgspec.structs.replace(
        fleet,
        gpus=tuple(
            msgspec.structs.replace(gpu, mode="MixedSize", vgpus=tuple(vgpus.get(index, ())))
            for index, gpu in enumerate(fleet.gpus)
        ),
    )


def test_the_only_place_of_a_large_vgpu_is_not_broken_though_its_gpu_is_the_fullest() -> None:
    fleet = _placed_at(made_up("l40s*1, 2x l40s*1"), (0, 0, "24Q", "a/x"), (1, 0, "12Q", "a/y"))

    (placed,) = what_if(fleet, [AddVms(requests={_PREFIX + "12Q": 1})]).placed

    assert [(one.gpu, one.slot, one.how) for one in placed.devices] == [
        (fleet.gpus[1].name, 12, "made")
    ]


def test_of_free_vgpus_the_one_next_to_those_in_use_is_taken() -> None:
    quarters = [(0, at, "12Q", "") for at in (0, 12, 24)]
    fleet = _placed_at(made_up("l40s*1"), *quarters, (0, 36, "12Q", "a/x"))

    (placed,) = what_if(fleet, [AddVms(requests={_PREFIX + "12Q": 1})]).placed

    assert [(one.slot, one.how) for one in placed.devices] == [(24, "exists")]


def test_a_node_that_leaves_sends_its_vms_elsewhere_and_stopped_ones_keep_a_reservation() -> None:
    fleet = _holding(made_up("2x l40s"), 0, ("24Q", "a/runs"), ("24Q", "a/stopped"))
    stopped = (msgspec.structs.replace(fleet.vms[1], phase=Phase.STOPPED),)
    fleet = msgspec.structs.replace(fleet, vms=fleet.vms[:1] + stopped)
    found = what_if(fleet, [LeaveNode(node="l40s-1")])
    assert found.yes
    assert {(one.vm, one.before, one.node) for one in found.placed} == {
        ("a/runs", "l40s-1", "l40s-2"),
        ("a/stopped", "l40s-1", "l40s-2"),
    }


def test_without_changes_the_question_is_about_those_that_wait() -> None:
    waiting = Vm(name="a/w", phase=Phase.PENDING, requests={_PREFIX + "48Q": 3})
    fleet = msgspec.structs.replace(made_up("l40s"), vms=(waiting,))
    assert not what_if(fleet, []).yes
    more = what_if(fleet, [AddGpus(node="l40s-1", board="l40s", count=1)])
    assert [one.vm for one in more.placed] == ["a/w"]


def test_gpus_are_added_where_none_is_and_never_fewer_than_asked_for() -> None:
    renamed = (
        msgspec.structs.replace(gpu, name=f"gpu-{n}") for n, gpu in enumerate(made_up("l40s").gpus)
    )
    fleet = msgspec.structs.replace(made_up("l40s"), gpus=tuple(renamed))
    sixteen = AddGpus(node="l40s-1", board="l40s", count=16)

    most = carried_out(fleet, [sixteen] * 15).fleet
    assert len({gpu.address for gpu in most.gpus}) == len(most.gpus) == 242

    with pytest.raises(ChangeError, match="node l40s-1 has room for 13 more GPUs"):
        carried_out(most, [sixteen])


def test_a_mode_changes_only_where_no_vm_has_a_vgpu() -> None:
    fleet = _holding(made_up("l40s"), 0, ("24Q", "a/vm"))
    found = what_if(fleet, [SetMode(gpus=("l40s-1-000001000",), mode="MixedSize")])
    assert not found.yes
    assert found.unchangeable == ("l40s-1-000001000 keeps its mode: it carries vGPUs of a/vm",)
    for address in ("0000:02:00.0", "02:00.0"):
        assert what_if(fleet, [SetMode(gpus=(f"l40s-1/{address}",), mode="MixedSize")]).yes


def test_vms_of_a_label_get_another_profile_and_more_nodes_make_room() -> None:
    fleet = _holding(made_up("l40s"), 0, ("24Q", "a/one"), ("24Q", "a/two"))
    labelled = tuple(msgspec.structs.replace(vm, labels={"pool": "web"}) for vm in fleet.vms)
    fleet = msgspec.structs.replace(fleet, vms=labelled)
    change = ChangeRequests(labels={"pool": "web"}, requests={_PREFIX + "48Q": 2})
    assert [one.vm for one in what_if(fleet, [change]).refused] == ["a/two"]
    found = what_if(fleet, [AddNodes(nodes="l40s"), change])
    assert found.yes
    assert {one.node for one in found.placed} == {"l40s-1", "new-l40s-1"}


def test_what_the_fleet_does_not_have_cannot_change() -> None:
    with pytest.raises(ChangeError, match=r"no node l40s-9\. Did you mean l40s-"):
        what_if(made_up("2x l40s"), [LeaveNode(node="l40s-9")])


@pytest.mark.parametrize("text", ["", "8x", "0x l40s", "1001x l40s", "l40s*99", "3x nothing"])
def test_words_that_describe_no_fleet_are_refused(text: str) -> None:
    with pytest.raises(MadeUpError):
        made_up(text)
