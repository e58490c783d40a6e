"""Rancher's form with the webhook: what is created, scaled and changed is judged by Harvester."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from laneway.core.tracing import root
from laneway.kube.client import Client
from laneway.kube.cluster import User
from laneway.kube.errors import ApiError, ForbiddenError, InvalidError
from laneway.kube.rancher import GUEST_CLUSTERS, HARVESTER_CONFIGS
from support.accounts import account, bound, right, until
from support.pool_guard import NAMESPACE, RESOURCE, Guard, devices, spec
from support.reviewing import review

pytestmark = [pytest.mark.realapi, pytest.mark.timeout(120)]
SMALL = {"cpuCount": "2", "memorySize": "4"}


@pytest.fixture
async def refusing(guard: Guard, tmp_path: Path) -> AsyncIterator[Guard]:
    """Two nodes with two vGPUs each, and a webhook that refuses."""
    for name in ("n1", "n2"):
        await guard.node(name, vgpus=2)
    async with guard.webhook(tmp_path):
        await guard.known()
        yield guard


async def test_a_cluster_from_the_form_to_its_deletion(refusing: Guard) -> None:
    """The form creates the configuration of each pool, and then the cluster."""
    guard = refusing
    assert await guard.config("nc-guest-gpu", vgpuInfo=devices(RESOURCE), **SMALL) == []
    with pytest.raises(ForbiddenError) as refused:
        await guard.cluster("guest", gpu=5)
    assert (
        f"Pool gpu: {RESOURCE}: 1 requested by each of 5 VMs, and there is enough for 4"
    ) in refused.value.message
    assert await guard.cluster("guest", gpu=3) == []
    for number, node in enumerate(("n1", "n1", "n2")):
        await guard.machine("guest", "gpu", f"guest-gpu-{number}", node)

    with pytest.raises(ForbiddenError, match=r"1 requested by each of 2 VMs, .* enough for 1"):
        await guard.change_cluster("guest", gpu=5)
    assert await guard.quantities("guest") == [3]
    [surge] = [" ".join(await guard.change_cluster("guest", gpu=4))]
    assert f"the nodes lack 1 x {RESOURCE}" in surge
    assert await guard.change_cluster("guest", gpu=1) == []
    await guard.delete("guest")


async def test_each_write_of_a_cluster_is_the_beginning_of_its_trace(refusing: Guard) -> None:
    guard = refusing
    await guard.config("nc-traced-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    await guard.cluster("traced", gpu=1)
    await guard.change_cluster("traced", gpu=2)
    stored = await guard.management.client.get(GUEST_CLUSTERS, "traced", NAMESPACE)
    told = {span.id for span in guard.spans if span.name == "admission Cluster"}
    assert {root(stored.metadata.uid, 1), root(stored.metadata.uid, 2)} <= told
    with pytest.raises(ForbiddenError):
        await guard.change_cluster("traced", gpu=9)
    refused = [span for span in guard.spans if span.error]
    assert refused  # Kubernetes before 1.28 asks twice: it evaluates no conditions of webhooks.
    assert all("enough for" in span.error and span.id not in told for span in refused)


async def test_mistakes_are_told_where_the_form_sends_them(refusing: Guard) -> None:
    guard = refusing
    for text, words in (
        ("{", "vgpuInfo is not JSON"),
        ('{"vGPURequests":[{"deviceName":"no name"}]}', "vgpuInfo: entry 1: deviceName 'no name'"),
        ('{"vGPURequests":[{"name":"a"}]}', "vgpuInfo: entry 1 has no deviceName"),
        (devices(RESOURCE, count=65), "vgpuInfo requests 65 devices for each machine"),
    ):
        with pytest.raises(InvalidError) as refused:
            await guard.config("nc-bad-gpu", vgpuInfo=text)
        assert words in refused.value.message
        assert "Correct the field vgpuInfo." in refused.value.message
    with pytest.raises(ForbiddenError, match="NVIDIA_B9-9Q: no node has such a device"):
        await guard.config("nc-bad-gpu", vgpuInfo=devices("nvidia.com/NVIDIA_B9-9Q"))

    await guard.config("nc-bad-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    assert await guard.cluster("bad", gpu=0) == []
    for quantity, words in ((10_000, "each of 10000 VMs"), (-1, "-1 is not a number of 0 to")):
        with pytest.raises(ApiError, match=words):
            await guard.change_cluster("bad", gpu=quantity)
    share = {"quantity": 1, "rollingUpdate": {"maxSurge": "much"}}
    with pytest.raises(ApiError, match="'much' is neither a number nor a percentage"):
        await guard.change_cluster("bad", gpu=share)
    assert await guard.quantities("bad") == [0]


async def test_a_configuration_that_changes_is_judged_with_all_its_machines(
    refusing: Guard,
) -> None:
    guard = refusing
    await guard.config("nc-guest-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    await guard.cluster("guest", gpu=4)
    for number, node in enumerate(("n1", "n1", "n2", "n2")):
        await guard.machine("guest", "gpu", f"guest-gpu-{number}", node)
    with pytest.raises(ForbiddenError, match=r"Pool gpu of guest: .* enough for 2"):
        await guard.change_config("nc-guest-gpu", vgpuInfo=devices(RESOURCE, count=2))
    with pytest.raises(ForbiddenError, match="Pool gpu of guest: There is room for 0 of 4"):
        await guard.change_config("nc-guest-gpu", memorySize="600")
    # Other fields have the machines replaced, too; that is no reason to refuse it.
    surge = " ".join(await guard.change_config("nc-guest-gpu", imageName="other"))
    assert surge.startswith("Pool gpu of guest: The rolling update of its machines waits")
    assert await guard.change_config("nc-guest-gpu", vgpuInfo="") == []


async def test_who_only_pretends_to_write_a_cluster_takes_nothing_from_others(
    refusing: Guard,
) -> None:
    """Without a client CA, any client that reaches the port can send what API servers send."""
    guard = refusing
    await guard.config("nc-guest-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    await guard.config("nc-forged-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    meta = {"name": "forged", "namespace": NAMESPACE}
    forged = {"metadata": meta, "spec": spec("forged", {"gpu": 4})}
    body = review("clusters", new=forged, group=GUEST_CLUSTERS.group)
    url = f"https://localhost:{guard.management.port}/v1/webhook/validation"
    async with aiohttp.ClientSession() as http, http.post(url, json=body, ssl=False) as response:
        assert (await response.json())["response"]["allowed"]
    assert await guard.cluster("guest", gpu=3) == []


async def test_who_may_not_read_a_credential_is_not_told_what_its_harvester_has(
    refusing: Guard,
) -> None:
    """A guest cluster can name any credential, in a dry run as well."""
    guard, chart = refusing, refusing.management
    await guard.config("nc-mine-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    body = {
        "apiVersion": GUEST_CLUSTERS.api_version,
        "kind": GUEST_CLUSTERS.kind,
        "metadata": {"name": "mine"},
        "spec": spec("mine", {"gpu": 5}),
    }
    for name in ("tenant", "owner"):
        await chart.apply(account(name))
        await chart.apply(bound(name, "laneway-test-writes"))
    reads = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["cc-abcde"]}
    writes = {"apiGroups": [GUEST_CLUSTERS.group], "resources": ["clusters"]}
    await chart.apply(_role("laneway-test-writes", {**writes, "verbs": ["create"]}))
    await chart.apply(_role("laneway-test-reads", {**reads, "verbs": ["get"]}))
    reading = bound("owner", "laneway-test-reads")
    await chart.apply({**reading, "metadata": {"name": "laneway-test-owner-reads"}})

    async def said(name: str, need: str) -> str:
        user = User(token=await chart.token(name, "default"))
        async with Client(replace(chart.config, user=user)) as client:
            await chart.granted(client, right(need))
            with pytest.raises(ForbiddenError) as refused:
                await client.create(GUEST_CLUSTERS, body, NAMESPACE, dry_run=True)
        return refused.value.message

    write = f"create clusters.{GUEST_CLUSTERS.group} {NAMESPACE}/"
    words = await said("tenant", write)
    assert "Pool gpu: Its machines cannot all start" in words
    assert "n1" not in words
    assert RESOURCE not in words
    assert "node n1 has 2 free of 2" in await said(
        "owner", "get secrets cattle-global-data/cc-abcde"
    )


def _role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    return {**kind, "metadata": {"name": name}, "rules": list(rules)}


async def test_what_was_wrong_before_hinders_no_write(guard: Guard, tmp_path: Path) -> None:
    """Clusters from before the webhook can be changed in all that asks for nothing."""
    await guard.node("n1", vgpus=1)
    await guard.config("nc-old-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    await guard.config("nc-old-bad", vgpuInfo="{")
    await guard.config("nc-old-cp", **SMALL)
    await guard.cluster("old", gpu=4, bad=2, cp=1)
    async with guard.webhook(tmp_path):
        await guard.known()
        assert await guard.change_cluster("old", gpu=4, bad=2, cp=2) == []
        assert await guard.change_cluster("old", gpu=3, bad=1, cp=2) == []
        assert await guard.change_config("nc-old-bad", vgpuInfo="{", diskSize="40") == []
        with pytest.raises(ForbiddenError, match="Pool gpu: "):
            await guard.change_cluster("old", gpu=5, bad=1, cp=2)
        with pytest.raises(ApiError, match="Pool bad: vgpuInfo is not JSON"):
            await guard.change_cluster("old", gpu=3, bad=2, cp=2)
        assert await guard.change_cluster("old", cp=1) == []


async def test_writes_that_ask_for_nothing_do_not_reach_the_webhook(refusing: Guard) -> None:
    guard, client = refusing, refusing.management.client
    version = msgspec.json.decode(await client.raw("/version"))
    if int(version["minor"].rstrip("+")) < 28:
        pytest.skip("a server of this age evaluates no conditions of webhooks")
    await guard.config("nc-guest-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    await guard.cluster("guest", gpu=1)
    asked = guard.reviews()
    assert asked > 0
    label = {"metadata": {"labels": {"a": "b"}}}
    await client.patch(HARVESTER_CONFIGS, "nc-guest-gpu", label, NAMESPACE)
    await client.patch(GUEST_CLUSTERS, "guest", label, NAMESPACE)
    status = {"status": {"ready": True}}
    await client.patch(GUEST_CLUSTERS, "guest", status, NAMESPACE, subresource="status")
    await guard.delete("guest")
    await client.delete(HARVESTER_CONFIGS, "nc-guest-gpu", NAMESPACE)
    assert guard.reviews() == asked


async def test_a_webhook_that_only_warns(guard: Guard, tmp_path: Path) -> None:
    await guard.node("n1", vgpus=1)
    async with guard.webhook(tmp_path, refuses=False):
        await guard.known()
        assert await guard.config("nc-bad-gpu", vgpuInfo="{") == [
            "vgpuInfo is not JSON: Input data was truncated. Correct the field vgpuInfo."
        ]
        await guard.config("nc-guest-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
        said = " ".join(await guard.cluster("guest", gpu=2))
        assert f"Pool gpu: {RESOURCE}: 1 requested by each of 2 VMs, and there is enough" in said
        assert await guard.quantities("guest") == [2]
        assert guard.counted("unchecked_total") == 0


async def test_while_harvester_is_away_everything_passes_with_a_warning(
    refusing: Guard,
) -> None:
    guard = refusing
    await guard.config("nc-guest-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    await guard.line.stop()
    await guard.known(known=False)
    said = " ".join(await guard.cluster("guest", gpu=9))
    assert said.startswith("Laneway did not check pool gpu: the Harvester cluster default is not")
    unknown = " ".join(await guard.config("nc-new-gpu", vgpuInfo=devices("nvidia.com/NEW")))
    assert "Laneway did not check nvidia.com/NEW" in unknown
    with pytest.raises(InvalidError, match="vgpuInfo is not JSON"):
        await guard.config("nc-other-gpu", vgpuInfo="{")
    assert guard.counted("unchecked_total") == 2
    await guard.line.start()
    await guard.known()
    with pytest.raises(ForbiddenError, match="there is enough for"):
        await guard.change_cluster("guest", gpu=10)


async def test_while_the_management_cluster_is_away_everything_passes_with_a_warning(
    guard: Guard, tmp_path: Path
) -> None:
    """Its API server asks the webhook, which cannot read there."""
    await guard.node("n1", vgpus=1)
    async with guard.webhook(tmp_path) as line:
        await guard.known()
        await guard.config("nc-guest-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
        await line.stop()
        said = " ".join(await guard.cluster("guest", gpu=2))
        assert "of the management cluster cannot be read" in said
        await line.start()

        async def refused() -> bool:
            try:
                await guard.change_cluster("guest", gpu=await larger())
            except ForbiddenError:
                return True
            return False

        async def larger() -> int:
            [quantity] = await guard.quantities("guest")
            return (quantity or 0) + 1

        await until(refused)


async def test_a_kubeconfig_that_is_missing_wrong_and_mended(refusing: Guard) -> None:
    guard = refusing
    await guard.config("nc-guest-gpu", vgpuInfo=devices(RESOURCE), **SMALL)
    (guard.kubeconfigs / "default").write_text("{")
    await guard.known(known=False)
    said = " ".join(await guard.cluster("guest", gpu=9))
    assert "its kubeconfig cannot be used" in said
    (guard.kubeconfigs / "default").unlink()

    async def unknown() -> str:
        return " ".join(await guard.change_cluster("guest", gpu=10))

    async with asyncio.timeout(60):
        while "no key cc-abcde" not in await unknown():
            await guard.change_cluster("guest", gpu=9)
    # A key with the name of the credential, which is the only one that clusters name.
    guard.give_kubeconfig("cc-abcde")
    await guard.known(name="cc-abcde")
    with pytest.raises(ForbiddenError, match="there is enough for"):
        await guard.change_cluster("guest", gpu=11)
