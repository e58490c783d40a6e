"""Two clusters and the webhook between them, each part with the account that the chart gives it.

The management cluster has Rancher's kinds and the chart's objects, and asks the webhook. Harvester
has KubeVirt's kinds, Laneway's, and the account with which the webhook reads it, through a line
that a test can cut.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from kubebasics import yaml_text
from laneway.api import CoreNode, VGPUDevice
from laneway.core.tracing import Span
from laneway.kube import rancher
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig, User
from laneway.kube.connection import WARNINGS
from laneway.kube.errors import ApiError
from laneway.kube.kubevirt import INSTANCES, VIRTUAL_MACHINES
from laneway.kube.resource import Resource, served
from laneway.roles.pools_webhook import pools_webhook
from support.accounts import Installed, ask, until
from support.fault_proxy import FaultProxy

NAMESPACE = "fleet-default"
WEBHOOK, READER = "laneway-pools-webhook", "laneway-pools-reader"
PROFILE, RESOURCE = "NVIDIA A2-4Q", "nvidia.com/NVIDIA_A2-4Q"
SECONDS = 60.0


def devices(*resources: str, count: int = 1) -> str:
    """`vgpuInfo` as Rancher's form writes it."""
    entries = [
        {"name": "provisioned", "deviceName": one} for one in resources for _ in range(count)
    ]
    return json.dumps({"vGPURequests": entries})


