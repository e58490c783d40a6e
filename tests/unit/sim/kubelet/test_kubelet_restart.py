"""What a simulated kubelet still knows after it ended, at any moment, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.pods import AdmissionError, KubeletDiedError, PodRequest

GPU = "nvidia.com/GPU"

Until = Callable[[Kubelet, Callable[[], bool]], Awaitable[None]]
Start = Callable[..., Awaitable[Any]]


def pod(uid: str, *, count: int = 1, running: bool = False) -> PodRequest:
    containers = {"compute": {GPU: count}}
    return PodRequest(
        uid=uid, namespace="default", name=uid, containers=containers, running=running
    )


async def test_sockets_of_plugins_are_removed_and_their_devices_wait_for_them(
    kubelets: Start, plugins: Start, until: Until, folder: Path
) -> None:
    first = await kubelets()
    plugin = await plugins({"a": True})
    await until(first, lambda: first.allocatable == {GPU: 1})
    await first.stop()
    own = folder / "device-plugins" / "README"
    own.write_text("not a socket")
    second = await kubelets()
    names = {path.name for path in (folder / "device-plugins").iterdir()}
    assert names == {"README", "kubelet.sock", "kubelet_internal_checkpoint"}
    assert second.capacity == second.allocatable == {GPU: 0}
    await plugin.end()
    await plugins({"a": True})
    await until(second, lambda: second.allocatable == {GPU: 1})


async def test_a_resource_that_is_not_offered_again_is_forgotten(
    kubelets: Start, plugins: Start, until: Until
) -> None:
    first = await kubelets()
    await plugins({"a": True})
    await until(first, lambda: first.allocatable == {GPU: 1})
    await first.stop()
    second = await kubelets()
    with pytest.raises(AdmissionError, match="no healthy devices present"):
        await second.admit(pod("vm"))
    await second.stop()
    third = await kubelets(grace=0)
    await asyncio.sleep(0)  # the time for coming back has ended already
    assert third.capacity == {GPU: 0}
    await third.stop()
    fourth = await kubelets()
    assert fourth.capacity == {}
    with pytest.raises(AdmissionError, match="cannot allocate unregistered device"):
        await fourth.admit(pod("vm"))


async def test_allocations_outlive_the_kubelet(
    kubelets: Start, plugins: Start, until: Until
) -> None:
    first = await kubelets()
    plugin = await plugins({"a": True, "b": True})
    await until(first, lambda: first.allocatable == {GPU: 2})
    before = await first.admit(pod("vm"))
    await first.stop()
    await plugin.end()
    second = await kubelets()
    assert await second.admit(pod("vm", running=True)) == before
    with pytest.raises(AdmissionError, match="no healthy devices present"):
        await second.admit(pod("other"))
    plugin = await plugins({"a": True, "b": True})
    await until(second, lambda: second.allocatable == {GPU: 2})
    assert await second.admit(pod("vm")) == before
    assert plugin.asked == []
    [other] = (await second.admit(pod("other")))["compute"].ids[GPU]
    assert {other, *before["compute"].ids[GPU]} == {"a", "b"}


async def test_containers_that_begin_again_need_their_devices_healthy(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    plugin = await plugins({"a": True, "b": True}, prefers=["a"])
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2})
    await kubelet.admit(pod("vm"))
    with pytest.raises(AdmissionError, match="changed its request for resource"):
        await kubelet.admit(pod("vm", count=2))
    await kubelet.admit(pod("vm"))
    await plugin.put({"a": False, "b": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    with pytest.raises(AdmissionError, match="previously allocated devices are no longer healthy"):
        await kubelet.admit(pod("vm"))


async def test_a_kubelet_that_ends_in_the_middle_has_given_nothing(
    kubelets: Start, plugins: Start, until: Until
) -> None:
    first = await kubelets()
    plugin = await plugins({"a": True}, prefers=["a"])
    await until(first, lambda: first.allocatable == {GPU: 1})
    first.faults.die_before_allocate = True
    with pytest.raises(KubeletDiedError):
        await first.admit(pod("vm"))
    assert plugin.asked == ["prefer 1 of a"]
    with pytest.raises(KubeletDiedError):
        await first.admit(pod("vm"))
    await plugin.end()
    second = await kubelets()
    plugin = await plugins({"a": True})
    await until(second, lambda: second.allocatable == {GPU: 1})
    assert (await second.admit(pod("other")))["compute"].ids == {GPU: ("a",)}


async def test_one_kubelet_can_be_started_again(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    plugin = await plugins({"a": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    await kubelet.admit(pod("vm"))
    await kubelet.stop()
    await plugin.end()
    kubelet.remove("vm")  # it ended unnoticed
    await kubelet.start()
    await plugins({"a": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    await kubelet.admit(pod("other"))


async def test_a_broken_memory_is_given_up(
    kubelets: Start, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = await kubelets()
    await first.stop()
    (folder / "device-plugins" / "kubelet_internal_checkpoint").write_text('{"pods": 7}')
    await kubelets()
    assert "is broken" in caplog.text
