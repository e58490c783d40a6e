"""The web interface says what it waits for, and serves HTTPS once it has a certificate."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
from cryptography.hazmat.primitives import serialization
from prometheus_client import CollectorRegistry

from laneway.admission.tls import TlsFiles
from laneway.core.certificates.rotation import new_pair
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.roles.ui import Ui
from laneway.web.metrics import UiMetrics


async def test_it_waits_for_its_certificate_and_says_so(tmp_path: Path) -> None:
    config = ClusterConfig(Cluster("http://127.0.0.1:1"))
    metrics = UiMetrics(CollectorRegistry())
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    files = TlsFiles(str(certificate), str(key), metrics)
    async with Client(config) as client, aiohttp.ClientSession() as browser:
        ui = Ui(client, config, metrics, host="127.0.0.1", port=0, option="--address", tls=files)
        task = asyncio.create_task(ui.run())
        assert "certificate" in ui.waiting_for()

        pair = new_pair(["localhost"], datetime.now(UTC))
        certificate.write_bytes(pair.certificate_pem)
        key.write_bytes(pair.key_pem)
        files.look()
        await ui._listening.wait()

        assert not {"certificate", "listener"} & set(ui.waiting_for())
        authority = pair.authority.public_bytes(serialization.Encoding.DER)
        trusting = ssl.create_default_context(cadata=authority)
        url = f"https://127.0.0.1:{ui.port}/sign-in"
        async with browser.get(url, ssl=trusting, server_hostname="localhost") as reply:
            assert reply.status == 200
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
