"""Nodes: the table, one node with its groups and the commands for it, and what the doctor finds."""

from __future__ import annotations

from support.signing_in import Browser
from support.troubled_cluster import AGENT, GPU, condition
from support.web_pages import Person, text_of
from support.web_site import SeparateSite, rule


async def test_nodes_are_listed_with_what_they_have_and_what_they_lack(
    admin_of_troubled: Browser,
) -> None:
    text = text_of((await admin_of_troubled.get("/nodes")).text)
    assert "Ready n1 1 4 1 6.12.1-amd64 nvidia Runs 2" in text
    assert "Not ready n2 0 0 0 6.12.1-amd64 - None 1" in text
    assert "No agent n3 1 0 0 6.12.1-amd64 - None 2" in text
    only = text_of((await admin_of_troubled.get("/nodes?state=no_agent&q=n3")).text)
    assert "1-1 of 1 (3 without filters)" in only


async def test_a_node_without_a_kubelet_is_not_ready(
    troubled: SeparateSite, admin_of_troubled: Browser
) -> None:
    person = Person(admin_of_troubled)
    troubled.make("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node"}, "bare")
    await person.waits("/nodes?q=bare", lambda text: "No kubelet bare" in text)
    assert "No kubelet bare" in await person.sees("/nodes?state=no_kubelet")
    troubled.api.call("/api/v1/nodes/bare", "DELETE")
    await person.waits("/nodes?q=bare", lambda text: "No kubelet bare" not in text)


async def test_a_node_shows_its_problems_gpus_groups_and_how_to_capture_it(
    admin_of_troubled: Browser,
) -> None:
    page = (await admin_of_troubled.get("/nodes/n1")).text
    text = text_of(page)
    assert "2 warnings" in text
    assert "n3-000001000" not in text
    assert f'href="/gpus/{GPU}">0000:01:00.0</a>' in page
    assert "Group 17 claimable 0000:01:00.0 nvidia claimable 3D controller: NVIDIA A2" in text
    run = f"kubectl --namespace harvester-system exec {AGENT} --container agent --"
    assert f"{run} laneway doctor node" in text
    assert f"{run} laneway capture - > n1.dump" in text
    elsewhere = text_of((await admin_of_troubled.get("/nodes/n2")).text)
    assert "Run these commands on the node itself" in elsewhere
    assert "laneway capture n2.dump" in elsewhere
    for name, has_object in (("n1", True), ("n2", False)):
        page = (await admin_of_troubled.get(f"/nodes/{name}")).text
        assert (f'href="/objects/nodes/{name}"' in page) == has_object
        found = (await admin_of_troubled.get(f"/objects/nodes/{name}")).status
        assert (found == 200) == has_object
    assert (await admin_of_troubled.get("/nodes/n9")).status == 404


async def test_what_a_user_may_not_list_is_left_out_of_a_node(troubled: SeparateSite) -> None:
    async with Browser(troubled.address) as browser:
        await browser.sign_in(troubled.account("nodes-only", rule("", ["nodes"])))
        text = text_of((await browser.get("/nodes/n1")).text)
        assert "Nothing is wrong with what you may see." in text
        for hidden in ("nvidia", AGENT, "Group 17", "out-of-sync", "mdev"):
            assert hidden not in text
        assert "Ready n1 0 0 0 6.12.1-amd64" in text_of((await browser.get("/nodes")).text)
    async with Browser(troubled.address) as browser:
        await browser.sign_in(troubled.account("nothing"))
        assert (await browser.get("/nodes")).status == 403


async def test_the_doctor_finds_what_the_command_finds(admin_of_troubled: Browser) -> None:
    text = text_of((await admin_of_troubled.get("/doctor")).text)
    assert "Problem Nodes nodes with GPUs and no agent: n3" in text
    assert "Problem Laneway Laneway's manager is missing" in text
    assert "In order Definitions all 15 kinds are there, with all fields" in text


async def test_a_driver_that_is_not_in_service_is_told_of_the_node_and_of_its_gpus(
    troubled: SeparateSite, admin_of_troubled: Browser
) -> None:
    person, path = Person(admin_of_troubled), "/apis/devices.harvesterhci.io/v1beta1/nodes/n1"
    before = troubled.api.call(path)["status"]["conditions"]
    said = condition("Driver", "False", "HashMismatch", "The package has other bytes.")

    def tell(conditions: object) -> None:
        troubled.api.call(f"{path}/status", "PATCH", {"status": {"conditions": conditions}})

    tell([*before, said])
    try:
        why = "HashMismatch: The package has other bytes."
        alert = f"The driver of its node is not in service: {why}"
        await person.waits(f"/gpus/{GPU}", lambda text: alert in text)
        assert "HashMismatch" in await person.sees("/gpus")
        assert "The package has other bytes." in await person.sees("/nodes/n1")
        assert f"node n1: {why}" in await person.sees("/doctor")
    finally:
        tell(before)
