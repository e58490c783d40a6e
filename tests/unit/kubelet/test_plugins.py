"""A kubelet has what is offered, and gets it again whatever happens to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from laneway.api.kubelet.deviceplugin_pb2 import Empty
from laneway.core.device_plugin.offer import Offer
from laneway.kubelet import plugin, registration
from laneway.kubelet.plugins import Plugins
from laneway.kubelet.sockets import endpoint, hashed_endpoint
from laneway.sim.kubelet.kubelet import Kubelet

GPU = "nvidia.com/GA100_A100"
AUDIO = "nvidia.com/AD102_AUDIO"

Gpus = Callable[..., list[Offer]]
Until = Callable[..., Awaitable[None]]


def counts(kubelet: Kubelet, resource: str = GPU) -> tuple[int, int]:
    return kubelet.capacity.get(resource, 0), kubelet.allocatable.get(resource, 0)


async def test_what_is_offered_can_be_requested(
    kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    bad = gpus(3, unhealthy="the GPU fell off the bus (Xid 79)")
    plugins.offer([*gpus(1, 2), *bad, *gpus(4, resource=AUDIO)])
    await until(lambda: counts(kubelet) == (3, 2) and counts(kubelet, AUDIO) == (1, 1), kubelet)
    await until(lambda: plugins.state(GPU) == (True, "") == plugins.state(AUDIO), plugins)


async def test_a_kubelet_learns_of_every_change(
    kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    plugins.offer(gpus(1, 2))
    await until(lambda: counts(kubelet) == (2, 2), kubelet)
    plugins.offer([*gpus(1), *gpus(2, unhealthy="QEMU of no pod has it open")])
    await until(lambda: counts(kubelet) == (2, 1), kubelet)
    plugins.offer(gpus(2, 3, 4))
    await until(lambda: counts(kubelet) == (3, 3), kubelet)
    plugins.offer(gpus(1))
    await until(lambda: counts(kubelet) == (1, 1), kubelet)


async def test_with_the_last_device_the_capacity_goes_and_comes_again_with_the_next(
    folder: Path, kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    socket = folder / "device-plugins" / endpoint(GPU)
    for _ in range(3):
        plugins.offer(gpus(1))
        await until(
            lambda: counts(kubelet) == (1, 1) and plugins.state(GPU).registered, kubelet, plugins
        )
        assert socket.is_socket()
        plugins.offer([])
        assert plugins.state(GPU) == (False, "no device is offered under this name")
        # A plugin that only went away would leave a capacity of 1 for minutes.
        await until(lambda: counts(kubelet) == (0, 0), kubelet)
    await until(lambda: not socket.exists(), plugins)


async def test_plugins_wait_for_a_kubelet_that_is_not_there(
    folder: Path, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    assert plugins.state(GPU).problem == "no device is offered under this name"
    plugins.offer(gpus(1))
    assert plugins.state(GPU) == (False, "the plugin is starting")
    await until(lambda: "does not exist" in plugins.state(GPU).problem, plugins)
    assert str(folder / "device-plugins" / "kubelet.sock") in plugins.state(GPU).problem
    kubelet = Kubelet(str(folder))
    await kubelet.start()
    await until(
        lambda: counts(kubelet) == (1, 1) and plugins.state(GPU).registered, kubelet, plugins
    )
    await kubelet.stop()


async def test_plugins_wait_for_a_folder_that_is_not_there(
    folder: Path, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    (folder / "device-plugins").rmdir()
    plugins.offer(gpus(1))
    await until(lambda: "cannot create a socket" in plugins.state(GPU).problem, plugins)
    kubelet = Kubelet(str(folder))
    await kubelet.start()
    await until(lambda: counts(kubelet) == (1, 1), kubelet)
    await kubelet.stop()


async def test_a_kubelet_that_was_restarted_gets_everything_again(
    kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    plugins.offer([*gpus(1, 2), *gpus(4, resource=AUDIO)])
    for _ in range(3):
        await until(lambda: counts(kubelet) == (2, 2) and counts(kubelet, AUDIO) == (1, 1), kubelet)
        await kubelet.stop()
        await until(lambda: not plugins.state(GPU).registered, plugins)
        assert plugins.state(GPU).problem
        await kubelet.start()
    await until(lambda: counts(kubelet) == (2, 2) and counts(kubelet, AUDIO) == (1, 1), kubelet)


async def test_a_plugin_whose_socket_was_deleted_serves_again(
    *, folder: Path, kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until, called: Any
) -> None:
    plugins.offer(gpus(1))
    await until(lambda: plugins.state(GPU).registered, plugins)
    socket = folder / "device-plugins" / endpoint(GPU)
    socket.unlink()
    await until(lambda: not plugins.state(GPU).registered, plugins)
    await until(lambda: plugins.state(GPU).registered, plugins)
    await until(lambda: counts(kubelet) == (1, 1), kubelet)
    assert await called().GetDevicePluginOptions(Empty(), timeout=20)


async def test_a_refused_plugin_says_so_and_tries_again(
    kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    kubelet.faults.register = "refuse"
    plugins.offer(gpus(1))
    await until(lambda: "the kubelet takes no requests now" in plugins.state(GPU).problem, plugins)
    kubelet.faults.register = "answer"
    await until(lambda: plugins.state(GPU).registered, plugins)


async def test_a_name_that_the_kubelet_does_not_take_is_reported(
    kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    plugins.offer(gpus(1, resource="no resource"))
    await until(lambda: "is invalid" in plugins.state("no resource").problem, plugins)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [("hang", "did not answer at"), ("close", "closed the connection at")],
)
async def test_a_kubelet_that_does_not_answer_is_reported_and_tried_again(
    behaviour: Any,
    words: str,
    *,
    kubelet: Kubelet,
    plugins: Plugins,
    gpus: Gpus,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration, "SECONDS", 0.2)
    kubelet.faults.register = behaviour
    plugins.offer(gpus(1))
    await until(lambda: words in plugins.state(GPU).problem, plugins)
    monkeypatch.undo()
    kubelet.faults.register = "answer"
    await until(lambda: plugins.state(GPU).registered, plugins)


async def test_a_new_kubelet_ends_the_pause_between_tries(
    folder: Path, plugins: Plugins, gpus: Gpus, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "SHORTEST", 3600.0)
    plugins.offer(gpus(1))
    await until(lambda: "does not exist" in plugins.state(GPU).problem, plugins)
    kubelet = Kubelet(str(folder))
    await kubelet.start()
    await until(lambda: plugins.state(GPU).registered, plugins)
    await kubelet.stop()


async def test_a_kubelet_that_registers_but_never_asks_has_nothing(
    *,
    registrations: asyncio.Queue[str],
    plugins: Plugins,
    gpus: Gpus,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugin, "_SECONDS", 0.1)
    plugins.offer(gpus(1))
    for _ in range(2):
        assert await asyncio.wait_for(registrations.get(), 20) == GPU
        await until(lambda: "does not list the devices" in plugins.state(GPU).problem, plugins)


async def test_a_new_socket_of_the_kubelet_is_registered_with_at_once(
    *,
    folder: Path,
    registrations: asyncio.Queue[str],
    plugins: Plugins,
    gpus: Gpus,
    until: Until,
    called: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    socket = folder / "device-plugins" / "kubelet.sock"
    monkeypatch.setattr(plugin, "SHORTEST", 3600.0)
    monkeypatch.setattr(plugin, "_SECONDS", 0.1)
    plugins.offer(gpus(1))
    await asyncio.wait_for(registrations.get(), 20)
    await until(lambda: "does not list the devices" in plugins.state(GPU).problem, plugins)
    monkeypatch.setattr(plugin, "_SECONDS", 20.0)
    os.chmod(socket, 0o600)  # what else tells it from one made again is up to the file system
    await asyncio.wait_for(registrations.get(), 20)
    async with called().ListAndWatch.open(timeout=20) as stream:
        await stream.send_message(Empty(), end=True)
        await until(lambda: plugins.state(GPU).registered, plugins)
        os.chmod(socket, 0o666)
        await asyncio.wait_for(registrations.get(), 20)
        await stream.cancel()


async def test_a_kubelet_that_gave_a_plugin_up_gets_it_again(
    registrations: asyncio.Queue[str], plugins: Plugins, gpus: Gpus, until: Until, called: Any
) -> None:
    plugins.offer(gpus(1))
    for _ in range(2):
        assert await asyncio.wait_for(registrations.get(), 20) == GPU
        assert not plugins.state(GPU).registered
        async with called().ListAndWatch.open(timeout=20) as stream:
            await stream.send_message(Empty(), end=True)
            await stream.recv_message()
            await until(lambda: plugins.state(GPU).registered, plugins)
            await stream.cancel()
        await until(lambda: "has dropped the plugin" in plugins.state(GPU).problem, plugins)


async def test_an_agent_that_ends_takes_nothing_back(
    folder: Path, kubelet: Kubelet, gpus: Gpus, until: Until
) -> None:
    for _ in range(2):
        plugins = Plugins(str(folder))
        plugins.offer(gpus(1))  # before it runs: what an agent finds when it starts
        running = asyncio.create_task(plugins.run())
        await until(lambda: counts(kubelet) == (1, 1), kubelet)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await until(lambda: counts(kubelet) == (1, 0), kubelet)


async def test_names_that_would_share_a_file_or_leave_the_folder_do_not(
    folder: Path, kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    one, other, hostile = "a.b/c-d", "a.b-c/d", "a/../../../x"
    assert endpoint(one) == endpoint(other)
    plugins.offer([*gpus(1, resource=one), *gpus(2, resource=other), *gpus(3, resource=hostile)])
    await until(lambda: counts(kubelet, one) == counts(kubelet, other) == (1, 1), kubelet)
    await until(lambda: "invalid" in plugins.state(hostile).problem, plugins)
    files = {*os.listdir(folder / "device-plugins")}
    assert {endpoint(one), hashed_endpoint(other)} <= files
    assert {*os.listdir(folder)} == {"device-plugins", "pod-resources"}
