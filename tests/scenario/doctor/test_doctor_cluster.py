"""`laneway doctor cluster` on clusters that are well, and on others."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from laneway.api import CoreNode, PCIDeviceClaim, SRIOVGPUDevice
from laneway.controllers.doctor.facts import look
from laneway.controllers.doctor.objects import (
    DAEMON_SETS,
    DEFINITIONS,
    DEPLOYMENTS,
    MUTATING,
    SECRETS,
    SERVICES,
    VALIDATING,
)
from laneway.core import keys
from laneway.core.doctor.cluster import judge
from laneway.core.doctor.finding import Level
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.resource import served
from support.commands import Laneway
from support.examples import first
from support.worlds import World

NAMESPACE = "harvester-system"


def named(name: str, days: float, issuer: Any = None) -> tuple[x509.Certificate, Any]:
    """A certificate and its key; without an issuer its own CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    ca, ca_key = issuer or (None, key)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if ca is None else ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=100))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=ca is None, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    return made, key


def pem(certificate: x509.Certificate) -> str:
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()


class Installed:
    """Laneway's objects as its chart makes them, as far as they are examined."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def workload(
        self, resource: Any, name: str, ready: int, wanted: int, tag: str = "1.2.3"
    ) -> None:
        labels = {"app": name}
        container = {"name": "c", "image": f"registry.example.com/laneway:{tag}"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        status = {
            "desiredNumberScheduled": wanted,
            "currentNumberScheduled": wanted,
            "numberMisscheduled": 0,
            "numberReady": ready,
        }
        if resource is DEPLOYMENTS:
            spec["replicas"] = wanted
            status = {"replicas": wanted, "readyReplicas": ready}
        head = {"apiVersion": "apps/v1", "kind": resource.kind, "metadata": {"name": name}}
        await self.client.create(resource, head | {"spec": spec}, NAMESPACE)
        await self.client.patch(resource, name, {"status": status}, NAMESPACE, subresource="status")

    async def all(self, agents: int = 1) -> None:
        await self.workload(DAEMON_SETS, "laneway-agent", agents, agents)
        await self.workload(DEPLOYMENTS, "laneway-manager", 2, 2)
        await self.workload(DEPLOYMENTS, "laneway-webhook", 2, 2)

    async def hooks(self, bundle: str, policy: str = "Fail") -> None:
        for resource, name in ((MUTATING, "laneway-mutator"), (VALIDATING, "laneway-validator")):
            rule = {
                "apiGroups": ["devices.harvesterhci.io"],
                "apiVersions": ["v1beta1"],
                "operations": ["CREATE"],
                "resources": ["pcideviceclaims"],
            }
            hook = {
                "name": f"{name}.devices.harvesterhci.io",
                # Nothing of the tests is to be asked about.
                "objectSelector": {"matchLabels": {"no": "object"}},
                "failurePolicy": policy,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {"namespace": NAMESPACE, "name": "laneway-webhook"},
                    **({"caBundle": bundle} if bundle else {}),
                },
                "rules": [rule],
            }
            body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": resource.kind}
            await self.client.create(
                resource, body | {"metadata": {"name": name}, "webhooks": [hook]}
            )

    async def secret(self, leaf: x509.Certificate) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "laneway-webhook-tls"},
            "data": {"tls.crt": pem(leaf)},
        }
        await self.client.create(SECRETS, body, NAMESPACE)
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "laneway-webhook"},
            "spec": {"ports": [{"port": 443}], "selector": {"app": "laneway-webhook"}},
        }
        await self.client.create(SERVICES, service, NAMESPACE)


@pytest.fixture
def parts(cluster: Any) -> Installed:
    return Installed(cluster.client)


async def reported(client: Any, *levels: Level) -> dict[str, list[str]]:
    """What is found, by check."""
    found: dict[str, list[str]] = {}
    for one in judge(await look(client)):
        if not levels or one.level in levels:
            found.setdefault(one.check, []).append(one.what)
    return found


async def test_a_cluster_at_work_is_well(world: World, laneway: Laneway) -> None:
    await world.add("node1", "a2")
    found = await reported(world.client, Level.PROBLEM)
    assert found == {}
    done = await laneway("doctor", "cluster", "-o", "json")
    answer = json.loads(done.out)
    assert answer["healthy"]
    checks = {one["check"]: one["what"] for one in answer["findings"]}
    assert checks["Definitions"] == "all 15 kinds are there, with all fields"
    assert checks["Nodes"] == "1 of 1 nodes have an agent"
    assert checks["KubeVirt"].startswith("KubeVirt harvester-system/kubevirt")


async def test_the_webhook_is_examined_with_its_certificate(cluster: Any, parts: Installed) -> None:
    ca = named("ca", 1000)
    leaf, _ = named("leaf", 3, ca)
    await parts.all()
    await parts.secret(leaf)
    await parts.hooks(pem(ca[0]))
    found = await reported(cluster.client, Level.ADVICE, Level.PROBLEM)
    assert "expires on" in found["Certificate"][0]
    assert "Webhooks" not in found


@pytest.mark.slow
@pytest.mark.parametrize("bundle", first("other", ""))
async def test_a_ca_that_does_not_fit_is_a_problem(
    cluster: Any, parts: Installed, laneway: Laneway, bundle: str
) -> None:
    ca = named("ca", 1000)
    leaf, _ = named("leaf", -1, ca)
    await parts.all()
    await parts.secret(leaf)
    await parts.hooks(pem(named("ca", 1000)[0]) if bundle else "", policy="Ignore")
    done = await laneway("doctor", "cluster", status=3)
    how = "has a wrong CA" if bundle else "has no CA"
    assert f"laneway-validator/laneway-validator.devices.harvesterhci.io {how}" in done.out
    assert "has failurePolicy Ignore" in done.out
    assert "laneway-webhook-tls expired on" in done.out


async def test_two_controllers_side_by_side_are_a_problem(
    cluster: Any, harvester: Any, parts: Installed
) -> None:
    await harvester.start()
    await parts.all()
    found = await reported(cluster.client, Level.PROBLEM)
    [words] = found["HarvesterController"]
    assert "v1.8.1" in words
    assert "side by side" in words


async def test_webhooks_that_outlived_their_controller_are_a_problem(
    cluster: Any, harvester: Any
) -> None:
    for kind, name in ((MUTATING, "pcidevices-mutator"),):
        await cluster.client.create(kind, harvester.configuration(kind.kind, name))
    found = await reported(cluster.client, Level.PROBLEM)
    assert "pcidevices-mutator" in found["HarvesterWebhooks"][0]


async def test_parts_that_lack_or_fail_are_reported(cluster: Any, parts: Installed) -> None:
    await parts.workload(DAEMON_SETS, "laneway-agent", 1, 2)
    await parts.workload(DEPLOYMENTS, "laneway-manager", 1, 1, tag="1.2.2")
    found = await reported(cluster.client, Level.PROBLEM, Level.ADVICE)
    assert found["Laneway"] == [
        "Laneway's webhook is missing",
        "DaemonSet harvester-system/laneway-agent (1.2.3): 1 of 2 ready",
        "Laneway's parts are of different versions: 1.2.2, 1.2.3",
    ]


async def test_definitions_that_are_older_or_newer_are_reported_by_field(cluster: Any) -> None:
    name = "nodes.devices.harvesterhci.io"
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    crd = json.loads(await cluster.client.raw(path))
    [version] = crd["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    del status["conditions"]
    status["gpuAddresses"] = {"type": "array", "items": {"type": "string"}}
    body = {"spec": {"versions": [version]}}
    await cluster.client.patch(DEFINITIONS, name, body)
    found = (await reported(cluster.client))["Definitions"]
    assert f"{name} lacks .status.conditions" in found
    assert f"{name} has .status.gpuAddresses, which this Laneway does not know" in found


@pytest.mark.slow
async def test_kubevirt_without_its_gate_and_with_entries_of_its_own(world: World) -> None:
    await world.add("node1", "a2")
    await world.claim("node1-000004001")
    path = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts/kubevirt"
    stored = json.loads(await world.client.raw(path))
    lists = stored["spec"]["configuration"]["permittedHostDevices"]
    [entry] = lists["pciHostDevices"]
    await world.kill_manager()  # It would put that right.
    configuration = {
        "developerConfiguration": {"featureGates": ["GPU"]},
        "permittedHostDevices": {"pciHostDevices": [entry | {"externalResourceProvider": False}]},
    }
    body = {"spec": {"configuration": configuration}}
    await world.client.patch(KUBEVIRTS, "kubevirt", body, NAMESPACE)
    found = await reported(world.client, Level.PROBLEM)
    assert "lacks the feature gate HostDevices" in found["KubeVirt"][0]
    assert entry["resourceName"] in found["PermittedDevices"][0]
    await world.start_manager()


async def test_gpus_without_an_agent_and_deletions_without_an_end(
    cluster: Any, parts: Installed
) -> None:
    await parts.all()
    label = "feature.node.kubernetes.io/pci-0302_10de.present"
    for name, labels in (("node1", {label: "true"}), ("node2", {}), ("node3", {})):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        await cluster.client.create(served(CoreNode), body)
    gpu = served(SRIOVGPUDevice)
    head = {"apiVersion": gpu.api_version, "kind": gpu.kind}
    meta = {"name": "node2-000008000", "labels": {"nodename": "node2"}, "finalizers": ["a/b"]}
    spec = {"nodeName": "node2", "address": "0000:08:00.0", "enabled": False}
    await cluster.client.create(gpu, head | {"metadata": meta, "spec": spec})
    claim = served(PCIDeviceClaim)
    meta = {"name": "node1-000008000", "finalizers": [keys.FINALIZER_PCI_CLAIM]}
    spec = {"nodeName": "node1", "address": "0000:08:00.0", "userName": "admin"}
    head = {"apiVersion": claim.api_version, "kind": claim.kind}
    await cluster.client.create(claim, head | {"metadata": meta, "spec": spec})
    await cluster.client.delete(gpu, "node2-000008000")
    await cluster.client.delete(claim, "node1-000008000")
    assert "Deletion" not in await reported(cluster.client)  # A moment is not long.
    later = datetime.now(UTC) + timedelta(minutes=5)
    found = [one.what for one in judge(await look(cluster.client, later))]
    assert "nodes with GPUs and no agent: node1, node2" in found
    assert any("node2-000008000" in one and "held by a/b" in one for one in found)
    assert any("the agent of node node1 does not answer" in one for one in found)
    free = {"metadata": {"finalizers": None}}
    await cluster.client.patch(gpu, "node2-000008000", free)
    await cluster.client.patch(claim, "node1-000008000", free)
