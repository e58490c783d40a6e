"""One node, from a boot that is staged to one that is verified."""

from __future__ import annotations

from laneway.core.rollout.node import (
    REBOOT_SECONDS,
    VERIFY_SECONDS,
    Node,
    Rollout,
    Stage,
    Vm,
    next_step,
)
from laneway.core.rollout.terms import Terms

NOW = 1_000_000.0
STAGED = Node("n1", ready=True, cordoned=False, agent=Stage.STAGED, boot="b1")
FREE = Terms("gpus", when="WhenFree")
DRAINING = Rollout(Stage.DRAINING, "", NOW, "b1", cordoned=True)
REBOOTING = Rollout(Stage.REBOOTING, "", NOW, "b1", cordoned=True)
VERIFYING = Rollout(Stage.VERIFYING, "", NOW, "b1", cordoned=True)
DESKTOP = Vm("default/desktop", "holds devices")


def test_a_node_that_needs_no_reboot_is_left_alone() -> None:
    ready = STAGED._replace(agent=Stage.READY)

    assert next_step(ready, Rollout(), [FREE], NOW) == next_step(
        ready._replace(agent=Stage.PLANNED), Rollout(), [FREE], NOW
    )
    assert next_step(ready, Rollout(), [FREE], NOW).rollout == Rollout()


def test_the_whole_way() -> None:
    begun = next_step(STAGED, Rollout(), [FREE], NOW)
    assert (begun.rollout.stage, begun.cordon) == (Stage.DRAINING, True)
    assert begun.rollout.boot == "b1"
    assert begun.rollout.cordoned

    cordoned = STAGED._replace(cordoned=True, pods=("default/web",))
    drained = next_step(cordoned, begun.rollout, [FREE], NOW)
    assert drained.drain
    assert drained.rollout.message == "Still there: default/web."

    empty = next_step(cordoned._replace(pods=()), drained.rollout, [FREE], NOW)
    assert empty.rollout.stage is Stage.REBOOTING

    booted = cordoned._replace(pods=(), boot="b2", agent=Stage.IDLE)
    seen = next_step(booted, empty.rollout, [FREE], NOW)
    assert seen.rollout.stage is Stage.VERIFYING

    good = next_step(booted._replace(agent=Stage.READY), seen.rollout, [FREE], NOW)
    assert (good.rollout, good.cordon) == (Rollout(), False)


def test_a_node_that_an_administrator_has_cordoned_stays_so() -> None:
    theirs = STAGED._replace(cordoned=True)
    begun = next_step(theirs, Rollout(), [FREE], NOW).rollout

    after = theirs._replace(agent=Stage.READY, boot="b2")
    done = next_step(after, begun._replace(stage=Stage.VERIFYING), [FREE], NOW)

    assert done.cordon is None


def test_a_vm_with_a_device_is_named_and_not_stopped() -> None:
    held = STAGED._replace(vms=(DESKTOP,))

    waiting = next_step(held, Rollout(), [FREE], NOW)

    assert waiting.rollout.stage is Stage.REBOOT_PENDING
    assert "default/desktop (holds devices)" in waiting.rollout.message
    assert not waiting.drain
    allowed = next_step(held, Rollout(), [FREE._replace(stop_vms=True)], NOW)
    assert allowed.rollout.stage is Stage.DRAINING


def test_a_vm_that_came_between_the_decision_and_the_cordon_is_waited_for() -> None:
    late = STAGED._replace(cordoned=True, vms=(DESKTOP,))

    step = next_step(late, DRAINING, [FREE], NOW)

    assert step.rollout.stage is Stage.DRAINING
    assert "default/desktop (holds devices)" in step.rollout.message
    assert "stopVMs" in step.rollout.message


def test_a_node_is_not_rebooted_before_it_is_cordoned() -> None:
    step = next_step(STAGED, DRAINING, [FREE], NOW)

    assert step.rollout.stage is Stage.DRAINING
    assert step.cordon


