"""The examples of the documentation: the rights of a credential, and a pool's configuration."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from kubebasics import yaml_text
from laneway.kube.client import Client
from laneway.kube.rancher import LABEL_GUEST_CLUSTER, LABEL_POOL
from support.machine_driver import ROOT, Machines, vgpus
from support.worlds import World

EXAMPLES = ROOT / "docs" / "examples" / "machine-driver"
Q4, RESOURCE = "NVIDIA A2-4Q", "nvidia.com/NVIDIA_A2-4Q"
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
NAME = "guest-gpu-7xk2p-4fw9d"
PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}


async def apply(client: Client, obj: dict[str, Any]) -> None:
    version, meta = obj["apiVersion"], obj["metadata"]
    prefix = "/apis" if "/" in version else "/api"
    namespace = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    path = f"{prefix}/{version}{namespace}/{PLURALS[obj['kind']]}"
    await client.call("POST", path, None, obj)


@pytest.fixture
async def limited(world: World, machines: Machines) -> Machines:
    """rancher-machine with a user who has the rights of the example and no others."""
    for obj in yaml_text.read_all((EXAMPLES / "rights.yaml").read_text()):
        await apply(world.client, obj)
    path = "/api/v1/namespaces/default/serviceaccounts/machine-driver/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await world.client.call("POST", path, None, body)
    token = msgspec.json.decode(answer)["status"]["token"]
    kubeconfig = str(machines.options["laneway-kubeconfig-content"])
    theirs = re.sub(r"token: .*", f"token: {token}", kubeconfig)
    options = {**machines.options, "laneway-kubeconfig-content": theirs}
    return Machines(machines.programs, machines.store, options)


async def test_the_rights_of_the_example_are_enough(world: World, limited: Machines) -> None:
    await world.add("node1", "a2")
    await world.vgpu("node1-000008004", Q4)
    await world.allocatable("node1", RESOURCE, 1)
    await limited.run("create", NAME, vgpu_info=vgpus(RESOURCE))
    refused = await limited.run("create", "guest-gpu-a-2", error=None, vgpu_info=vgpus(RESOURCE))
    assert f"{RESOURCE}: 1 requested" in refused.error
    for command in ("stop", "start", "restart", "kill", "rm"):
        await limited.run(command, NAME)


async def test_a_right_that_is_missing_is_named(world: World, limited: Machines) -> None:
    done = await limited.run("create", NAME, error=None, vm_namespace="kube-system")
    assert "the user of the kubeconfig has not the right: " in done.error
    assert 'cannot get resource "virtualmachines"' in done.error


async def test_the_pool_of_the_example(world: World, machines: Machines) -> None:
    await world.add("node1", "a2")
    await world.vgpu("node1-000008004", Q4)
    await world.claim("node1-000004001")
    await world.allocatable("node1", RESOURCE, 1)
    await world.allocatable("node1", NIC, 1)
    [config] = yaml_text.read_all((EXAMPLES / "pool.yaml").read_text())
    fields = {name: one for name, one in config.items() if isinstance(one, str)}
    del fields["apiVersion"], fields["kind"]
    fields["memorySize"] = "1"
    options = {}
    for name, value in fields.items():
        option = re.sub(r"([a-z])([A-Z])", r"\1-\2", name).lower()
        options[option] = int(value) if option in ("cpu-count", "memory-size") else value
    await machines.run("create", NAME, **options)
    path = f"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/{NAME}"
    vm = msgspec.json.decode(await world.client.raw(path))
    labels = vm["metadata"]["labels"]
    assert (labels[LABEL_GUEST_CLUSTER], labels[LABEL_POOL]) == ("guest", "gpu")
    [held] = world.nodes["node1"].holders().values()
    assert len(held) == 2
    [claim] = json.loads(vm["metadata"]["annotations"]["harvesterhci.io/volumeClaimTemplates"])
    assert claim["spec"]["resources"]["requests"]["storage"] == "60Gi"
