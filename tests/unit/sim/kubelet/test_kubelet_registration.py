"""Which plugins a simulated kubelet takes, and what becomes of their devices."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from grpclib import GRPCError, Status
from grpclib.exceptions import StreamTerminatedError
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from laneway.sim.kubelet.kubelet import Kubelet

GPU = "nvidia.com/GPU"
LONG = "kubevirt-" + "x" * 62 + ".sock"  # 108 bytes with the kubelet's folder

Until = Callable[[Kubelet, Callable[[], bool]], Awaitable[None]]
Start = Callable[..., Awaitable[Any]]


async def test_healthy_devices_are_allocatable_and_all_are_capacity(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    plugin = await plugins({"a": True, "b": False, "c": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2})
    assert kubelet.capacity == {GPU: 3}
    await plugin.put({"a": True, "b": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2} and kubelet.capacity == {GPU: 2})
    await plugin.put({})
    await until(kubelet, lambda: kubelet.capacity == {GPU: 0})


async def test_the_devices_of_a_plugin_that_went_are_unhealthy_and_then_none(
    kubelets: Start, plugins: Start, until: Until
) -> None:
    kubelet = await kubelets(grace=0.05)
    plugin = await plugins({"a": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    counts = []
    kubelet.subscribe(lambda: counts.append((kubelet.capacity[GPU], kubelet.allocatable[GPU])))
    await plugin.end()
    await until(kubelet, lambda: kubelet.capacity == {GPU: 0})
    assert counts == [(1, 0), (0, 0)]


async def test_a_plugin_that_comes_back_keeps_its_devices_counted(
    kubelets: Start, plugins: Start, until: Until
) -> None:
    kubelet = await kubelets(grace=0.2)
    first = await plugins({"a": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    await first.end()
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 0})
    await plugins({"a": True, "b": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2})
    await asyncio.sleep(0.3)  # the time that the first was given to come back ends without effect
    assert kubelet.capacity == {GPU: 2}


async def test_the_plugin_that_registers_last_is_the_one_that_counts(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    await plugins({"a": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    await plugins({"b": True, "c": True}, endpoint="other.sock")
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2})


async def test_a_stream_that_ends_takes_a_later_registration_with_it(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    first = await plugins({"a": True})
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})
    second = await plugins({"b": True, "c": True}, endpoint="other.sock")
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2})
    await first.end()
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 0})
    await asyncio.wait_for(second.left.wait(), 20)
    await second.register()
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 2})


@pytest.mark.parametrize("service", ["device-plugins", "pod-resources"])
async def test_who_connects_while_a_kubelet_ends_is_cut_off_too(
    kubelet: Kubelet, folder: Path, service: str
) -> None:
    place = os.open(folder / service, os.O_PATH)
    for turns in range(5):
        with socket.socket(socket.AF_UNIX) as late:
            late.setblocking(False)
            late.connect(f"/proc/self/fd/{place}/kubelet.sock")
            for _ in range(turns):
                await asyncio.sleep(0)
            await kubelet.stop()
            reader, writer = await asyncio.open_unix_connection(sock=late)
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 20)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await kubelet.start()
    os.close(place)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"version": "v1"}, 'requested API version "v1" is not supported by kubelet'),
        ({"resource": "gpu"}, 'the ResourceName "gpu" is invalid'),
        ({"resource": "kubernetes.io/gpu"}, "is invalid"),
        ({"resource": "requests.nvidia.com/gpu"}, "is invalid"),
        ({"resource": "NVIDIA.com/gpu"}, "is invalid"),
        ({"resource": "nvidia.com/gpu/a"}, "is invalid"),
        ({"resource": "nvidia.com/" + "x" * 64}, "is invalid"),
        ({"resource": "nvidia.com/gpu_"}, "is invalid"),
        ({"resource": "a" * 245 + "/gpu"}, "is invalid"),
    ],
)
async def test_what_is_not_a_plugin_of_an_extended_resource_is_refused(
    kubelet: Kubelet, plugins: Start, options: dict[str, str], words: str
) -> None:
    plugin = await plugins(register=False, **options)
    with pytest.raises(GRPCError) as refused:
        await plugin.register()
    assert refused.value.status is Status.UNKNOWN
    assert words in (refused.value.message or "")
    assert kubelet.capacity == {}


@pytest.mark.parametrize(
    "resource", ["nvidia.com/NVIDIA_A2-2Q", "kubevirt.io/usb-1", "a/" + "x" * 63]
)
async def test_names_of_extended_resources_are_taken(
    kubelet: Kubelet, plugins: Start, until: Until, resource: str
) -> None:
    await plugins({"a": True}, resource=resource)
    await until(kubelet, lambda: kubelet.allocatable == {resource: 1})


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("nobody.sock", "failed to dial device plugin: No such file or directory"),
        ("kubelet.sock", "failed to get device plugin options: rpc error: code = Unknown"),
        ("", "failed to dial device plugin"),
        ("../pod-resources/kubelet.sock", "invalid argument"),
        (LONG, "invalid argument"),
    ],
)
async def test_a_plugin_that_cannot_be_called_back_is_refused(
    kubelet: Kubelet, plugins: Start, endpoint: str, words: str
) -> None:
    plugin = await plugins(register=False)
    plugin.endpoint, served = endpoint, plugin.endpoint
    with pytest.raises(GRPCError, match=words):
        await plugin.register()
    plugin.endpoint = served


async def test_the_socket_may_be_as_long_as_a_kubelet_can_dial(
    kubelet: Kubelet, plugins: Start, until: Until
) -> None:
    await plugins({"a": True}, endpoint=LONG.replace("x", "", 1))
    await until(kubelet, lambda: kubelet.allocatable == {GPU: 1})


@pytest.mark.parametrize("authority", ["localhost", "/var/lib/kubelet/device-plugins/gpu.sock"])
async def test_the_plugin_is_called_what_the_kubelet_calls_it(
    kubelets: Start, plugins: Start, folder: Path, authority: str
) -> None:
    await kubelets(authority=authority)
    called: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = H2Connection(H2Configuration(client_side=False, validate_inbound_headers=False))
        while not called.done():
            for event in server.receive_data(await reader.read(65536)):
                if isinstance(event, RequestReceived):
                    called.set_result(dict(event.headers)[b":authority"].decode())
        writer.close()

    plugin = await plugins(register=False)
    place = os.open(folder / "device-plugins", os.O_PATH)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"/proc/self/fd/{place}/raw.sock")
    os.close(place)
    async with await asyncio.start_unix_server(answer, sock=sock):
        plugin.endpoint, served = "raw.sock", plugin.endpoint
        with pytest.raises(GRPCError, match="failed to get device plugin options"):
            await plugin.register()
        plugin.endpoint = served
    assert await called == authority


async def test_a_registration_can_be_refused_or_cut_off(kubelet: Kubelet, plugins: Start) -> None:
    plugin = await plugins(register=False)
    kubelet.faults.register = "refuse"
    with pytest.raises(GRPCError, match="takes no requests"):
        await plugin.register()
    kubelet.faults.register = "close"
    with pytest.raises((StreamTerminatedError, ConnectionError)):
        await plugin.register()


async def test_a_registration_can_go_unanswered_until_the_kubelet_ends(
    kubelet: Kubelet, plugins: Start
) -> None:
    plugin = await plugins(register=False)
    kubelet.faults.register = "hang"
    registering = asyncio.create_task(plugin.register())
    done, _ = await asyncio.wait([registering], timeout=0.1)
    assert not done
    await kubelet.stop()
    with pytest.raises((StreamTerminatedError, ConnectionError)):
        await registering