class Guard:
    """What a test does to both clusters; `webhook` starts the webhook."""

    def __init__(self, management: Installed, reader: Installed, line: FaultProxy) -> None:
        self.management = management
        self.reader = reader
        """The chart on Harvester."""
        self.harvester = reader.client
        self.line = line
        self.registry = CollectorRegistry()
        self.kubeconfigs = Path()
        self._config = management.config
        self.spans: list[Span] = []
        """What the webhook told of its reviews."""

    # ---- the Harvester cluster -------------------------------------------------------------------

    async def node(self, name: str, vgpus: int, cpus: int = 64) -> None:
        """A node with so many vGPUs that can be allocated."""
        ready = {"type": "Ready", "status": "True"}
        size = {"cpu": str(cpus), "memory": "512Gi"}
        nodes = served(CoreNode)
        about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await self.harvester.create(nodes, about)
        status = {"conditions": [ready], "allocatable": size, "capacity": size}
        await self.harvester.patch(nodes, name, {"status": status}, subresource="status")
        kind = served(VGPUDevice)
        for number in range(vgpus):
            title = f"{name}-0000080{number:02}"
            spec = {
                "nodeName": name,
                "address": f"0000:08:{number:02}.4",
                "parentGPUDeviceAddress": "0000:08:00.0",
                "enabled": True,
                "vGPUTypeName": PROFILE,
            }
            about = {"apiVersion": kind.api_version, "kind": "VGPUDevice"}
            await self.harvester.create(kind, {**about, "metadata": {"name": title}, "spec": spec})
            status = {
                "framework": "mdev",
                "vGPUStatus": "vGPUConfigured",
                "configureVGPUTypeName": PROFILE,
                "resourceName": RESOURCE,
                "conditions": [
                    {
                        "type": "Advertised",
                        "status": "True",
                        "reason": "Advertised",
                        "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            }
            await self.harvester.patch(kind, title, {"status": status}, subresource="status")

    async def machine(self, cluster: str, pool: str, name: str, node: str, vgpus: int = 1) -> None:
        """A machine of a pool that runs."""
        labels = {rancher.LABEL_GUEST_CLUSTER: cluster, rancher.LABEL_POOL: pool}
        gpus = [{"name": f"vgpu-{n}", "deviceName": RESOURCE} for n in range(vgpus)]
        spec = {"domain": {"devices": {"gpus": gpus}}}
        vm = {"runStrategy": "RerunOnFailure", "template": {"spec": spec}}
        meta = {"name": name, "labels": labels}
        about = {"apiVersion": "kubevirt.io/v1", "metadata": meta}
        await self.harvester.create(
            VIRTUAL_MACHINES, {**about, "kind": "VirtualMachine", "spec": vm}, "default"
        )
        await self.harvester.create(
            INSTANCES, {**about, "kind": "VirtualMachineInstance", "spec": spec}, "default"
        )
        status = {"phase": "Running", "nodeName": node}
        await self.harvester.patch(INSTANCES, name, {"status": status}, "default")

    # ---- the management cluster ------------------------------------------------------------------

    async def config(self, name: str, **fields: Any) -> list[str]:
        """Create a machine configuration, as the form does; gives what was warned of."""
        kind = rancher.HARVESTER_CONFIGS
        about = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        return await self._written("POST", kind, "", {**about, **fields})

    async def change_config(self, name: str, **fields: Any) -> list[str]:
        return await self._written("PATCH", rancher.HARVESTER_CONFIGS, name, fields)

    async def cluster(self, name: str, **pools: Any) -> list[str]:
        """Create a guest cluster; a pool is its quantity, or fields of its own."""
        kind = rancher.GUEST_CLUSTERS
        about = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        return await self._written("POST", kind, "", {**about, "spec": spec(name, pools)})

    async def change_cluster(self, name: str, **pools: Any) -> list[str]:
        """Have a guest cluster have these pools."""
        change = {"spec": spec(name, pools)}
        return await self._written("PATCH", rancher.GUEST_CLUSTERS, name, change)

    async def delete(self, name: str) -> None:
        await self.management.client.delete(rancher.GUEST_CLUSTERS, name, NAMESPACE)

    async def quantities(self, name: str) -> list[int | None]:
        """What is stored of a guest cluster."""
        found = await self.management.client.get(rancher.GUEST_CLUSTERS, name, NAMESPACE)
        return [pool.quantity for pool in found.pools]

    async def _written(self, method: str, kind: Resource[Any], name: str, body: Any) -> list[str]:
        """A client of its own is told of each warning, whatever others were told before."""
        heard = _Heard()
        logging.getLogger(WARNINGS).addHandler(heard)
        try:
            async with Client(self._config) as client:
                if method == "POST":
                    await client.create(kind, body, NAMESPACE)
                else:
                    await client.patch(kind, name, body, NAMESPACE)
        finally:
            logging.getLogger(WARNINGS).removeHandler(heard)
        return heard.texts

    # ---- the webhook -----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def webhook(self, folder: Path, *, refuses: bool = True) -> AsyncIterator[FaultProxy]:
        """The webhook, with its account and the files that a kubelet would mount.

        Gives its line to the management cluster.
        """
        path = "/api/v1/namespaces/harvester-system/secrets/laneway-pools-webhook-tls"
        secret = await ask(self.management.client, "GET", path)
        for key in ("tls.crt", "tls.key"):
            (folder / key).write_bytes(base64.b64decode(secret["data"][key]))
        self.kubeconfigs = folder / "kubeconfigs"
        self.kubeconfigs.mkdir()
        self.give_kubeconfig()
        user = User(token=await self.management.token(WEBHOOK))
        self.management.names[f"Bearer {user.token}"] = WEBHOOK
        async with (
            FaultProxy(replace(self._config, user=user)).running() as line,
            Client(line.config) as client,
            asyncio.TaskGroup() as tasks,
        ):
            running = pools_webhook(
                client,
                self.registry,
                str(self.kubeconfigs),
                refuses=refuses,
                cert_file=str(folder / "tls.crt"),
                key_file=str(folder / "tls.key"),
                host="localhost",
                port=self.management.port,
                tracer=self.spans.append,
            )
            task = tasks.create_task(running.run())
            try:
                async with asyncio.timeout(SECONDS):
                    await running.ready.wait()
                    await until(self._asked)
                yield line
            finally:
                task.cancel()

    def give_kubeconfig(self, name: str = "default") -> None:
        """The reader's, which goes through the line."""
        config = self.line.config
        (self.kubeconfigs / name).write_text(kubeconfig(config.cluster.server, config.user))

    async def known(self, *, known: bool = True, name: str = "default") -> None:
        """Wait until the webhook knows what Harvester has, or that it does not."""
        async with asyncio.timeout(SECONDS):
            while self.counted("harvester_known", harvester=name) is not known:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.02)

    def counted(self, name: str, **labels: str) -> Any:
        found = self.registry.get_sample_value(f"laneway_machine_pools_{name}", labels)
        return bool(found) if name == "harvester_known" and found is not None else found

    def reviews(self) -> float:
        """How many writes the API server has asked about."""
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "laneway_admission_reviews_total"
        )

    async def _asked(self) -> bool:
        """Whether the API server asks the webhook, and gets an answer."""
        kind = rancher.HARVESTER_CONFIGS
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": "asked"},
            "vgpuInfo": "{",
        }
        heard = _Heard()
        logging.getLogger(WARNINGS).addHandler(heard)
        try:
            async with Client(self._config) as client:
                await client.create(kind, body, NAMESPACE, dry_run=True)
        except ApiError:
            return True
        finally:
            logging.getLogger(WARNINGS).removeHandler(heard)
        return bool(heard.texts)


class _Heard(logging.Handler):
    """The warnings of an API server."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage().partition(" warns: ")[2])


def spec(cluster: str, pools: dict[str, Any]) -> Any:
    listed = []
    for name, given in pools.items():
        fields = given if isinstance(given, dict) else {"quantity": given}
        ref = {"kind": "HarvesterConfig", "name": f"nc-{cluster}-{name}"}
        listed.append({"name": name, "machineConfigRef": ref, "workerRole": True, **fields})
    return {
        "cloudCredentialSecretName": "cattle-global-data:cc-abcde",
        "rkeConfig": {"machinePools": listed},
    }


def kubeconfig(server: str, user: User) -> str:
    return yaml_text.write(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "harvester", "cluster": {"server": server}}],
            "users": [{"name": "reader", "user": {"token": user.token}}],
            "contexts": [{"name": "it", "context": {"cluster": "harvester", "user": "reader"}}],
            "current-context": "it",
        }
    )


async def read_through(chart: Installed, config: ClusterConfig) -> ClusterConfig:
    """How the webhook reaches Harvester: with the token of the reader."""
    token = await chart.token(READER)
    chart.names[f"Bearer {token}"] = READER
    return replace(config, user=User(token=token))
