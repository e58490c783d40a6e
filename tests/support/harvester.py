"""A Harvester of simulated parts, as a machine driver meets it: one address for all of its APIs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, TCPConnector, web

from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.simcluster.harvester.install import KEY_PAIRS, install, make
from support.kubevirt_subresources import ACTIONS, StateConflictError, UnderwayError, request

KEY_PAIR = "operator"
PUBLIC_KEY = "ssh-rsa AAAAB3NzaC1yc2E= operator"
_GROUP = "/apis/subresources.kubevirt.io/v1"
_KEPT = ("Accept", "Authorization", "Content-Type", "User-Agent")


async def stock(client: Client) -> None:
    """What the machines of tests are made of."""
    await install(client)
    await make(client, KEY_PAIRS, KEY_PAIR, spec={"publicKey": PUBLIC_KEY})


@contextlib.asynccontextmanager
async def aggregated(server: str, pki: Any, client: Client) -> AsyncIterator[str]:
    """An address with all that an API server answers, and KubeVirt's subresources besides.

    On a real cluster the API server hands their group on to virt-api.
    """
    async with ClientSession(connector=TCPConnector(ssl=False)) as session:
        app = web.Application(client_max_size=1 << 24)
        action = f"{_GROUP}/namespaces/{{namespace}}/virtualmachines/{{name}}/{{action}}"

        async def may(asked: web.Request) -> bool:
            """What the API server asks before it hands a request on."""
            found = asked.match_info
            resource = {
                "group": "subresources.kubevirt.io",
                "resource": "virtualmachines",
                "subresource": found["action"],
                "namespace": found["namespace"],
                "name": found["name"],
                "verb": "update",
            }
            async with session.post(
                f"{server}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                json={"spec": {"resourceAttributes": resource}},
                headers={"Authorization": asked.headers["Authorization"]},
            ) as answer:
                return bool((await answer.json())["status"]["allowed"])

        async def change(asked: web.Request) -> web.Response:
            found = asked.match_info
            if found["action"] not in ACTIONS:
                return web.json_response({"message": "no such action"}, status=404)
            if not await may(asked):
                text = f"the user cannot update virtualmachines/{found['action']}"
                return web.json_response(_status(403, "Forbidden", text), status=403)
            try:
                await request(client, found["namespace"], found["name"], found["action"])
            except StateConflictError as error:
                return web.json_response(_status(409, "Conflict", str(error)), status=409)
            except UnderwayError as error:
                text = f"Internal error occurred: {error}"
                return web.json_response(_status(500, "InternalError", text), status=500)
            except NotFoundError as error:
                return web.json_response(_status(404, "NotFound", error.message), status=404)
            return web.Response(status=202)

        async def hand_on(asked: web.Request) -> web.Response:
            headers = {name: asked.headers[name] for name in _KEPT if name in asked.headers}
            async with session.request(
                asked.method, server + asked.raw_path, data=await asked.read(), headers=headers
            ) as answer:
                warnings = [("Warning", one) for one in answer.headers.getall("Warning", [])]
                body = await answer.read()
                sent = web.Response(status=answer.status, body=body)
                sent.headers["Content-Type"] = answer.headers.get("Content-Type", "")
                for name, value in warnings:
                    sent.headers.add(name, value)
                return sent

        app.router.add_put(action, change)
        app.router.add_route("*", "/{path:.*}", hand_on)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=pki.ssl_context())
        await site.start()
        _, port = runner.addresses[0][:2]
        try:
            yield f"https://127.0.0.1:{port}"
        finally:
            await runner.cleanup()


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


def readdressed(kubeconfig: str, address: str) -> str:
    """A kubeconfig for another address of the same server."""
    return re.sub(r"https://127\.0\.0\.1:\d+", address, Path(kubeconfig).read_text())
