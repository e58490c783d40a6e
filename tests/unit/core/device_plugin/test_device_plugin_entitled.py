"""For whom a kubelet may be asking, and who of them may have what others have claimed."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.device_plugin.entitled import Pod, barred, candidates
from laneway.core.device_plugin.offer import Owner
from laneway.core.requesters import User

NIC = "intel.com/NIC"


def pod(name: str = "p", count: int = 1, **fields: Any) -> Pod:
    given = {"phase": "Pending", "limits": {NIC: count}, "sizes": {(NIC, count)}} | fields
    return Pod(uid=f"uid of {name}", namespace="team", name=name, **given)


def had(*pods: str) -> dict[tuple[str, str], Owner]:
    return {(NIC, str(at)): Owner(namespace="team", pod=one) for at, one in enumerate(pods)}


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_a_pod_that_waits_for_as_many_may_be_meant(phase: str) -> None:
    assert candidates([pod(phase=phase)], NIC, 1, {}) == (pod(phase=phase),)


@pytest.mark.parametrize(
    "other",
    [
        pod(phase="Running"),
        pod(phase="Failed"),
        pod(count=2),
        pod(limits={"x/y": 1}, sizes={("x/y", 1)}),
        pod("has"),
    ],
)
def test_a_pod_that_waits_for_nothing_or_others_is_not_meant(other: Pod) -> None:
    assert candidates([other], NIC, 1, had("has")) == ()


def test_a_pod_of_two_containers_is_meant_until_both_have_theirs() -> None:
    both = pod(limits={NIC: 2}, sizes={(NIC, 1)})

    assert candidates([both], NIC, 1, had("p")) == (both,)
    assert candidates([both], NIC, 1, had("p", "p")) == ()


def test_a_device_is_allocated_if_all_possible_pods_may_have_it() -> None:
    found = [pod("a"), pod("b")]

    assert barred("nic-1", "alice", found, {"team/a": True, "team/b": True}) == ("", False)


def test_while_another_may_be_meant_none_gets_it() -> None:
    found = [pod("a"), pod("b")]

    why, may_change = barred("nic-1", "alice", found, {"team/a": True, "team/b": False})

    assert may_change
    assert "nic-1 is claimed by 'alice'" in why
    assert "team/a, team/b" in why
    assert "delete team/b" in why


def test_a_pod_without_the_right_is_refused_with_its_user_and_account() -> None:
    strange = pod(users=(User("bob"),), account="trainer")

    why, may_change = barred("nic-1", "alice", [strange], {})

    assert not may_change
    assert "pod team/p may not have it" in why
    assert "'bob', 'system:serviceaccount:team:trainer' may not use it" in why


def test_a_pod_that_admission_never_saw_is_refused_with_the_reason() -> None:
    why, _ = barred("nic-1", "alice", [pod()], {})

    assert "whose creation Laneway's webhook did not see" in why


def test_where_no_pod_waits_none_gets_it_yet() -> None:
    why, may_change = barred("nic-1", "alice", [], {})

    assert why
    assert may_change
