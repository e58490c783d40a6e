"""Whether moves that were found before still hold, by everything that can have changed."""

from __future__ import annotations

import msgspec
import pytest

from laneway.core.fleet.model import Fleet, Gpu, Node, Vgpu, Vm
from laneway.core.fleet.moves import Moves, Outcome, least_moves
from laneway.core.fleet.moves_again import changed, needs_pin, state_of, to_clear
from laneway.core.gpu.modes import Mode
from laneway.core.ledger.facts import Phase

Q8, Q16 = "NVIDIA A2-8Q", "NVIDIA A2-16Q"
replace = msgspec.structs.replace


def gpu(node: str, *vgpus: Vgpu) -> Gpu:
    """An A2 of 16 GiB."""
    return Gpu(
        name=f"{node}-gpu",
        node=node,
        address="0000:08:00.0",
        device="25b6",
        mode=Mode.SAME_SIZE,
        functions=16,
        ecc=True,
        driver="580.65.05",
        profiles=(Q8, Q16),
        vgpus=vgpus,
    )


def vgpu(name: str, holder: str = "", profile: str = Q8) -> Vgpu:
    return Vgpu(name=name, profile=profile, holder=holder)


def vm(name: str, **facts: object) -> Vm:
    return Vm(name=name, node="n1" if name == "d/a" else "n2", **facts)  # type: ignore[arg-type]


FLEET = Fleet(
    nodes=(Node(name="n1"), Node(name="n2")),
    gpus=(gpu("n1", vgpu("n1-1", "d/a")), gpu("n2", vgpu("n2-1", "d/b"))),
    vms=(vm("d/a", migratable=True), vm("d/b", migratable=False)),
)
"""Half of each GPU is free; once `d/a` has moved to n2, the GPU of n1 is empty."""


def found(fleet: Fleet = FLEET) -> Moves:
    moves = least_moves(fleet, {Q16: 1}, restart=True)
    assert [(one.vm, one.target) for one in moves.moves] == [("d/a", "n2")]
    return moves


def with_gpu(node: str, *vgpus: Vgpu, **facts: object) -> Fleet:
    gpus = [replace(gpu(node, *vgpus), **facts) if one.node == node else one for one in FLEET.gpus]
    return replace(FLEET, gpus=tuple(gpus))


def with_vm(**facts: object) -> Fleet:
    return replace(FLEET, vms=(vm("d/a", **facts), FLEET.vms[1]))


def test_moves_hold_while_nothing_has_changed() -> None:
    assert changed(FLEET, found().moves, found().places) == ()


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (with_vm(migratable=True, phase=Phase.STOPPED), "it ran and could be migrated, and it is"),
        (with_vm(migratable=False), "it ran and could be migrated, and it runs and cannot be"),
        (with_vm(migratable=True, phase=Phase.PENDING), "d/a: it is about to start"),
        (with_gpu("n1"), "d/a: it has no vGPU any more"),
        (with_gpu("n1", vgpu("n1-2", "d/a")), "d/a: it has other vGPUs than before: n1-2"),
        (with_gpu("n2", claimed="by x"), "GPU n2-gpu takes no vGPUs any more"),
        (with_gpu("n2", vgpu("n2-1", "d/b"), ecc=False), "d/a: it may not go to n2-gpu any more"),
        (
            with_gpu("n2", vgpu("n2-1", "d/b"), vgpu("n2-2", "d/c")),
            "there is no room for it any more on n2-gpu, n1-gpu",
        ),
        (
            with_gpu("n1", vgpu("n1-1", "d/a"), vgpu("n1-2", "d/c")),
            "there is no room for it any more on n2-gpu, n1-gpu",
        ),
        (replace(FLEET, gpus=FLEET.gpus[:1]), "GPU n2-gpu takes no vGPUs any more"),
    ],
)
def test_what_has_changed_is_told(now: Fleet, words: str) -> None:
    [why] = changed(now, found().moves, found().places)
    assert words in why


def test_a_running_vm_is_restarted_only_where_that_is_allowed() -> None:
    fixed = with_vm(migratable=False)
    assert least_moves(fixed, {Q16: 1}).outcome is Outcome.NONE
    [move] = found(fixed).moves
    assert move.how == "restart"


def test_unused_vgpus_are_cleared_only_where_what_comes_needs_their_room() -> None:
    unused = with_gpu("n2", vgpu("n2-1", "d/b"), vgpu("n2-2"))
    assert to_clear(unused, [(Q8, "n2-gpu")]) == ()  # it serves
    assert to_clear(with_gpu("n2", vgpu("n2-2")), [(Q16, "n2-gpu")]) == ("n2-2",)


def test_a_vm_is_pinned_only_where_it_could_start_elsewhere() -> None:
    [move] = found().moves
    assert needs_pin(FLEET, move)  # what it had itself is on another node
    assert not needs_pin(with_gpu("n1"), move)
    assert needs_pin(with_gpu("n1", vgpu("n1-2")), move)
    assert not needs_pin(with_gpu("n1", vgpu("n1-2", "d/c")), move)


def test_the_state_of_a_vm_in_words() -> None:
    stopped = with_vm(phase=Phase.STOPPED)
    assert state_of(FLEET, "d/a") == "d/a runs on node n1 with vGPUs of n1-gpu"
    assert state_of(stopped, "d/a") == "d/a is stopped, and vGPUs of n1-gpu are kept for it"
    assert state_of(with_vm(phase=Phase.PENDING), "d/a") == "d/a is starting on node n1"
    assert state_of(FLEET, "d/x") == "d/x is not there any more"
