"""Host preparation: how far nodes are, a reboot that is allowed, and policies that are made.

Objects have what the manager and the agents write; neither runs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laneway.core import keys
from support import prepared_nodes
from support.prepared_nodes import API, BOOT, WAITS
from support.signing_in import Browser
from support.web_pages import Person
from support.web_site import DEVICES, SeparateSite, SimulatedSite, rule

READ_ALL = (rule("", ["nodes"]), rule(DEVICES, ["hostpolicies", "hostpreparations"]))
VMIS = "/apis/kubevirt.io/v1/namespaces/{}/virtualmachineinstances"


@pytest.fixture(scope="module")
def prepared(troubled: SeparateSite) -> Iterator[SeparateSite]:
    prepared_nodes.make(troubled)
    yield troubled
    for plural in ("hostpolicies", "hostpreparations"):
        for one in troubled.api.call(f"{API}/{plural}")["items"]:
            troubled.api.call(f"{API}/{plural}/{one['metadata']['name']}", "DELETE")


@pytest.fixture
async def admin(prepared: SeparateSite, admin_of_troubled: Browser) -> Person:
    person = Person(admin_of_troubled)
    await person.waits("/hosts", lambda text: "n1 Reboot pending" in text and "n3 Failed" in text)
    return person


def vm(site: SeparateSite, namespace: str, name: str, *, devices: bool) -> None:
    """A VM that runs on n1."""
    held = {"hostDevices": [{"name": "d", "deviceName": "x.com/y"}]} if devices else {}
    body: dict[str, Any] = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "spec": {"domain": {"devices": held}},
    }
    site.make(VMIS.format(namespace), body, name)
    status = {"status": {"nodeName": "n1", "phase": "Running"}}
    site.api.call(f"{VMIS.format(namespace)}/{name}", "PATCH", status)


async def test_nodes_and_policies_are_listed_with_what_they_wait_for(admin: Person) -> None:
    text = await admin.waits("/hosts", lambda text: "InvalidPolicy: Nothing is changed" in text)
    assert f"n1 Reboot pending {WAITS} 2026-01-01T00:07:00Z gpu-nodes grub" in text
    assert "n3 Failed intel_iommu=off stands in" in text
    assert "n2 Not known Nothing is asked of the node yet." in text
    assert "gpu-nodes 0 of 2 Ready 0/2 1 failed 1 away now, at most 1 NodeFailed: Node n3" in text
    failed = await admin.sees("/hosts?stage=Failed&policy=gpu-nodes")
    assert "n3 Failed" in failed
    assert "n1 Reboot pending" not in failed


async def test_a_node_shows_each_requirement_and_what_is_to_be_written(admin: Person) -> None:
    text = await admin.sees("/nodes/n3")
    assert "Iommu Impossible Remove it." in text
    assert "To be written write /etc/default/grub.d/90-laneway.cfg" in text
    assert "Allow reboot" not in text, "nothing would change with the next boot"
    assert "Preparation of node n3 Failed intel_iommu=off stands in" in text
    assert "Host preparation Not known" in await admin.sees("/nodes/n2")
    overview = await admin.sees("/")
    assert "HostPolicy gpu-nodes NodeFailed Node n3: intel_iommu=off stands in" in overview
    assert "Preparation of node n3 Failed intel_iommu=off stands in" in overview
    assert "Preparation of node n1" not in overview, "it waits for its reboot"


async def test_a_reboot_is_allowed_once_it_is_known_what_it_does(
    prepared: SeparateSite, admin: Person
) -> None:
    vm(prepared, "team", "pinned", devices=True)
    vm(prepared, "team", "light", devices=False)
    path = "/nodes/n1/reboot"
    assert f'href="{path}"' in await admin.html("/nodes/n1")
    text = await admin.waits(path, lambda text: "team/light" in text and "team/pinned" in text)
    assert "These VMs are migrated to other nodes: VM team/light" in text
    assert "The node waits until they are stopped: VM team/pinned: holds devices" in text
    # n3, which is of the same policy, is cordoned.
    assert (
        "Even so, the node goes on waiting: HostPolicy gpu-nodes allows 1 unavailable at a time"
        in text
    )

    assert await admin.sends(path) == (303, "/nodes/n1")
    stored = prepared.api.call(f"{API}/hostpreparations/n1")
    assert stored["metadata"]["annotations"][keys.ANNOTATION_REBOOT] == BOOT
    await admin.waits("/nodes/n1", lambda text: "An administrator has allowed the reboot." in text)
    assert f'href="{path}"' not in await admin.html("/nodes/n1")
    status, text = await admin.sends(path)
    assert status == 422
    assert "the reboot of node n1 is allowed already" in text


async def test_users_see_and_do_what_the_cluster_lets_them(prepared: SeparateSite) -> None:
    withdrawn = {"metadata": {"annotations": {keys.ANNOTATION_REBOOT: None}}}
    prepared.api.call(f"{API}/hostpreparations/n1", "PATCH", withdrawn)
    async with Browser(prepared.address) as browser:
        await browser.sign_in(prepared.account("hosts-viewer", *READ_ALL))
        viewer = Person(browser)
        await viewer.waits("/hosts", lambda text: "n3 Failed" in text)
        assert "You may not create HostPolicies." in await viewer.sees("/hosts")
        forbidden = "Allow reboot You may not patch hostpreparations."
        await viewer.waits("/nodes/n1", lambda text: forbidden in text)
        status, text = await viewer.sends("/nodes/n1/reboot")
        assert status == 422
        assert "cannot get resource" in text or "cannot patch resource" in text
        vm(prepared, "other", "hidden", devices=True)
        text = await viewer.waits(
            "/nodes/n1/reboot",
            lambda text: "a VM in another namespace: holds devices" in text,
        )
        assert "other/hidden" not in text
    async with Browser(prepared.address) as browser:
        await browser.sign_in(prepared.account("hosts-stranger", rule("", ["nodes"])))
        stranger = Person(browser)
        await stranger.html("/hosts", 403)
        assert "intel_iommu=off" not in await stranger.sees("/nodes/n3")


async def test_a_policy_is_judged_while_it_is_typed_and_then_stored(
    prepared: SeparateSite, admin: Person
) -> None:
    path = "/hosts/policy"
    typed = "edited=1&name=pages&names=n2+n3&pages=1G%3D4&when=InWindow"
    text = await admin.sees(f"{path}?{typed}")
    assert "reboot.when is InWindow, and there are no windows" in text
    typed += "&day0=Sat&start0=22:00&minutes0=240&zone0=Europe/Berlin"
    text = await admin.sees(f"{path}?{typed}")
    assert "The API server accepts the policy." in text
    assert "It selects 2 nodes. n2 also selected by broken HostPolicy broken is invalid" in text
    refused = await admin.sees(f"{path}?{typed}&blocked=-x")
    assert "is not the name of a kernel module" in refused

    fields = {"edited": "1", "name": "pages", "names": "n2, n3", "pages": "1G=4 2M=x"}
    reply = await admin.posts(path, **fields)
    assert reply.status == 422
    assert 'id="pages-problem"' in reply.text
    assert 'value="1G=4 2M=x"' in reply.text
    assert (await admin.sends(path, **{**fields, "pages": "1G=4", "labels": "a=b"}))[0] == 303
    spec = prepared.api.call(f"{API}/hostpolicies/pages")["spec"]
    assert spec["hugePages"] == [{"size": "1G", "count": 4}]
    assert spec["nodeSelector"] == {"matchLabels": {"a": "b"}, "names": ["n2", "n3"]}

    fields = {"edited": "1", "generation": "1", "labels": "c=d", "max_unavailable": "10%"}
    await admin.waits(f"{path}/pages", lambda text: "HostPolicy pages" in text)
    assert await admin.sends(f"{path}/pages", **fields) == (303, "/hosts")
    spec = prepared.api.call(f"{API}/hostpolicies/pages")["spec"]
    assert spec["nodeSelector"]["matchLabels"] == {"c": "d"}
    assert spec["rollout"]["maxUnavailable"] == "10%"
    assert not spec["hugePages"]
    status, text = await admin.sends(f"{path}/pages", **fields)
    assert status == 422
    assert "HostPolicy pages was changed meanwhile" in text


async def test_what_only_the_server_refuses_stands_at_its_field(admin: Person) -> None:
    reply = await admin.posts("/hosts/policy", edited="1", name="odd", max_unavailable="007")
    assert reply.status == 422
    assert 'id="max_unavailable-problem"' in reply.text
    assert "spec.rollout.maxUnavailable" in reply.text


async def test_a_cluster_without_the_kinds_is_told_how_it_gets_them(tmp_path: Path) -> None:
    site = SeparateSite(tmp_path / "data", lambda _kubeconfig: None)
    try:
        async with Browser(site.address) as browser:
            await browser.sign_in(site.administrator)
            text = await Person(browser).sees("/hosts")
            assert "The cluster has no HostPolicies and HostPreparations." in text
    finally:
        site.end()


@pytest.mark.slow
async def test_a_fresh_host_becomes_ready_without_a_command(tmp_path: Path) -> None:
    site = SimulatedSite(tmp_path / "data", ["a2,iommu=off"])
    try:
        async with Browser(site.address) as browser:
            await browser.sign_in(site.administrator)
            admin = Person(browser)
            fields = {"edited": "1", "name": "gpus", "iommu": "yes", "when": "OnCommand"}
            assert (await admin.sends("/hosts/policy", **fields))[0] == 303
            await admin.waits("/hosts", lambda text: "Reboot pending" in text)
            assert await admin.sends("/nodes/sim-a2-1/reboot") == (303, "/nodes/sim-a2-1")
            await admin.waits("/hosts", lambda text: "gpus 1 of 1 Ready" in text)
            assert "Iommu Met" in await admin.sees("/nodes/sim-a2-1")
    finally:
        site.end()
