"""In which order everything goes back, and what never goes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.release.everything import Stage, Thing, decide, everything

STAGES = {
    "VGPULayout": Stage.LAYOUT,
    "PCIDeviceClaim": Stage.DEVICE,
    "VGPUDevice": Stage.DEVICE,
    "MigConfiguration": Stage.MIG,
    "SRIOVGPUDevice": Stage.FUNCTIONS,
}


def thing(kind: str, name: str = "one", **changes: Any) -> Thing:
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
    return Thing(**facts | changes)


ALL = [thing(kind) for kind in STAGES]


def acted(things: list[Thing]) -> list[str]:
    return [one.thing.kind for one in decide(things).actions]


def test_each_stage_waits_for_the_one_before() -> None:
    assert acted(ALL) == ["VGPULayout"]
    assert acted(ALL[1:]) == ["PCIDeviceClaim", "VGPUDevice"]
    assert acted(ALL[3:]) == ["MigConfiguration"]
    assert acted(ALL[4:]) == ["SRIOVGPUDevice"]
    assert decide([]).done


def test_what_is_asked_back_but_still_there_is_waited_for() -> None:
    going = thing("VGPUDevice", desired=False, words="WriteFailed: busy")
    [obstacle] = decide([going]).obstacles
    assert obstacle.words == "VGPUDevice one: WriteFailed: busy"
    quiet = decide([replace(going, words="")], silent={"node1"})
    assert "no agent runs on node node1" in quiet.obstacles[0].why
    unanswered = thing("VGPUDevice", desired=False, present=False, answered=False)
    assert not decide([unanswered]).done
    assert decide([replace(unanswered, answered=True)]).done


def test_another_card_and_another_node_do_not_wait() -> None:
    other = thing("SRIOVGPUDevice", "two", card="other")
    far = thing("SRIOVGPUDevice", "three", node="node2")
    found = decide([thing("VGPUDevice", holder="virtual machine a/b"), other, far])
    assert sorted(one.thing.name for one in found.actions) == ["three", "two"]


def test_claims_of_vgpus_go_with_these() -> None:
    follows = thing("PCIDeviceClaim", follows=True)
    found = decide([follows, thing("VGPUDevice")])
    assert [one.thing.kind for one in found.actions] == ["VGPUDevice"]
    assert [one.thing.kind for one in found.obstacles] == ["PCIDeviceClaim"]


def test_a_dry_run_tells_all_of_it_and_what_stands_against_it() -> None:
    held = thing("VGPUDevice", "held", holder="virtual machine a/b")
    shared = thing("VGPULayout", "shared", elsewhere=("node2",))
    actions, obstacles = everything([*ALL, held, shared])
    assert [one.thing.kind for one in actions] == [one.kind for one in ALL]
    assert [one.thing.name for one in obstacles] == ["shared", "held"]


things = st.builds(
    thing,
    st.sampled_from(sorted(STAGES)),
    st.text("abc", min_size=1, max_size=4),
    desired=st.booleans(),
    present=st.booleans(),
    follows=st.just(False),
    holder=st.sampled_from(["", "", "", "virtual machine a/b"]),
    card=st.sampled_from(["c1", "c2"]),
)


@given(st.lists(things, max_size=12, unique_by=lambda one: (one.kind, one.name)))
def test_it_ends_with_nothing_left_but_what_is_in_use(found: list[Thing]) -> None:
    """Agents that do at once what they are asked to."""
    state = {one.title: one for one in found}
    for _ in range(len(Stage) + 1):
        look = decide(state.values())
        for action in look.actions:
            one = action.thing
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
        assert blocked or obstacle.thing.holder or obstacle.thing.card in held
