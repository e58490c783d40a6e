"""GPUs in MIG modes: the places of GPU instances decide what they take; what is in use stays."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet import backed
from laneway.core.fleet.changes import AddVms, LeaveNode, SetInstances, SetMode
from laneway.core.fleet.made_up import boards, made_up
from laneway.core.fleet.model import Fleet, Gpu, Vgpu, Vm
from laneway.core.fleet.what_if import Answer, what_if
from laneway.core.gpu.modes import GpuInstance, Mode
from laneway.core.ledger.facts import Phase
from laneway.core.mig.profiles import expected_profiles, per_instance, serving
from laneway.core.names import vgpu_resource_name
from laneway.core.vgpu.profiles import framebuffer_mib, profiles_on

_GPU = "a100-1-000001000"
_MIG = "nvidia.com/mig-"


def _backed(*held: tuple[str, int, str], instances: tuple[GpuInstance, ...] = ()) -> Fleet:
    """An A100 in the mode MIGBacked with vGPUs: profile, GPU instance and holder."""
    fleet = made_up("a100*1")
    vgpus = tuple(
        Vgpu(name=f"v{n}", profile=f"GRID A100-{profile}", instance=instance, holder=holder)
        for n, (profile, instance, holder) in enumerate(held)
    )
    gpu = msgspec.structs.replace(
        fleet.gpus[0], mode=Mode.MIG_BACKED, vgpus=vgpus, instances=instances
    )
    return msgspec.structs.replace(fleet, gpus=(gpu,))


def _want(profile: str, count: int = 1) -> AddVms:
    return AddVms(requests={f"nvidia.com/GRID_A100-{profile}": 1}, count=count)


def _hows(found: Answer) -> list[str]:
    return [device.how for one in found.placed for device in one.devices]


@pytest.mark.parametrize(
    "board", sorted(board for board, (d, _) in boards().items() if expected_profiles(d))
)
def test_an_empty_gpu_takes_as_many_as_the_catalogue_says(board: str) -> None:
    gpu = msgspec.structs.replace(made_up(board).gpus[0], mode=Mode.MIG_BACKED)
    shape = backed.shape_of(gpu)
    for one in profiles_on(gpu.device):
        if one.mig_backed and one.board == board.rpartition(" ")[2]:
            assert backed.room_for(shape, vgpu_resource_name(one.name)) == one.maximum


@given(
    st.lists(st.sampled_from(["1-5C", "1-10C", "2-10C", "3-20C", "4-20C", "1-5CME"]), max_size=9)
)
def test_gpu_instances_of_a_plan_are_apart_and_hold_one_size(wanted: list[str]) -> None:
    fleet = _backed(("2-10C", 4, "a/held"))
    [gpu] = fleet.gpus
    shape = backed.shape_of(gpu)
    before = shape.kept
    for profile in wanted:
        if taken := backed.take(shape, f"nvidia.com/GRID_A100-{profile}"):
            shape = taken.shape
    slices = [at for one in shape.instances for at in range(one.start, one.start + one.size)]
    assert len(slices) == len(set(slices))
    assert set(before) <= set(shape.kept)
    by_start = {one.start: one.profile for one in shape.instances}
    inside = Counter(one.start for one in shape.kept)
    kinds = backed.kinds(gpu)
    for one in shape.kept:
        vgpu, instance = serving(one.profile, kinds) or pytest.fail("no instance")
        assert one.start is not None
        assert by_start[one.start] == instance.name
        assert inside[one.start] <= per_instance(vgpu, instance)
    totals = Counter(one.profile for one in shape.instances)
    assert all(totals[kind.name] <= kind.total for kind in kinds)
    assert sum(int(one.profile[0]) for one in shape.instances) <= 7


def test_an_instance_is_shared_by_one_size_alone() -> None:
    fleet = made_up("rtx-pro-6000*1")
    gpu = msgspec.structs.replace(fleet.gpus[0], mode=Mode.MIG_BACKED)
    fleet = msgspec.structs.replace(fleet, gpus=(gpu,))
    prefix = "nvidia.com/NVIDIA_RTX_Pro_6000_Blackwell_DC-1-"
    asked = [AddVms(requests={prefix + size: 1}, count=n) for size, n in (("8Q", 2), ("2Q", 37))]
    found = what_if(fleet, asked)
    # Twelve of 2 GiB in each of the three instances that the larger ones leave.
    assert (len(found.placed), len(found.refused)) == (2 + 36, 1)
    sizes: dict[int | None, set[int]] = {}
    for one in found.placed:
        for device in one.devices:
            sizes.setdefault(device.slot, set()).add(framebuffer_mib(device.profile))
    assert all(len(there) == 1 for there in sizes.values())


def test_a_held_vgpu_keeps_its_instance_and_a_free_one_gives_way() -> None:
    held = _backed(("3-20C", 1, "a/held"))
    assert _hows(what_if(held, [_want("4-20C")])) == []
    assert (
        "without a place for the GPU instance" in what_if(held, [_want("4-20C")]).refused[0].words
    )
    assert _hows(what_if(held, [_want("3-20C")])) == ["made"]
    free = _backed(("3-20C", 1, ""))
    assert _hows(what_if(free, [_want("3-20C")])) == ["exists"]
    assert _hows(what_if(free, [_want("4-20C")])) == ["made in place of free vGPUs"]


def test_nothing_is_made_where_a_gpu_instance_is_not_known() -> None:
    known = GpuInstance(9, "1g.5gb", 19, 2, 1)
    found = what_if(_backed(("3-20C", 1, "a/held"), instances=(known,)), [_want("1-5C")])
    assert "1 GPU of which the GPU instances are not all known" in found.refused[0].words


def test_mig_backed_vgpus_need_the_mode_and_the_board() -> None:
    words = what_if(made_up("a100*1"), [_want("1-5C")]).refused[0].words
    assert "1 GPU in mode SameSize, which has no such vGPUs" in words
    assert "no GPU of an open node has this profile" in (
        what_if(made_up("l40s"), [_want("1-5C")]).refused[0].words
    )
    mode = SetMode(gpus=(_GPU,), mode="MIGBacked")
    assert what_if(made_up("a100*1"), [mode, _want("1-5C", 7)]).yes
    refused = what_if(made_up("l40s"), [SetMode(gpus=("l40s-1-000001000",), mode="MIG")])
    assert refused.unchangeable == ("l40s-1-000001000 keeps its mode: its board has no MIG",)


# ------------------------------------------------------------------------------------- containers


def _divided(fleet: Fleet, *pods: Vm) -> Fleet:
    """Its first GPU has two instances for containers."""
    instances = (GpuInstance(1, "3g.20gb", 9, 4, 4), GpuInstance(9, "1g.5gb", 19, 0, 1))
    gpu: Gpu = msgspec.structs.replace(fleet.gpus[0], mode=Mode.MIG, instances=instances)
    return msgspec.structs.replace(fleet, gpus=(gpu, *fleet.gpus[1:]), vms=pods)


def test_containers_get_the_instances_that_no_pod_has() -> None:
    used = Vm(name="pod a/p", node="a100-1", requests={_MIG + "3g.20gb": 1})
    found = what_if(
        _divided(made_up("a100*1"), used),
        [
            AddVms(requests={_MIG + "3g.20gb": 1}),
            AddVms(requests={_MIG + "1g.5gb": 1}),
        ],
    )
    assert [one.words for one in found.refused] == [f"1 x {_MIG}3g.20gb: no node has a free one"]
    assert {one.resource: (one.today, one.then) for one in found.left} == {
        _MIG + "3g.20gb": (0, 0),
        _MIG + "1g.5gb": (1, 0),
    }


def test_other_instances_are_possible_where_pods_keep_as_many_as_they_have() -> None:
    used = Vm(name="pod a/p", node="a100-1", requests={_MIG + "3g.20gb": 1})
    fleet = _divided(made_up("a100*1"), used)
    seven = SetInstances(gpus=(_GPU,), instances={"MIG 1g.5gb": 7})
    assert what_if(fleet, [seven]).unchangeable == (
        f"{_GPU} keeps its GPU instances: pods on a100-1 have 1 x {_MIG}3g.20gb",
    )
    two = SetInstances(gpus=(_GPU,), instances={"3g.20gb": 2})
    assert what_if(fleet, [two, AddVms(requests={_MIG + "3g.20gb": 1})]).yes
    three = SetInstances(gpus=(_GPU,), instances={"3g.20gb": 3})
    assert "the card has room for 2 x 3g.20gb, not 3" in what_if(fleet, [three]).unchangeable[0]


def test_pods_of_a_node_that_leaves_need_instances_elsewhere() -> None:
    used = Vm(name="pod a/p", node="a100-1", requests={_MIG + "1g.5gb": 1})
    waits = Vm(name="pod a/w", phase=Phase.PENDING, requests={_MIG + "1g.5gb": 1})
    fleet = _divided(made_up("2x a100*1"), used, waits)
    assert not what_if(fleet, [LeaveNode(node="a100-1")]).yes
    there = SetInstances(gpus=("a100-2-000001000",), instances={"1g.5gb": 1})
    found = what_if(fleet, [there, LeaveNode(node="a100-1")])
    assert [(one.vm, one.node) for one in found.placed] == [("pod a/p", "a100-2")]
    assert [one.vm for one in found.waiting] == ["pod a/w"]
