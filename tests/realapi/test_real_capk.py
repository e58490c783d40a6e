"""CAPK's definitions, and those of Cluster API, on a real API server: taken as they are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from laneway.kube.capk import KUBEVIRT_TEMPLATES
from laneway.kube.errors import NotFoundError
from laneway.simcluster.clusterapi.kubevirt.install import install
from support.capk import NAMESPACE, template

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COPIES = Path(__file__).parents[1] / "data" / "crds"
PLURALS = ("kubevirtclusters", "kubevirtmachines", "kubevirtmachinetemplates")
GROUP = "infrastructure.cluster.x-k8s.io"


@pytest.mark.parametrize("plural", PLURALS)
async def test_an_unchanged_copy_is_taken(server: Any, plural: str) -> None:
    """Under another name, as a dry run: what is shipped may be on the server already."""
    text = (COPIES / f"{GROUP}_{plural}.yaml").read_text()
    crd = yaml.load(text, Loader=yaml.CSafeLoader)
    crd["metadata"]["name"] = f"x{plural}.{GROUP}"
    names = crd["spec"]["names"]
    crd["spec"]["names"] = {"kind": f"X{names['kind']}", "plural": f"x{plural}"}
    await server.client.call("POST", CRDS, {"dryRun": "All"}, crd)


async def test_a_template_is_stored_as_it_is_written_and_read(server: Any) -> None:
    await install(server.client)
    name = f"{server.node}-gpu"
    body = template(name, "nvidia.com/NVIDIA_A2-4Q", infraClusterSecretRef={"name": "elsewhere"})
    await _created(server, body)
    try:
        path = KUBEVIRT_TEMPLATES.path(NAMESPACE, name)
        stored = msgspec.json.decode(await server.client.raw(path))
        assert stored["spec"] == body["spec"]
        found = await server.client.get(KUBEVIRT_TEMPLATES, name, NAMESPACE)
        [gpu] = found.machine.virtual_machine_template.spec.template.spec.domain.devices.gpus
        assert gpu.device_name == "nvidia.com/NVIDIA_A2-4Q"
        assert found.machine.infra_cluster_secret_ref is not None
    finally:
        await server.client.delete(KUBEVIRT_TEMPLATES, name, NAMESPACE)
    for plural in PLURALS:
        crd = msgspec.json.decode(await server.client.raw(f"{CRDS}/{plural}.{GROUP}"))
        found = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
        assert found["Established"] == "True"
        assert found.get("NonStructuralSchema", "False") == "False"


async def _created(server: Any, body: dict[str, Any]) -> None:
    """A server serves a kind a moment after its definition."""
    async with asyncio.timeout(60):
        while True:
            try:
                await server.client.create(KUBEVIRT_TEMPLATES, body, NAMESPACE)
            except NotFoundError:
                await asyncio.sleep(0.1)
            else:
                return
