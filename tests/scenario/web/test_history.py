"""The history of holders by the whole of `laneway up`: over a restart, and for each user."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support import troubled_cluster
from support.commands import ended, started
from support.holding import configure, run_vm, stop_vm
from support.processes import SECONDS
from support.signing_in import Browser
from support.web_pages import Person
from support.web_site import READ, SeparateSite, SimulatedSite, WebSite, rule

VGPU = "sim-a2-1-000008004"
HISTORY = "/api/v1/history"
LISTED = ("pcideviceclaims", "usbdeviceclaims", "vgpudevices")


async def asked(site: WebSite, token: str, query: str = "") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(site.address) as http,
        http.get(f"{HISTORY}{query}", headers=headers) as response,
    ):
        return response.status, await response.json()


async def until(site: WebSite, holds: Callable[[Any], bool]) -> Any:
    """The history, once it is as expected."""
    async with asyncio.timeout(SECONDS):
        while True:
            status, found = await asked(site, site.administrator)
            if status == 200 and holds(found):
                return found
            await asyncio.sleep(0.6)  # a token has two requests in a second


async def entries(site: WebSite, holds: Callable[[list[Any]], bool]) -> list[Any]:
    """The entries, once they are as expected."""
    return list((await until(site, lambda found: holds(found["items"])))["items"])


def holders(items: list[Any]) -> list[str]:
    return [one["holder"]["name"] if one["type"] == "Held" else "gap" for one in items]


async def test_who_held_a_vgpu_is_known_after_the_vm_and_the_process_have_ended(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    site = SimulatedSite(data, ["a2"])
    try:
        configure(site, VGPU)
        run_vm(site, "team", "first")
        (entry,) = await entries(site, bool)
        assert (entry["device"], entry["gpu"], entry["profile"], entry["holder"]) == (
            VGPU,
            "sim-a2-1-000008000",
            "NVIDIA A2-4Q",
            {"kind": "VirtualMachine", "namespace": "team", "name": "first"},
        )
        assert (entry["fromObserved"], entry["to"]) == (True, None)
        await an_open_page_shows_its_end(site, lambda: stop_vm(site, "team", "first"))
        run_vm(site, "other", "second")
        items = await entries(site, lambda items: len(items) == 2)
        assert holders(items) == ["second", "first"]
    finally:
        site.end()

    site = SimulatedSite(data, ["a2"])
    try:
        items = await entries(site, lambda items: len(items) >= 3)
        assert sorted(holders(items)) == ["first", "gap", "second"]
        (kept,) = [one for one in items if one["type"] == "Held" and one["to"] is None]
        assert kept["holder"]["name"] == "second"
        await each_sees_what_he_may_list(site)
        await the_command_tells_the_same(site, data)
    finally:
        site.end()


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[SeparateSite]:
    """A site that keeps the history of a cluster on which nothing acts."""
    folder = str(tmp_path / "history")
    found = SeparateSite(tmp_path / "data", troubled_cluster.fill, "--history-dir", folder)
    yield found
    found.end()


async def test_an_api_server_that_is_away_leaves_a_gap_and_guesses_no_holder(
    recorded: SeparateSite,
) -> None:
    # Of the four vGPUs one is held by an allocation, and one is wanted: no history.
    items = (await until(recorded, lambda found: bool(found["items"])))["items"]
    assert [one["fromObserved"] for one in items] == [False]
    recorded.stop_server()
    await until(recorded, lambda found: not found["recording"])
    recorded.start_server()
    gap, held = (await until(recorded, lambda found: len(found["items"]) == 2))["items"]
    assert gap["type"] == "NotObserved"
    assert gap["to"] > gap["from"] >= held["from"]
    assert (held["to"], held["toObserved"]) == (None, True)
    assert held["notObservedSeconds"] > 0


async def an_open_page_shows_its_end(site: SimulatedSite, end: Callable[[], None]) -> None:
    async with Browser(site.address) as browser:
        assert (await browser.sign_in(site.administrator)).status == 303
        async with browser.stream("/history") as stream:
            await stream.until(lambda event: "<td>now</td>" in event)
            end()
            await stream.until(lambda event: "live-table" in event and "<td>now</td>" not in event)


async def each_sees_what_he_may_list(site: SimulatedSite) -> None:
    devices = rule("devices.harvesterhci.io", LISTED, READ)
    token = site.account("member", devices)
    vms = rule("kubevirt.io", ["virtualmachines"])
    site.grant("member-of-team", vms, namespace="team")
    subject = {"kind": "ServiceAccount", "name": "member", "namespace": "default"}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings/member-of-team"
    site.api.call(path, "PATCH", {"subjects": [subject]})
    status, found = await asked(site, token)
    assert (status, found["partial"], sorted(holders(found["items"]))) == (
        200,
        True,
        ["first", "gap"],
    )
    browser = Browser(site.address)
    try:
        assert (await browser.sign_in(token)).status == 303
        page = await Person(browser).sees("/history")
    finally:
        await browser.http.close()
    assert "team/first" in page
    assert "Not observed" in page
    assert "other/second" not in page

    status, refused = await asked(site, site.account("stranger", vms))
    assert (status, refused["reason"]) == (403, "Forbidden")
    assert refused["message"] == (
        "You may not list pcideviceclaims, usbdeviceclaims, vgpudevices, so you may not see the "
        "history. Ask an administrator of the cluster for the role laneway-view."
    )
    status, refused = await asked(site, site.administrator, "?since=yesterday")
    assert (status, refused["reason"]) == (400, "BadRequest")
    assert "yesterday is not a time" in refused["message"]


async def the_command_tells_the_same(site: SimulatedSite, data: Path) -> None:
    kubeconfig = str(data / "kubeconfig")
    arguments = ("history", "--url", site.address, "--vm", "team/first")
    done = await ended(await started(*arguments, "-o", "json", kubeconfig=kubeconfig))
    assert done.status == 0, done.err
    assert sorted(holders(json.loads(done.out)["items"])) == ["first", "gap"]
    done = await ended(await started(*arguments, kubeconfig=kubeconfig))
    assert "VM team/first" in done.out
    assert "not observed" in done.out
    planned = ("plan", "layout", "--since", "1d", "--url", site.address)
    done = await ended(await started(*planned, kubeconfig=kubeconfig))
    assert done.status == 0, done.err
    assert done.out == (
        "No VM waits for a vGPU, and no more were in use at a time since 1d than now.\n"
    )
    stop_vm(site, "other", "second")
    await entries(site, lambda items: all(one["to"] for one in items))
    for vm in ("team/virtualmachines/first", "other/virtualmachines/second"):
        site.api.call(f"/apis/kubevirt.io/v1/namespaces/{vm}", "DELETE")
    done = await ended(await started(*planned, kubeconfig=kubeconfig))
    assert done.status == 0, done.err
    assert done.out.startswith(
        "Demand: 1 x A2-4Q; in use 0, at most 1 at a time since 1d.\nServed: 1 of 1 vGPUs, 4 GiB.\n"
    )
    assert "the history has times in which nothing was observed" in done.err
