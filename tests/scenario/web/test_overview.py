"""The overview of a small cluster: what there is, what waits and why, what is wrong; live."""

from __future__ import annotations

from support.processes import DEVICES
from support.signing_in import Browser
from support.troubled_cluster import RESOURCE, VGPUS
from support.web_pages import text_of
from support.web_site import SeparateSite, rule


async def test_devices_are_counted_by_state_with_what_could_be_created(
    admin_of_troubled: Browser,
) -> None:
    text = text_of((await admin_of_troubled.get("/")).text)
    held_to_all = "1 1 1 1 0 2 4"
    assert f"creatable: 2. H 1 R 1 W 1 U 1 C 2 {held_to_all}" in text
    assert "NVIDIA_A2-8Q" not in text
    assert "1 more type has no device yet" in text
    text = text_of((await admin_of_troubled.get("/?state=creatable")).text)
    assert "nvidia.com/ NVIDIA_A2-8Q n1" in text
    assert "1-2 of 2" in text
    assert "1-1 of 1" in text_of((await admin_of_troubled.get("/?group=node&q=A2-8Q")).text)


async def test_what_waits_says_why_and_what_is_wrong_comes_worst_first(
    admin_of_troubled: Browser,
) -> None:
    page = (await admin_of_troubled.get("/")).text
    text = text_of(page)
    assert f"VM team/big cannot start: the cluster lacks 3 x {RESOURCE}" in text
    assert "1 reserved by the stopped VM other/kept; 1 requested by VM team/ann" in text
    assert '<a href="/vms/team/big">' in page
    wrong = [
        "Node n2 NodeClosed The node is not ready since 2026-01-01T00:00:00Z: the kubelet stopped",
        "Node n3 NoAgent The node has GPUs, and no agent manages them.",
        "GPU n3-000001000 WriteFailed The kernel refused numvfs.",
        "MIG configuration n1-000001000 out-of-sync There is one 1g.5gb too many.",
        f"vGPU device {VGPUS[3]} Advertised The card is gone.",
        "Node n3 NodeClosed The node is cordoned.",
    ]
    places = [text.index(one) for one in wrong]
    assert places == sorted(places)
    assert '<a href="/gpus/n3-000001000">' in page
    lately = text.partition("What changed lately")[2]
    assert lately.index("WriteFailed") < lately.index("Configured and 3 more like it")


async def test_a_user_of_one_namespace_sees_no_names_of_others(troubled: SeparateSite) -> None:
    token = troubled.account("narrow", rule("", ["nodes"]))
    troubled.grant("narrow", rule("kubevirt.io", ["virtualmachines"]), namespace="team")
    async with Browser(troubled.address) as browser:
        await browser.sign_in(token)
        text = text_of((await browser.get("/")).text)
    assert "VM team/big cannot start" in text
    assert "1 held by VM in another namespace" in text
    assert "secret" not in text
    assert "kept" not in text.partition("Capacity")[0]
    assert "WriteFailed" not in text
    assert "You may not list hostpolicies, hostpreparations, migconfigurations, " in text
    assert "so nothing is shown about capacity" in text


async def test_what_a_user_may_not_see_is_not_said_to_be_nothing(troubled: SeparateSite) -> None:
    async with Browser(troubled.address) as browser:
        await browser.sign_in(troubled.account("blind", rule("", ["nodes"])))
        text = text_of((await browser.get("/")).text)
    assert "No VM and no pod that you may see waits for devices." in text


async def test_the_page_follows_the_ledger_and_keeps_its_filter(
    troubled: SeparateSite, admin_of_troubled: Browser
) -> None:
    """The ledger is made a moment after the change that leads to it."""
    vgpu = f"{DEVICES}/vgpudevices/{VGPUS[0]}/status"
    async with admin_of_troubled.stream("/?state=held&q=A2-4Q") as stream:
        event = await stream.until(lambda event: "1-1 of 1" in text_of(event))
        assert "1 1 1 1 0 2 4" in text_of(event)
        troubled.api.call(vgpu, "PATCH", {"status": {"allocation": None}})
        try:
            await stream.until(lambda event: "Nothing matches the filters." in text_of(event))
        finally:
            has = {"namespace": "other", "pod": "p", "virtualMachine": "secret"}
            troubled.api.call(vgpu, "PATCH", {"status": {"allocation": has}})
