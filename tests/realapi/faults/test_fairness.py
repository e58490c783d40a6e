"""Priority and fairness of a real API server puts requests off, and roles do as it says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from laneway.kube.client import Client
from laneway.kube.errors import ApiError
from support.asked import Asked
from support.fast_time import FastTime
from support.fault_proxy import FaultProxy
from support.real_server import bound

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"


async def test_requests_that_are_put_off_come_again_when_the_server_says(
    real: Any, node: Any, create: Any
) -> None:
    await create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", bound("user"))
    await create(f"{FLOW}/prioritylevelconfigurations", _level())
    await create(f"{FLOW}/flowschemas", _schema())
    agents, managers = lines = [await node.line(real.user) for _ in range(2)]
    await node.run(agents.config)
    await node.manage(managers.config)
    time = FastTime(lambda: any(line.busy for line in lines))

    async with Client(real.user) as user, _occupied(node.admin, user.unwaiting()):
        for line in lines:
            line.cut()
        await node.ask(4)
        await time.passes(60)
        for line in lines:
            put_off = [one for one in line.asked if one.status == 429]
            assert {one.verb for one in put_off} >= {"list", "watch"}
            assert all(one.not_before for one in put_off)
            assert _too_early(line) == []

    await time.passes(60)
    await node.configured(4)
    assert len(node.hardware) == 1
    for line in lines:
        assert _too_early(line) == line.repeated() == []


def _too_early(line: FaultProxy) -> list[Asked]:
    """But for leases: a leader whose time is up does not wait to hear that it was put off."""
    return [one for one in line.too_early() if one.resource != "leases"]


@contextlib.asynccontextmanager
async def _occupied(admin: Client, user: Client) -> AsyncIterator[None]:
    """All seats of the user's priority level are taken, by writes that a webhook does not judge."""
    silent: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: silent.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await admin.call("POST", HOOKS, None, _slow_webhook(port))
    writes: list[asyncio.Task[bytes]] = []
    try:
        async with asyncio.timeout(30):
            while not await _put_off(user):
                body = {"metadata": {"generateName": "a-"}}
                writes += [asyncio.create_task(user.call("POST", MAPS, None, body))]
                await asyncio.sleep(0.01)
        yield
    finally:
        await admin.call("DELETE", f"{HOOKS}/slow")
        server.close()
        for writer in silent:
            writer.transport.abort()
        await asyncio.gather(*writes, return_exceptions=True)


async def _put_off(user: Client) -> bool:
    try:
        await user.raw("/api/v1/nodes", {"limit": "1"})
    except ApiError as error:
        return error.code == 429
    return False


def _slow_webhook(port: int) -> dict[str, Any]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    hook = {
        "name": "slow.example.org",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": [hook],
    }


def _level() -> dict[str, Any]:
    limited = {
        "nominalConcurrencyShares": 10,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "narrow"},
        "spec": {"type": "Limited", "limited": limited},
    }


def _schema() -> dict[str, Any]:
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    subjects = [{"kind": "User", "user": {"name": "user"}}]
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "narrow"},
        "spec": {
            "priorityLevelConfiguration": {"name": "narrow"},
            "matchingPrecedence": 2,
            "rules": [{"subjects": subjects, "resourceRules": [everything]}],
        },
    }
