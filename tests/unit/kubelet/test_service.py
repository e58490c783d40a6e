"""What a kubelet that calls a plugin is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from grpclib import GRPCError, Status
from grpclib.client import Stream
from grpclib.exceptions import StreamTerminatedError
from h2.exceptions import StreamClosedError

from laneway.api.kubelet.deviceplugin_grpc import DevicePluginStub
from laneway.api.kubelet.deviceplugin_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from laneway.core.device_plugin.offer import Offer
from laneway.kubelet import recent
from laneway.kubelet.plugins import Plugins
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.pods import AdmissionError, PodRequest

GPU = "nvidia.com/GA100_A100"
ONE, TWO = "0000:01:00.0", "0000:02:00.0"

Gpus = Callable[..., list[Offer]]
Until = Callable[..., Awaitable[None]]


@pytest.fixture
async def plugin(
    plugins: Plugins, gpus: Gpus, until: Until, called: Callable[..., DevicePluginStub]
) -> DevicePluginStub:
    """That of two GPUs; no kubelet is there, so the caller is the test."""
    plugins.offer(gpus(1, 2))
    await until(lambda: "kubelet.sock does not exist" in plugins.state(GPU).problem, plugins)
    return called()


@pytest.fixture
async def listening(plugin: DevicePluginStub) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Opens streams, each of which yields the devices: id, health, NUMA nodes."""
    async with AsyncExitStack() as stack:

        async def listen() -> Callable[[], Awaitable[list[tuple[str, str, list[int]]] | None]]:
            stream = await stack.enter_async_context(plugin.ListAndWatch.open(timeout=20))
            stack.push_async_callback(leave, stream)
            await stream.send_message(Empty(), end=True)

            async def following() -> list[tuple[str, str, list[int]]] | None:
                message: ListAndWatchResponse | None = await stream.recv_message()
                return message and [
                    (one.ID, one.health, [node.ID for node in one.topology.nodes])
                    for one in message.devices
                ]

            return following

        yield listen


async def leave(stream: Stream[Any, Any]) -> None:
    with suppress(StreamTerminatedError, StreamClosedError):  # the plugin went first
        await stream.cancel()


def asking(*containers: list[str]) -> AllocateRequest:
    return AllocateRequest(
        container_requests=[ContainerAllocateRequest(devicesIDs=ids) for ids in containers]
    )


async def allocate(
    plugin: DevicePluginStub, *containers: list[str]
) -> list[ContainerAllocateResponse]:
    answer = await plugin.Allocate(asking(*containers), timeout=20)
    return [*answer.container_responses]


async def test_every_stream_gets_the_present_list_and_each_change(
    plugins: Plugins, gpus: Gpus, listening: Any
) -> None:
    first, second = await listening(), await listening()
    both = [(ONE, "Healthy", []), (TWO, "Healthy", [])]
    assert await first() == await second() == both
    plugins.offer([*gpus(2, numa_node=1), *gpus(1, unhealthy="gone")])
    third = await listening()
    changed = [(ONE, "Unhealthy", []), (TWO, "Healthy", [1])]
    assert await first() == await second() == await third() == changed


async def test_what_says_nothing_new_is_not_sent(
    plugins: Plugins, gpus: Gpus, listening: Any
) -> None:
    listen = await listening()
    await listen()
    plugins.offer(gpus(1, 2, unhealthy="one reason"))
    assert {health for _, health, _ in await listen()} == {"Unhealthy"}
    plugins.offer([*reversed(gpus(1, 2, unhealthy="another reason"))])
    await plugins.sent()
    plugins.offer(gpus(1, numa_node=0))
    assert await listen() == [(ONE, "Healthy", [0])]


async def test_a_numa_node_that_the_kernel_knows_is_reported_even_if_it_is_0(
    plugins: Plugins, gpus: Gpus, plugin: DevicePluginStub
) -> None:
    async with plugin.ListAndWatch.open(timeout=20) as stream:
        await stream.send_message(Empty(), end=True)
        message = await stream.recv_message()
        assert not any(device.HasField("topology") for device in message.devices)
        plugins.offer(gpus(1, numa_node=0))
        message = await stream.recv_message()
        assert [node.ID for node in message.devices[0].topology.nodes] == [0]
        await stream.cancel()


async def test_an_empty_list_is_sent_before_the_plugin_ends(
    plugins: Plugins, listening: Any
) -> None:
    listen = await listening()
    await listen()
    plugins.offer([])
    assert await listen() == []


async def test_sent_means_that_every_stream_has_the_present_list(
    plugins: Plugins, gpus: Gpus, listening: Any
) -> None:
    streams = [await listening() for _ in range(3)]
    for listen in streams:
        await listen()
    plugins.offer(gpus(2))
    async with asyncio.timeout(20):
        await plugins.sent()
    for listen in streams:
        assert await listen() == [(TWO, "Healthy", [])]


async def test_the_contracts_names_are_answered_for_each_container(
    plugin: DevicePluginStub,
) -> None:
    first, second = await allocate(plugin, [TWO], [ONE])
    assert first.envs == {"PCI_RESOURCE_NVIDIA_COM_GA100_A100": TWO}
    assert second.envs == {"PCI_RESOURCE_NVIDIA_COM_GA100_A100": ONE}
    assert [(node.host_path, node.container_path, node.permissions) for node in first.devices] == [
        (path, path, "mrw") for path in ("/dev/vfio/2", "/dev/vfio/vfio")
    ]