def test_a_policy_that_is_paused_while_a_node_drains_gives_the_node_back() -> None:
    paused = FREE._replace(paused=True)

    step = next_step(STAGED._replace(cordoned=True), DRAINING, [paused], NOW)

    assert step.rollout.stage is Stage.REBOOT_PENDING
    assert step.cordon is False


def test_a_node_that_does_not_come_back_is_failed_and_comes_back_later() -> None:
    silent = STAGED._replace(ready=False, cordoned=True)

    assert next_step(silent, REBOOTING, [FREE], NOW + REBOOT_SECONDS).rollout == REBOOTING
    lost = next_step(silent, REBOOTING, [FREE], NOW + REBOOT_SECONDS + 1)
    assert lost.rollout.stage is Stage.FAILED
    assert "did not come back" in lost.rollout.message

    back = STAGED._replace(cordoned=True, boot="b2", agent=Stage.READY)
    assert next_step(back, lost.rollout, [FREE], NOW).cordon is False


def test_a_node_that_comes_back_wrong_is_failed_with_the_reason() -> None:
    wrong = STAGED._replace(cordoned=True, boot="b2", agent=Stage.STAGED, missing=("Iommu",))

    step = next_step(wrong, VERIFYING, [FREE], NOW)

    assert step.rollout.stage is Stage.FAILED
    assert step.rollout.message.endswith("what its policies request: Iommu.")
    assert step.cordon is None  # people look at it, and nothing is scheduled meanwhile


def test_a_node_that_is_never_ready_after_its_boot_is_failed() -> None:
    slow = STAGED._replace(ready=False, boot="b2", agent=Stage.READY)

    assert next_step(slow, VERIFYING, [FREE], NOW).rollout.stage is Stage.VERIFYING
    step = next_step(slow, VERIFYING, [FREE], NOW + VERIFY_SECONDS + 1)
    assert step.rollout.stage is Stage.FAILED


def test_an_agent_that_refuses_the_reboot_fails_the_node_and_frees_it() -> None:
    damaged = STAGED._replace(cordoned=True, refused="The node might not boot: no kernel.")

    step = next_step(damaged, REBOOTING, [FREE], NOW)

    assert (step.rollout.stage, step.rollout.message) == (Stage.FAILED, damaged.refused)
    assert step.cordon is False


def test_a_command_reboots_where_the_policy_does_not_by_itself() -> None:
    terms = [Terms("gpus", when="OnCommand")]

    waits = next_step(STAGED, Rollout(), terms, NOW)
    assert "laneway hosts reboot" in waits.rollout.message
    goes = next_step(STAGED._replace(approved=True), Rollout(), terms, NOW)
    assert goes.rollout.stage is Stage.DRAINING
    held = STAGED._replace(approved=True, vms=(DESKTOP,))
    assert next_step(held, Rollout(), terms, NOW).rollout.stage is Stage.REBOOT_PENDING


def test_a_command_repeats_what_failed() -> None:
    failed = Rollout(Stage.FAILED, "why", NOW, "b1")

    assert next_step(STAGED, failed, [FREE], NOW).rollout == failed
    again = next_step(STAGED._replace(approved=True), failed, [FREE], NOW)
    assert again.rollout.stage is Stage.DRAINING


def test_the_strictest_policy_of_a_node_counts() -> None:
    for one, said in (
        (FREE._replace(policy="a", away=1), "1 unavailable at a time, which is reached."),
        (FREE._replace(policy="a", away=1, outside=("n2",)), "n2: cordoned or not Ready"),
        (FREE._replace(policy="a", failed="n3"), "n3 failed"),
        (Terms("a"), "never reboots"),
        (Terms("a", when="InWindow", windows="Sat"), "its window: Sat"),
    ):
        step = next_step(STAGED, Rollout(), [FREE, one], NOW)
        assert step.rollout.stage is Stage.REBOOT_PENDING, said
        assert said in step.rollout.message


def test_a_message_that_stays_the_same_is_not_news() -> None:
    first = next_step(STAGED, Rollout(), [Terms("a")], NOW).rollout

    assert next_step(STAGED, first, [Terms("a")], NOW + 60).rollout == first
