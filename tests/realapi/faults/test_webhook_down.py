"""The webhook is down on a real API server: what a user reads, and what goes on without it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kapilite.credentials.pki import ensure
from laneway.kube.client import Client
from laneway.kube.errors import ApiError, ForbiddenError
from laneway.roles.admitting import admission
from laneway.roles.manager import NAMESPACE
from laneway.simcluster.kubevirt.install import install
from laneway.simcluster.kubevirt.objects import VMS
from support.replicas import HOOKS
from support.reviewing import make_vm

DOWN = "https://127.0.0.1:1"
VM = make_vm("desk", {"name": "a", "deviceName": "b"})
UNREACHED = (
    r'failed calling webhook "[a-z-]+\.laneway\.harvesterhci\.io": failed to call webhook: '
    r'Post "https://127\.0\.0\.1:1/v1/webhook/mutation\?timeout=30s": '
    r"dial tcp 127\.0\.0\.1:1: connect: connection refused \(500 InternalError\)"
)


async def test_vms_with_devices_wait_for_the_webhook_and_others_do_not(
    admin: Client, tmp_path: Any
) -> None:
    await install(admin)
    pki = ensure(str(tmp_path))
    serving = admission(
        admin,
        CollectorRegistry(),
        NAMESPACE,
        cert_file=pki.server_cert,
        key_file=pki.server_key,
        ca_pem=pki.ca_pem,
    )
    async with serving:
        served_at = await _point(admin, DOWN)
        await admin.create(VMS, make_vm("plain"), "default")
        with pytest.raises(ApiError, match=UNREACHED):
            await admin.create(VMS, VM, "default")
        await _point(admin, served_at)
        with pytest.raises(ForbiddenError, match="No device has the resource 'b'"):
            await admin.create(VMS, VM, "default")
        await admin.delete(VMS, "plain", "default")


async def _point(admin: Client, url: str) -> str:
    """Have the API server look for the webhook somewhere; where it was before."""
    before = ""
    for resource in HOOKS.values():
        [stored] = msgspec.json.decode(await admin.raw(resource.path()))["items"]
        for hook in stored["webhooks"]:
            where = hook["clientConfig"]["url"]
            before, _, path = where.partition("/v1/")
            hook["clientConfig"]["url"] = f"{url}/v1/{path}"
        body = {"webhooks": stored["webhooks"]}
        await admin.patch(resource, stored["metadata"]["name"], body)
    return before
