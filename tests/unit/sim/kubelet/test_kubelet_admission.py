"""Which devices a simulated kubelet gives to a pod, and in which words it fails one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.sim.kubelet.admission import choose
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.pods import AdmissionError, DeviceNode, Grant, PodRequest
from support.examples import many

GPU, NIC = "nvidia.com/GPU", "example.com/NIC"

Until = Callable[[Kubelet, Callable[[], bool]], Awaitable[None]]
Start = Callable[..., Awaitable[Any]]


def pod(uid: str, *containers: dict[str, int]) -> PodRequest:
    names = {f"c{number}": limits for number, limits in enumerate(containers)}
    return PodRequest(uid=uid, namespace="default", name=uid, containers=names)


def ids(grants: dict[str, Grant]) -> list[dict[str, tuple[str, ...]]]:
    return [grant.ids for grant in grants.values()]


async def test_a_container_gets_what_its_plugins_answer(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    await plugins({"a": True, "b": False, "c": True})
    await plugins({"n": True}, resource=NIC, endpoint="nic.sock")
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2, NIC: 1})
    grants = await kubelet.admit(pod("vm", {GPU: 2, NIC: 1}, {}))
    nodes = ["/dev/vfio/vfio", "/dev/vfio/a", "/dev/vfio/c", "/dev/vfio/n"]
    assert grants == {
        "c0": Grant(
            envs={GPU: "a,c", NIC: "n"},
            devices=tuple(DeviceNode(node, node, "mrw") for node in nodes),
            ids={GPU: ("a", "c"), NIC: ("n",)},
        ),
        "c1": Grant(),
    }


async def test_what_a_pod_has_no_other_gets_until_it_ends(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    await plugins({"a": True, "b": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2})
    [one] = ids(await kubelet.admit(pod("one", {GPU: 1})))
    [two] = ids(await kubelet.admit(pod("two", {GPU: 1})))
    assert {*one[GPU], *two[GPU]} == {"a", "b"}
    assert kubelet.allocatable == {GPU: 2}
    with pytest.raises(AdmissionError) as failed:
        await kubelet.admit(pod("three", {GPU: 1}))
    assert failed.value.reason == "UnexpectedAdmissionError"
    assert str(failed.value) == (
        "Allocate failed due to requested number of devices unavailable for nvidia.com/GPU. "
        "Requested: 1, Available: 0, which is unexpected"
    )
    kubelet.remove("two")
    kubelet.remove("unknown")
    assert ids(await kubelet.admit(pod("three", {GPU: 1}))) == [two]


async def test_two_pods_at_once_never_get_the_same(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    await plugins({"a": True}, prefers=["a"])
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    answers = await asyncio.gather(
        *(kubelet.admit(pod(uid, {GPU: 1})) for uid in ("one", "two")), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [dict, AdmissionError]


async def test_the_plugin_is_asked_what_it_prefers_only_when_it_offers_to_say(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    gpus = await plugins({"a": True, "b": True, "c": False, "d": True}, prefers=["d", "c", "x"])
    nics = await plugins({"m": True, "n": True}, resource=NIC, endpoint="nic.sock")
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 3, NIC: 2})
    grants = await kubelet.admit(pod("vm", {GPU: 2, NIC: 1}))
    [had] = ids(grants)
    assert "d" in had[GPU]
    assert gpus.asked == ["prefer 2 of a,b,d", f"allocate {','.join(had[GPU])}"]
    assert nics.asked == [f"allocate {had[NIC][0]}"]


async def test_each_container_gets_its_own(kubelet: Kubelet, plugins: Start, until: Until) -> None:
    plugin = await plugins({"a": True, "b": True, "c": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 3})
    grants = await kubelet.admit(pod("vm", {GPU: 1}, {GPU: 2}))
    first, second = (one[GPU] for one in ids(grants))
    assert (len(first), len(second)) == (1, 2)
    assert {*first, *second} == {"a", "b", "c"}
    assert plugin.asked == [f"allocate {','.join(first)}", f"allocate {','.join(second)}"]


async def test_a_pod_that_fails_leaves_nothing_behind(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    await plugins({"a": True})
    nics = await plugins({"n": True}, resource=NIC, endpoint="nic.sock", refuses="held by vm7")
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1, NIC: 1})
    with pytest.raises(AdmissionError) as failed:
        await kubelet.admit(pod("vm", {GPU: 1}, {NIC: 1}))
    assert str(failed.value) == (
        "Allocate failed due to rpc error: code = FailedPrecondition desc = held by vm7, "
        "which is unexpected"
    )
    nics.refuses = ""
    grants = await kubelet.admit(pod("other", {GPU: 1, NIC: 1}))
    assert ids(grants) == [{GPU: ("a",), NIC: ("n",)}]


@pytest.mark.parametrize(
    ("devices", "cause"),
    [
        ({}, "no healthy devices present; cannot allocate unhealthy devices nvidia.com/GPU"),
        (
            {"a": False},
            "no healthy devices present; cannot allocate unhealthy devices nvidia.com/GPU",
        ),
        ({"a": True, "b": False}, "requested number of devices unavailable for nvidia.com/GPU"),
    ],
)
async def test_what_cannot_be_given_fails_in_the_kubelets_words(
    kubelet: Kubelet, plugins: Start, until: Until, devices: dict[str, bool], cause: str
) -> None:
    await plugins(devices)
    await until(kubelet, lambda: kubelet.capacity == {GPU: len(devices)})
    with pytest.raises(AdmissionError, match=f"Allocate failed due to {cause}.*, which is unexp"):
        await kubelet.admit(pod("vm", {GPU: 2}))


async def test_what_is_not_offered_cannot_be_allocated(kubelet: Kubelet) -> None:
    with pytest.raises(AdmissionError, match="cannot allocate unregistered device nvidia"):
        await kubelet.admit(pod("vm", {GPU: 1}))


async def test_a_plugin_that_answers_for_no_container_fails_the_pod(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    await plugins({"a": True}, answers=0)
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    with pytest.raises(AdmissionError, match="no containers return in allocation response"):
        await kubelet.admit(pod("vm", {GPU: 1}))


@settings(max_examples=many(100))
@given(st.frozensets(st.sampled_from("abcdef")), st.frozensets(st.sampled_from("defgh")), st.data())
def test_preferred_devices_go_first_and_never_what_is_not_free(
    available: frozenset[str], preferred: frozenset[str], data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, len(available)))
    luck = random.Random(data.draw(st.integers()))
    chosen = set(choose(available, preferred, count, luck))
    assert len(chosen) == count
    assert chosen <= available
    assert chosen <= preferred or available & preferred <= chosen


def test_there_is_no_fixed_order_and_a_seed_repeats_it() -> None:
    def chosen(seed: int) -> tuple[str, ...]:
        return choose(set("abcdef"), set(), 2, random.Random(seed))

    assert len({chosen(seed) for seed in range(100)}) == 15, "all pairs of six"
    assert [chosen(seed) for seed in range(9)] == [chosen(seed) for seed in range(9)]
