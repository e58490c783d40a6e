"""The webhook of an installation, with the files of the Secret that the manager makes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.admission.caches import AdmissionCaches
from laneway.api import PCIDeviceClaim
from laneway.kube.client import Client
from laneway.kube.errors import ApiError, ForbiddenError, NotFoundError
from laneway.kube.resource import served
from laneway.roles.webhook import Webhook, trusted
from support.accounts import NAMESPACE, SECONDS, Installed, ask, secret_path, until


@contextlib.asynccontextmanager
async def webhook(chart: Installed, client: Client, folder: Path) -> AsyncIterator[None]:
    """The webhook with the files of its Secret, as the kubelet gives them to its pod."""
    secret = await until(lambda: _secret(chart))
    await asyncio.to_thread(mount, secret, folder)
    registry = CollectorRegistry()
    running = Webhook(
        client,
        registry,
        AdmissionCaches.of(client, trusted(NAMESPACE)),
        cert_file=str(folder / "tls.crt"),
        key_file=str(folder / "tls.key"),
        host="localhost",
        port=chart.port,
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(running.run())
        try:
            async with asyncio.timeout(SECONDS):
                await running.ready.wait()
            yield
        finally:
            task.cancel()


def mount(secret: Any, folder: Path) -> None:
    folder.mkdir()
    for key in ("tls.crt", "tls.key"):
        (folder / key).write_bytes(base64.b64decode(secret["data"][key]))


async def _secret(chart: Installed) -> Any:
    try:
        return await ask(chart.client, "GET", secret_path())
    except NotFoundError:
        return None


async def asked(chart: Installed) -> bool:
    """Whether the API server asks the webhook, and gets an answer."""
    claim = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": "no-such-device"},
        "spec": {"address": "0000:00:00.0", "nodeName": "nowhere", "userName": "somebody"},
    }
    try:
        await chart.client.create(served(PCIDeviceClaim), claim, dry_run=True)
    except ForbiddenError:
        return True
    except ApiError:
        return False  # not served yet, or the webhook not trusted yet
    return False
