"""Claims of several devices: all tried first, and what became of each where one fails."""

from __future__ import annotations

import pytest
from aiohttp import web

from kubebasics.serving.listening import listening
from laneway.api import ObjectMeta, PCIDevice, PCIDeviceStatus
from laneway.changes import batches
from laneway.changes.claims import Device, device_of
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.errors import UnauthorizedError

DENIED = 'admission webhook "laneway" denied the request: the node needs it'


def device(number: int) -> Device:
    address = f"0000:04:00.{number}"
    meta = ObjectMeta(name=f"node1-00000400{number}")
    status = PCIDeviceStatus(node_name="node1", address=address)
    return device_of(PCIDevice(metadata=meta, status=status))


DEVICES = [device(number) for number in range(4)]


async def outcomes(refused: str, code: int, *, dry_run: bool) -> dict[str, tuple[str, str]]:
    """What becomes of the devices at a server that answers so for one of them."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        assert ("dryRun" in request.query) == dry_run
        if body["metadata"]["name"] != refused:
            return web.json_response(body, status=201)
        reason = {403: "Forbidden", 409: "AlreadyExists"}.get(code, "InternalError")
        status = {"kind": "Status", "code": code, "reason": reason, "message": DENIED}
        return web.json_response(status, status=code)

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with (
        listening(app, "127.0.0.1", 0) as port,
        Client(ClusterConfig(Cluster(f"http://127.0.0.1:{port}")), connect_delays=()) as client,
    ):
        if dry_run:
            found = list((await batches.tried(batches.claim, client, DEVICES)).values())
        else:
            found = list(await batches.made(batches.claim, client, DEVICES))
    return {one.device.name: (one.outcome, one.words) for one in found}


async def test_each_device_is_tried_whatever_is_said_of_the_others() -> None:
    found = await outcomes(DEVICES[1].name, 403, dry_run=True)
    assert found.pop(DEVICES[1].name) == ("refused", "the node needs it")
    assert set(found.values()) == {("done", "")}


@pytest.mark.parametrize(("code", "outcome"), [(403, "refused"), (500, "unknown")])
async def test_the_devices_after_one_that_failed_are_left(code: int, outcome: str) -> None:
    found = await outcomes(DEVICES[1].name, code, dry_run=False)
    assert [one for one, _ in found.values()] == ["done", outcome, "left", "left"]


async def test_a_session_that_has_ended_is_no_answer_about_a_device() -> None:
    with pytest.raises(ExceptionGroup) as raised:  # as the server of the test passes it on
        await outcomes(DEVICES[1].name, 401, dry_run=True)
    assert raised.group_contains(UnauthorizedError)


async def test_a_device_that_is_claimed_already_keeps_no_other_from_it() -> None:
    found = await outcomes(DEVICES[1].name, 409, dry_run=False)
    assert [one for one, _ in found.values()] == ["done", "unchanged", "done", "done"]