async def test_what_is_no_longer_offered_is_refused_before_the_list_is_sent(
    plugins: Plugins, gpus: Gpus, plugin: DevicePluginStub
) -> None:
    await allocate(plugin, [ONE])
    plugins.offer(gpus(2))
    with pytest.raises(GRPCError, match="is not a device of") as refused:
        await allocate(plugin, [ONE])
    assert refused.value.status is Status.INVALID_ARGUMENT
    plugins.offer(gpus(1, 2, unhealthy="it is being reset"))
    with pytest.raises(GRPCError, match="it is being reset") as refused:
        await allocate(plugin, [ONE])
    assert refused.value.status is Status.FAILED_PRECONDITION


async def test_what_was_allocated_is_known_until_the_kubelet_says_whose_it_is(
    plugins: Plugins, plugin: DevicePluginStub, until: Until
) -> None:
    reported = []
    plugins.subscribe(lambda: reported.append({*plugins.recent_allocations()}))
    await allocate(plugin, [ONE], [TWO])
    assert reported[-1] == {(GPU, ONE), (GPU, TWO)}
    plugins.confirm({(GPU, ONE): "somebody", (GPU, "something else"): "somebody"})
    assert {*plugins.recent_allocations()} == reported[-1] == {(GPU, TWO)}
    count = len(reported)
    plugins.confirm([])
    assert len(reported) == count


async def test_what_is_not_confirmed_is_forgotten(
    plugins: Plugins, plugin: DevicePluginStub, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "SECONDS", 0.05)
    await allocate(plugin, [ONE])
    await until(lambda: not plugins.recent_allocations(), plugins)


async def test_a_refused_request_allocates_nothing(
    plugins: Plugins, plugin: DevicePluginStub
) -> None:
    with pytest.raises(GRPCError):
        await allocate(plugin, [ONE], ["0000:99:00.0"])
    assert not plugins.recent_allocations()


async def test_a_group_member_of_what_another_pod_just_got_is_refused(
    plugins: Plugins, gpus: Gpus, plugin: DevicePluginStub
) -> None:
    plugins.offer(gpus(1, 2, group=7))
    (answer,) = await allocate(plugin, [ONE])
    assert answer.envs == {"PCI_RESOURCE_NVIDIA_COM_GA100_A100": f"{ONE},{TWO}"}
    with pytest.raises(GRPCError, match="allocated a moment ago"):
        await allocate(plugin, [TWO])
    plugins.confirm([(GPU, ONE)])
    assert await allocate(plugin, [TWO]), "who has the group is now for health to say"


async def test_preferences_and_the_rest(plugin: DevicePluginStub) -> None:
    assert await plugin.GetDevicePluginOptions(Empty(), timeout=20) == DevicePluginOptions(
        pre_start_required=False, get_preferred_allocation_available=True
    )
    request = ContainerPreferredAllocationRequest(
        available_deviceIDs=[ONE, TWO], must_include_deviceIDs=[TWO], allocation_size=1
    )
    odd = ContainerPreferredAllocationRequest(available_deviceIDs=["?"], allocation_size=-7)
    answer = await plugin.GetPreferredAllocation(
        PreferredAllocationRequest(container_requests=[request, odd]), timeout=20
    )
    assert [[*one.deviceIDs] for one in answer.container_responses] == [[TWO], []]
    assert (
        await plugin.PreStartContainer(PreStartContainerRequest(devicesIDs=["?"]), timeout=20)
        == PreStartContainerResponse()
    )


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\5\1\4\0\0\0\1" + b"\xff" * 5,
    ],
)
async def test_noise_at_the_socket_does_not_disturb_others(
    noise: bytes, plugin: DevicePluginStub, folder: Path, at_socket: Any
) -> None:
    with at_socket(GPU) as path:
        reader, writer = await asyncio.open_unix_connection(path)
    writer.write(noise)
    async with asyncio.timeout(20):
        await reader.read()  # until the plugin has hung up
    writer.close()
    await writer.wait_closed()
    assert await allocate(plugin, [ONE])


def pod(name: str, **limits: int) -> PodRequest:
    containers = {"compute": {f"nvidia.com/{resource}": n for resource, n in limits.items()}}
    return PodRequest(uid=name, namespace="default", name=name, containers=containers)


async def test_a_pod_gets_the_vgpus_of_one_card(
    kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    cards = [gpus(*range(4 * card, 4 * card + 4), card=gpus(card)[0].card) for card in (1, 2, 3)]
    plugins.offer([offer for card in cards for offer in card])
    await until(lambda: kubelet.allocatable.get(GPU) == 12, kubelet)
    (first,) = (await kubelet.admit(pod("first", GA100_A100=1))).values()
    (second,) = (await kubelet.admit(pod("second", GA100_A100=3))).values()
    (third,) = (await kubelet.admit(pod("third", GA100_A100=4))).values()
    used = {*first.ids[GPU], *second.ids[GPU]}
    assert used == {offer.id for offer in cards[0]}
    assert third.envs["PCI_RESOURCE_NVIDIA_COM_GA100_A100"] == ",".join(
        offer.id for offer in cards[1]
    )


async def test_a_pod_that_was_refused_a_device_does_not_start(
    kubelet: Kubelet, plugins: Plugins, gpus: Gpus, until: Until
) -> None:
    plugins.offer(gpus(1, 2))
    await until(lambda: kubelet.allocatable.get(GPU) == 2, kubelet)
    plugins.offer(gpus(1, 2, group=None))  # the list stays as it is
    with pytest.raises(AdmissionError, match="it is in no IOMMU group"):
        await kubelet.admit(pod("vm", GA100_A100=1))
