"""Which questions moves are looked for, and that the moves answer them."""

from __future__ import annotations

from msgspec.structs import replace

from laneway.core.fleet.changes import AddGpus, AddVms, Change, LeaveNode
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Vgpu, Vm
from laneway.core.fleet.moves import Moves, Outcome
from laneway.core.fleet.remedy import moves_for
from laneway.core.fleet.what_if import what_if
from laneway.core.ledger.facts import Phase
from support.planning import Q24, Q48, half_used


def found(fleet: Fleet, *changes: Change) -> Moves | None:
    return moves_for(fleet, changes, what_if(fleet, changes))


def test_a_vm_that_would_be_added_gets_the_moves_that_make_room() -> None:
    moves = found(half_used(2), AddVms(requests={Q48: 1}))
    assert moves is not None
    assert moves.outcome is Outcome.FOUND
    assert [one.vm for one in moves.moves] in (["d/0"], ["d/1"])


def test_a_vm_that_waits_gets_them_without_a_change() -> None:
    waiting = Vm(name="d/new", phase=Phase.PENDING, requests={Q48: 1})
    moves = found(half_used(2, waiting))
    assert moves is not None
    assert len(moves.moves) == 1


def test_moves_make_room_for_mig_backed_vgpus_as_well() -> None:
    fleet = made_up("2x a100*1")
    held = (("GRID A100-1-5C", 7, "d/0"), ("GRID A100-3-20C", 1, "d/1"))
    vgpus = [Vgpu(name=who, profile=one, instance=at, holder=who) for one, at, who in held]
    gpus = tuple(
        replace(gpu, mode="MIGBacked", vgpus=(one,))
        for gpu, one in zip(fleet.gpus, vgpus, strict=True)
    )
    vms = tuple(Vm(name=who, phase=Phase.STOPPED) for _, _, who in held)
    asked = AddVms(requests={"nvidia.com/GRID_A100-4-20C": 1})
    moves = found(replace(fleet, gpus=gpus, vms=vms), asked)
    assert moves is not None
    assert [one.vm for one in moves.moves] in (["d/0"], ["d/1"])


def test_a_vm_that_has_room_keeps_it() -> None:
    """One of two VMs has room in a GPU that is free, so no move goes into that GPU."""
    fleet = half_used(2)
    grown = AddGpus(node="l40s-1", board="l40s")
    assert what_if(fleet, [grown, AddVms(requests={Q48: 1})]).yes
    moves = found(fleet, grown, AddVms(requests={Q48: 1}, count=2))
    assert moves is not None
    assert moves.moves
    assert len(moves.places) == 2


def test_nothing_is_looked_for_where_the_answer_is_yes_or_the_question_is_another() -> None:
    fleet = half_used(2)
    assert found(fleet, AddVms(requests={Q24: 1})) is None
    assert found(fleet, AddVms(requests={Q48: 2})) is None
    assert found(fleet, AddVms(requests={Q48: 1}, selector={"zone": "a"})) is None
    assert found(fleet, AddVms(requests={Q48: 1}, count=9)) is None
    assert found(fleet, AddVms(requests={"nvidia.com/NVIDIA_A2-4Q": 1})) is None
    assert found(half_used(1), LeaveNode(node="l40s-1")) is None
