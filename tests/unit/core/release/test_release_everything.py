"""In which order everything goes back, and what never goes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.release.everything import Stage, Target, decide, everything

STAGES = {
    "VGPULayout": Stage.LAYOUT,
    "PCIDeviceClaim": Stage.DEVICE,
    "VGPUDevice": Stage.DEVICE,
    "MigConfiguration": Stage.MIG,
    "SRIOVGPUDevice": Stage.FUNCTIONS,
}


def target(kind: str, name: str = "one", **changes: Any) -> Target:
    facts: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "node": "node1",
        "stage": STAGES[kind],
        "way": "delete" if kind in ("VGPULayout", "PCIDeviceClaim") else "disable",
        "desired": True,
        "present": True,
        "card": "" if kind == "VGPULayout" else "card",
    }
    return Target(**facts | changes)


ALL = [target(kind) for kind in STAGES]


def acted(targets: list[Target]) -> list[str]:
    return [one.target.kind for one in decide(targets).actions]


def test_each_stage_waits_for_the_one_before() -> None:
    assert acted(ALL) == ["VGPULayout"]
    assert acted(ALL[1:]) == ["PCIDeviceClaim", "VGPUDevice"]
    assert acted(ALL[3:]) == ["MigConfiguration"]
    assert acted(ALL[4:]) == ["SRIOVGPUDevice"]
    assert decide([]).done


def test_what_is_asked_back_but_still_there_is_waited_for() -> None:
    going = target("VGPUDevice", desired=False, words="WriteFailed: busy")
    [obstacle] = decide([going]).obstacles
    assert obstacle.words == "VGPUDevice one: WriteFailed: busy"
    quiet = decide([replace(going, words="")], silent={"node1"})
    assert "no agent runs on node node1" in quiet.obstacles[0].why
    unanswered = target("VGPUDevice", desired=False, present=False, answered=False)
    assert not decide([unanswered]).done
    assert decide([replace(unanswered, answered=True)]).done


def test_another_card_and_another_node_do_not_wait() -> None:
    other = target("SRIOVGPUDevice", "two", card="other")
    far = target("SRIOVGPUDevice", "three", node="node2")
    found = decide([target("VGPUDevice", holder="virtual machine a/b"), other, far])
    assert sorted(one.target.name for one in found.actions) == ["three", "two"]


def test_claims_of_vgpus_go_with_these() -> None:
    follows = target("PCIDeviceClaim", follows=True)
    found = decide([follows, target("VGPUDevice")])
    assert [one.target.kind for one in found.actions] == ["VGPUDevice"]
    assert [one.target.kind for one in found.obstacles] == ["PCIDeviceClaim"]


def test_a_dry_run_tells_all_of_it_and_what_stands_against_it() -> None:
    held = target("VGPUDevice", "held", holder="virtual machine a/b")
    shared = target("VGPULayout", "shared", elsewhere=("node2",))
    actions, obstacles = everything([*ALL, held, shared])
    assert [one.target.kind for one in actions] == [one.kind for one in ALL]
    assert [one.target.name for one in obstacles] == ["shared", "held"]


targets = st.builds(
    target,
    st.sampled_from(sorted(STAGES)),
    st.text("abc", min_size=1, max_size=4),
    desired=st.booleans(),
    present=st.booleans(),
    follows=st.just(False),
    holder=st.sampled_from(["", "", "", "virtual machine a/b"]),
    card=st.sampled_from(["c1", "c2"]),
)


@given(st.lists(targets, max_size=12, unique_by=lambda one: (one.kind, one.name)))
def test_it_ends_with_nothing_left_but_what_is_in_use(found: list[Target]) -> None:
    """Agents that do at once what they are asked to."""
    state = {one.title: one for one in found}
    for _ in range(len(Stage) + 1):
        look = decide(state.values())
        for action in look.actions:
            one = action.target
            assert not one.holder
            others = [m for m in state.values() if (m.card, m.stage) != (one.card, one.stage)]
            assert not any(
                m.stage < one.stage and m.card == one.card and (m.desired or m.present)
                for m in others
                if m.stage is not Stage.LAYOUT
            )
            if one.way == "delete":
                del state[one.title]
            else:
                state[one.title] = replace(one, desired=False, present=False)
        for title, one in list(state.items()):
            if not (one.desired or one.holder):
                state[title] = replace(one, present=False)
    left = decide(state.values())
    assert not left.actions
    held = {one.card for one in found if one.holder}
    blocked = any(one.holder for one in found if one.stage is Stage.LAYOUT)
    for obstacle in left.obstacles:
        assert blocked or obstacle.target.holder or obstacle.target.card in held
