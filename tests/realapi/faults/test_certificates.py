"""Certificates of the API server, and those that it trusts, change while an agent runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from laneway.api import VGPUDevice
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, UnauthorizedError
from laneway.kube.resource import served


async def test_a_certificate_of_another_authority_is_trusted_once_the_pod_has_it(
    real: Any, node: Any, caplog: Any
) -> None:
    await node.run(real.admin)
    pki = await real.renew_certificate("second")
    killed = asyncio.create_task(real.killed())
    async with asyncio.timeout(60):
        while "certificate is not trusted" not in caplog.text:  # noqa: ASYNC110 - a log
            await asyncio.sleep(0.05)
    real.trusted.write_bytes(pki.ca_pem)
    await killed

    await node.ask(4)
    await node.configured(4)
    assert len(node.hardware) == 1


async def test_a_client_certificate_of_a_new_authority_is_shown_once_the_old_is_refused(
    real: Any, node: Any, tmp_path: Path
) -> None:
    names = ("tls.crt", "tls.key")
    mounted, old = ([tmp_path / folder / name for name in names] for folder in ("now", "old"))
    _write(mounted, real.clients)
    _write(old, real.clients)
    await node.run(real.with_certificate(*mounted))
    _write(mounted, real.renew_client_authority("others"))
    async with Client(real.with_certificate(*old)) as client, asyncio.timeout(90):
        while not await _refused(client):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.2)

    await node.ask(4)
    await node.configured(4)
    assert len(node.hardware) == 1


def _write(pair: list[Path], pki: Any) -> None:
    pair[0].parent.mkdir(exist_ok=True)
    for path, content in zip(pair, pki.client("agent", ("system:masters",)), strict=True):
        path.write_bytes(content)


async def _refused(client: Client) -> bool:
    try:
        await client.get(served(VGPUDevice), "none")
    except UnauthorizedError:
        return True
    except KubeError:
        return False
    return False
