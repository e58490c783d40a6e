"""What the rules of admission say about a claim before it is written."""

from __future__ import annotations

import pytest
from aiohttp import web

from kubebasics.serving.listening import listening
from laneway.api import ObjectMeta, PCIDevice, PCIDeviceStatus
from laneway.changes.answered import denial
from laneway.changes.claims import create, delete, device_of
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.errors import ForbiddenError

DEVICE = device_of(
    PCIDevice(
        metadata=ObjectMeta(name="node1-000004001"),
        status=PCIDeviceStatus(node_name="node1", address="0000:04:00.1"),
    )
)


async def answered(port: int, message: str, *, release: bool = False) -> str:
    """What is said where the server forbids the request with these words."""

    async def forbid(request: web.Request) -> web.Response:
        assert "All" in f"{request.query} {await request.text()}", "no dry run"
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
        return web.json_response(status, status=403)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forbid)
    config = ClusterConfig(Cluster(f"http://127.0.0.1:{port}"))
    async with listening(app, "127.0.0.1", port), Client(config, connect_delays=()) as client:
        try:
            await (delete if release else create)(client, DEVICE, dry_run=True)
        except ForbiddenError as error:
            return denial(error) or f"may not: {error.message}"
        return ""


@pytest.mark.parametrize("release", [False, True])
async def test_what_the_rules_refuse_is_known_before_the_write(
    release: bool, unused_tcp_port: int
) -> None:
    message = 'admission webhook "w" denied the request: It is held by VM default/a.'

    found = await answered(unused_tcp_port, message, release=release)

    assert found == "It is held by VM default/a."


async def test_missing_rights_are_no_refusal_of_the_rules(unused_tcp_port: int) -> None:
    message = "alice cannot create pcideviceclaims"
    assert await answered(unused_tcp_port, message) == f"may not: {message}"
