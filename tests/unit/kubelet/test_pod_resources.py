"""The kubelet is asked for allocations; where it does not say, that is said."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.api.kubelet.sockets import KUBELET, listen
from laneway.core.device_plugin.offer import Offer, Owner
from laneway.kubelet.errors import KubeletError
from laneway.kubelet.plugins import Plugins
from laneway.kubelet.pod_resources import PodResources
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.pods import PodRequest

GPU = "nvidia.com/GA100_A100"


async def test_owners_are_the_containers_that_have_devices(
    folder: Path,
    kubelet: Kubelet,
    plugins: Plugins,
    gpus: Callable[..., list[Offer]],
    until: Callable[..., Awaitable[None]],
) -> None:
    resources = PodResources(str(folder))
    assert await resources.owners() == {}
    plugins.offer(gpus(1, 2))
    await until(lambda: kubelet.allocatable.get(GPU) == 2, kubelet)
    containers = {"compute": {GPU: 1}, "other": {}}
    request = PodRequest(uid="u", namespace="default", name="vm", containers=containers)
    (one,) = (await kubelet.admit(request))["compute"].ids[GPU]
    owner = Owner(namespace="default", pod="vm", container="compute")
    assert await resources.owners() == {(GPU, one): owner}
    await kubelet.stop()
    with pytest.raises(KubeletError, match="no process listens at"):
        await resources.owners()
    await kubelet.start()
    assert await resources.owners() == {(GPU, one): owner}
    plugins.confirm(await resources.owners())
    assert not plugins.recent_allocations()
    kubelet.remove("u")
    assert await resources.owners() == {}


@pytest.mark.parametrize(
    ("behaviour", "seconds", "words"),
    [
        ("hang", 0.1, "did not answer at .* within 0.1 s"),
        ("close", 20, "closed the connection at .* without an answer"),
        ("refuse", 20, "takes no requests now .UNAVAILABLE"),
    ],
)
async def test_a_kubelet_that_does_not_answer_is_reported_in_words(
    behaviour: Any, seconds: float, words: str, folder: Path, kubelet: Kubelet
) -> None:
    kubelet.faults.pod_resources = behaviour
    with pytest.raises(KubeletError, match=words):
        await PodResources(str(folder), seconds=seconds).owners()


async def test_a_kubelet_that_stops_in_any_moment_is_reported_in_words(folder: Path) -> None:
    place = folder / "pod-resources"
    place.mkdir(exist_ok=True)
    with listen(str(place), KUBELET) as listening:
        listening.setblocking(True)
        closing = threading.Thread(target=_close_each, args=(listening,))
        closing.start()
        # Which moment it is, is left to the scheduler: one of forty is the one in question.
        for _ in range(300):
            with pytest.raises(KubeletError, match="closed the connection"):
                await PodResources(str(folder)).owners()
        listening.shutdown(socket.SHUT_RDWR)
        closing.join()


def _close_each(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            listening.accept()[0].close()


async def test_a_kubelet_that_is_not_there_is_reported_in_words(folder: Path) -> None:
    path = folder / "pod-resources" / "kubelet.sock"
    resources = PodResources(str(folder))
    with pytest.raises(KubeletError, match=f"no kubelet: {path} does not exist"):
        await resources.owners()
    path.parent.rmdir()
    with pytest.raises(KubeletError, match=f"no kubelet: {path} does not exist"):
        await resources.owners()
    path.parent.mkdir()
    path.write_text("no socket")
    with pytest.raises(KubeletError, match=f"no process listens at {path}"):
        await resources.owners()
