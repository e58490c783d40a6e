from __future__ import annotations

from laneway import api

READY = api.Condition(type="Ready", status="True", reason="Synced", last_transition_time="t1")
OTHER = api.Condition(type="Permitted", status="False", last_transition_time="t1")


def test_a_new_condition_goes_to_the_end_with_the_time() -> None:
    new = api.Condition(type="Ready", status="Unknown")

    assert api.set_condition([OTHER], new, "t2") == [
        OTHER,
        api.Condition(type="Ready", status="Unknown", last_transition_time="t2"),
    ]


def test_an_unchanged_status_keeps_its_time_and_place() -> None:
    new = api.Condition(type="Ready", status="True", reason="Adopted", message="why")

    assert api.set_condition([READY, OTHER], new, "t2") == [
        api.Condition(
            type="Ready",
            status="True",
            reason="Adopted",
            message="why",
            last_transition_time="t1",
        ),
        OTHER,
    ]


def test_the_same_condition_again_changes_nothing() -> None:
    assert api.set_condition([READY, OTHER], READY, "t2") == [READY, OTHER]


def test_a_changed_status_gets_the_time() -> None:
    new = api.Condition(type="Ready", status="False", last_transition_time="ignored")

    (first, _) = api.set_condition([READY, OTHER], new, "t2")
    assert first.last_transition_time == "t2"


def test_a_condition_without_time_gets_one() -> None:
    untimed = api.Condition(type="Ready", status="True")

    assert api.set_condition([untimed], untimed, "t2")[0].last_transition_time == "t2"


def test_conditions_are_found_by_type() -> None:
    assert api.find_condition([OTHER, READY], "Ready") is READY
    assert api.find_condition([OTHER], "Ready") is None
