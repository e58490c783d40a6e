"""What is written of a VM: a new one, its devices, and whether it runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from kubebasics.serving.listening import listening
from laneway.api import ObjectMeta
from laneway.changes.errors import ChangeError, OvertakenError, RefusedError
from laneway.changes.vms import Disk, NewVm, change_devices, edited, manifest, start, stop
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.kubevirt import (
    DeviceRequest,
    Devices,
    Domain,
    InstanceSpec,
    InstanceStatus,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineSpec,
)

SHOWN = {"enabled": True, "ramFB": {"enabled": True}}
VGPU = "nvidia.com/NVIDIA_A2-4Q"
PATH = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/vm"
STARTS = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/vm"


def gpu(name: str, display: Any = None, **more: Any) -> dict[str, Any]:
    entry = {"name": name, "deviceName": VGPU, **more}
    return entry if display is None else {**entry, "virtualGPUOptions": {"display": display}}


def vm(**spec: Any) -> VirtualMachine:
    return VirtualMachine(
        metadata=ObjectMeta(namespace="default", name="vm"), spec=VirtualMachineSpec(**spec)
    )


class Server:
    """Answers as a test says, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.answers: dict[tuple[str, str], tuple[int, str]] = {}
        self.stored: dict[str, Any] = {"metadata": {"name": "vm", "namespace": "default"}}

    async def answer(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.asked.append((request.method, request.path, json.loads(text) if text else None))
        code, reason = self.answers.get((request.method, request.path), (200, ""))
        if code != 200:
            body = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
            return web.json_response(body, status=code)
        return web.json_response(self.stored)

    @property
    def written(self) -> list[tuple[str, Any]]:
        return [(method, body) for method, _, body in self.asked if method != "GET"]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def client(server: Server, unused_tcp_port: int) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    config = ClusterConfig(Cluster(f"http://127.0.0.1:{unused_tcp_port}"))
    async with (
        listening(app, "127.0.0.1", unused_tcp_port),
        Client(config, connect_delays=()) as client,
    ):
        yield client


def test_a_new_vm_with_devices_is_not_to_be_migrated() -> None:
    devices = Devices(gpus=[DeviceRequest(name="a", device_name=VGPU)])
    made = manifest(NewVm("team", "vm", Disk(claim="disk"), 4, "8Gi", devices, start=False))
    spec: Any = made["spec"]
    assert spec["runStrategy"] == "Halted"
    inside = spec["template"]["spec"]
    assert inside["evictionStrategy"] == "None"
    assert inside["domain"]["devices"]["gpus"] == [{"name": "a", "deviceName": VGPU}]
    assert inside["volumes"] == [{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]
    plain: Any = manifest(NewVm("team", "vm", Disk(image="i"), 4, "8Gi", Devices(), start=True))
    assert "evictionStrategy" not in plain["spec"]["template"]["spec"]


def test_entries_keep_fields_that_are_not_known_here() -> None:
    had = {"gpus": [gpu("a", tag="x"), gpu("b")], "hostDevices": [{"name": "nic", "new": 1}]}
    more = Devices(host_devices=[DeviceRequest(name="usb", device_name="kubevirt.io/u")])
    assert edited(had, more, {"b"}) == {
        "gpus": [gpu("a", tag="x")],
        "hostDevices": [{"name": "nic", "new": 1}, {"name": "usb", "deviceName": "kubevirt.io/u"}],
    }


def test_the_display_does_not_leave_with_the_vgpu_that_had_it() -> None:
    none = {"enabled": False}
    had = {"gpus": [gpu("a", SHOWN), gpu("b", none), gpu("c", none)]}
    assert edited(had, Devices(), {"a"})["gpus"] == [gpu("b"), gpu("c")]
    # What a user has switched off stays off while the display stays.
    assert edited(had, Devices(), {"c"})["gpus"] == [gpu("a", SHOWN), gpu("b", none)]


async def test_only_the_lists_of_devices_are_written_and_only_on_what_was_read(
    client: Client, server: Server
) -> None:
    devices = {"gpus": [gpu("a"), gpu("b")], "hostDevices": [{"name": "nic"}]}
    server.stored = {
        "metadata": {"name": "vm", "namespace": "default", "resourceVersion": "7"},
        "spec": {"template": {"spec": {"domain": {"devices": devices}}}},
    }
    await change_devices(client, vm(), None, attach=Devices(), detach=["a", "b"])
    [(_, body)] = server.written
    assert body == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"template": {"spec": {"domain": {"devices": {"gpus": None}}}}},
    }
    server.answers["PATCH", PATH] = (409, "Conflict")
    with pytest.raises(OvertakenError, match="default/vm was changed by another program"):
        await change_devices(client, vm(), None, attach=Devices(), detach=["a"])


async def test_what_a_vm_runs_with_is_not_detached(client: Client, server: Server) -> None:
    held = Devices(gpus=[DeviceRequest(name="a", device_name=VGPU)])
    instance = VirtualMachineInstance(
        metadata=ObjectMeta(namespace="default", name="vm"),
        spec=InstanceSpec(domain=Domain(devices=held)),
        status=InstanceStatus(phase="Running"),
    )
    with pytest.raises(RefusedError, match="device 'a' cannot be detached: VM default/vm is run"):
        await change_devices(client, vm(), instance, attach=Devices(), detach=["a"])
    assert server.asked == []
    # One that was added since the start is not held.
    await change_devices(client, vm(), instance, attach=Devices(), detach=["b"])


async def test_kubevirt_itself_starts_and_stops_where_it_may(
    client: Client, server: Server
) -> None:
    await start(client, vm(run_strategy="Manual"))
    await stop(client, vm(run_strategy="Always"))
    assert [(method, path) for method, path, _ in server.asked] == [
        ("PUT", f"{STARTS}/start"),
        ("PUT", f"{STARTS}/stop"),
    ]


@pytest.mark.parametrize("answer", [(404, "NotFound"), (403, "Forbidden")])
@pytest.mark.parametrize(
    "case",
    [
        ({"run_strategy": "Halted"}, {"runStrategy": "Always"}, None),
        ({"run_strategy": "Always"}, None, {"runStrategy": "Halted"}),
        ({"running": False}, {"running": True}, {"running": False}),
        ({"run_strategy": "Manual"}, None, None),
    ],
)
async def test_elsewhere_the_run_strategy_is_written(
    client: Client, server: Server, answer: tuple[int, str], case: tuple[Any, Any, Any]
) -> None:
    spec, starts, stops = case
    for action, act, expected in (("start", start, starts), ("stop", stop, stops)):
        server.asked.clear()
        server.answers["PUT", f"{STARTS}/{action}"] = answer
        if expected is None:
            with pytest.raises(ChangeError, match="only KubeVirt's API can"):
                await act(client, vm(**spec))
        else:
            await act(client, vm(**spec))
            assert server.written[-1] == ("PATCH", {"spec": expected})
