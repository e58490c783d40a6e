"""`laneway pools` through Rancher's proxy, which leads to the Harvester of the cloud credential."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from yarl import URL

from laneway.kube.rancher import CREDENTIALS, GUEST_CLUSTERS
from support.commands import Laneway
from support.fault_proxy import FaultProxy

Make = Callable[..., Awaitable[Any]]
NAMESPACE = "fleet-default"
pytestmark = pytest.mark.timeout(120)


class RancherProxy(FaultProxy):
    """One API server under the path of each cluster, which is noted."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.clusters: set[str] = set()

    def _url(self, request: web.Request) -> URL:
        _, _, _, cluster, path = request.raw_path.split("/", 4)
        self.clusters.add(cluster)
        return URL(f"{self._config.cluster.server}/{path}", encoded=True)


async def test_the_harvester_cluster_is_that_of_the_cloud_credential(
    cluster: Any, laneway: Laneway, guest: Make, tmp_path: Path
) -> None:
    client = cluster.client
    named = base64.b64encode(b"c-m-harv").decode()
    await guest(gpu={"quantity": 0})
    credential = {"spec": {"cloudCredentialSecretName": f"{CREDENTIALS}:cc-abcde"}}
    await client.patch(GUEST_CLUSTERS, "guest", credential, NAMESPACE)
    await client.call("POST", "/api/v1/namespaces", None, {"metadata": {"name": CREDENTIALS}})
    async with RancherProxy(cluster.config).running() as proxy:
        given = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        given["clusters"][0]["cluster"]["server"] = (
            f"{proxy.config.cluster.server}/k8s/clusters/local"
        )
        through = tmp_path / "through"
        through.write_text(yaml.safe_dump(given))
        check = "pools", "check", "--kubeconfig", str(through)

        failed = await laneway(*check, status=1)
        assert "no cloud credential names one. Name it: --harvester-kubeconfig" in words(failed.err)
        secret = {
            "metadata": {"name": "cc-abcde"},
            "data": {"harvestercredentialConfig-clusterId": named},
        }
        await client.call("POST", f"/api/v1/namespaces/{CREDENTIALS}/secrets", None, secret)
        assert "guest" in (await laneway(*check)).out
        assert proxy.clusters == {"local", "c-m-harv"}

        proxy.refuse(403, "get", "secrets")
        failed = await laneway(*check, status=1)
        assert f"you may not read the cloud credential {CREDENTIALS}:cc-abcde" in words(failed.err)


def words(text: str) -> str:
    return " ".join(text.split())
