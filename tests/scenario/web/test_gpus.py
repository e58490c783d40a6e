"""GPUs in the interface: planned, changed, held and released, by the whole of `laneway up`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest

from support.signing_in import Browser
from support.web_pages import Person
from support.web_site import DEVICES, READ, SeparateSite, SimulatedSite, rule

A2, A100 = "sim-a2-1-000008000", [f"sim-a100-1-0000{bus}000" for bus in ("17", "31", "b1")]
API = f"/apis/{DEVICES}/v1beta1"
VMS = "/apis/kubevirt.io/v1/namespaces/{}/virtualmachines"
MIXED = {"vgpu:A2-4Q": "2", "vgpu:A2-8Q": "1"}
KINDS = ["sriovgpudevices", "vgpudevices", "pcidevices", "vgpulayouts"]


def planned(name: str, **fields: str) -> str:
    return f"/gpus/{name}/vgpus?{urlencode({'plan': '1', **fields})}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSite]:
    found = SimulatedSite(tmp_path_factory.mktemp("site") / "data", ["a2", "a100"])
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
async def enter(site: SimulatedSite) -> AsyncIterator[Callable[[str], Any]]:
    browsers = []

    async def enter(token: str) -> Person:
        browser = Browser(site.address)
        browsers.append(browser)
        assert (await browser.sign_in(token)).status == 303
        return Person(browser)

    yield enter
    for browser in browsers:
        await browser.http.close()


@pytest.fixture
async def admin(site: SimulatedSite, enter: Any) -> Person:
    return await enter(site.administrator)


def layout_of(site: SimulatedSite, name: str) -> Any:
    return site.api.call(f"{API}/vgpulayouts/{name}")["spec"]


async def test_two_sizes_are_planned_stored_as_one_layout_and_shown_at_their_places(
    admin: Person, site: SimulatedSite
) -> None:
    await admin.waits("/gpus", lambda text: text.count("SameSize 0 of 16") == 5)
    one_size = await admin.html(planned(A2, **MIXED))
    assert "SizesMixed: A2-4Q, A2-8Q differ in size" in one_size
    assert 'disabled aria-describedby="apply-reason"' in one_size
    shown = await admin.sees(planned(A2, **MIXED, mode="MixedSize"))
    assert "A2-8Q , 8 GiB at 0 GiB new" in shown
    assert "allow vGPUs of mixed sizes on 0000:08:00.0" in shown
    assert "This is the answer of the agent of sim-a2-1 to a trial." in shown
    # Asking has left nothing behind.
    assert site.api.call(f"{API}/vgpulayouts")["items"] == []

    status, where = await admin.sends(planned(A2, **MIXED, mode="MixedSize"))
    assert (status, where) == (303, f"/gpus/{A2}")
    await admin.waits(f"/gpus/{A2}", lambda text: "it has A2-4Q=2, A2-8Q=1" in text)
    spec = layout_of(site, A2)
    assert spec["gpuSelector"] == {"names": [A2]}
    assert spec["mode"] == "MixedSize"
    assert {one["profile"]: one["count"] for one in spec["vgpus"]} == {
        "NVIDIA A2-4Q": 2,
        "NVIDIA A2-8Q": 1,
    }
    listed = await admin.sees("/gpus?board=A2")
    assert "MixedSize 3 of 16 16 of 16 GiB: A2-4Q=2, A2-8Q=1 no room for another vGPU" in listed
    assert "sim-a100-1" not in listed


async def test_what_holds_a_vgpu_is_named_where_it_stops_a_change_also_when_it_is_stopped(
    admin: Person, site: SimulatedSite, enter: Any
) -> None:
    device = {"name": "gpu", "deviceName": "nvidia.com/NVIDIA_A2-8Q"}
    domain = {"devices": {"gpus": [device]}, "resources": {"requests": {"memory": "1Gi"}}}
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "spec": {"running": True, "template": {"spec": {"domain": domain}}},
    }
    site.make(VMS.format("default"), vm, "desk")
    await admin.waits(f"/gpus/{A2}", lambda text: "held by VM default/desk" in text)
    page = await admin.html(f"/gpus/{A2}")
    assert '<a href="/vms/default/desk">VM default/desk</a>' in page
    status, refused = await admin.sends(planned(A2, **{"vgpu:A2-16Q": "1"}))
    assert status == 422
    assert "VM default/desk" in refused
    # So it is where it is the first page of a session.
    fresh = await enter(site.administrator)
    assert "VM default/desk" in await fresh.sees(f"/gpus/change?row={A2}&to=Passthrough")

    # A user who may not see the VM is told that there is one.
    ann = await enter(site.account("ann", rule(DEVICES, KINDS)))
    seen = await ann.sees(f"/gpus/{A2}")
    assert "held by a VM in another namespace" in seen

    site.api.call(f"{VMS.format('default')}/desk", "PATCH", {"spec": {"running": False}})
    stopped = await admin.waits(f"/gpus/{A2}", lambda text: "VM default/desk (stopped)" in text)
    assert "1 vGPU has a holder. 1 of them is kept for a VM that is stopped." in stopped

    # An open page shows when the reservation ends, which changes no object of a device.
    async with admin.browser.stream(f"/gpus/{A2}") as stream:
        await stream.next()
        await asyncio.to_thread(site.api.call, f"{VMS.format('default')}/desk", "DELETE")
        await stream.until(lambda event: "no holder" in event)


async def test_who_may_not_write_sees_the_plan_from_objects_and_stores_nothing(
    site: SimulatedSite, enter: Any
) -> None:
    ben = await enter(site.account("ben", rule(DEVICES, KINDS)))
    path = planned(A100[0], **{"vgpu:A100-8C": "3"})
    page = await ben.sees(path)
    assert "Worked out from the objects alone: you may not create and delete VGPULayouts" in page
    assert "configure" in page or "create A100-8C" in page
    assert "You may not create VGPULayouts." in page
    assert "9 of 10 left" not in page
    status, why = await ben.sends(path)
    assert status == 422
    assert "cannot create resource" in why
    with pytest.raises(HTTPError):
        layout_of(site, A100[0])
    assert "You may not patch SRIOVGPUDevices." in await ben.sees(f"/gpus/{A100[0]}")


async def test_a_layout_that_is_refused_says_why_and_is_withdrawn(
    admin: Person, site: SimulatedSite
) -> None:
    name = A100[2]
    spec = {
        "gpuSelector": {"names": [name]},
        "vgpus": [{"profile": "A100-40C", "count": 2}],
    }
    body = {"apiVersion": f"{DEVICES}/v1beta1", "kind": "VGPULayout", "spec": spec}
    site.make(f"{API}/vgpulayouts", body, name)
    shown = await admin.waits(f"/gpus/{name}", lambda text: "refuses VGPULayout" in text)
    assert "A100-40C=2 does not fit" in shown
    assert "Withdraw" in shown
    assert await admin.sends(f"/gpus/{name}/withdraw") == (303, f"/gpus/{name}")
    with pytest.raises(HTTPError):
        layout_of(site, name)
    await admin.waits(f"/gpus/{name}", lambda text: "Layouts that configure it None." in text)


async def test_gpu_instances_are_planned_where_the_agent_makes_them(
    admin: Person, site: SimulatedSite
) -> None:
    path = planned(A100[0], **{"vgpu:A100-3-20C": "1", "vgpu:A100-1-5C": "1"})
    shown = await admin.sees(path)
    assert "switch on MIG mode of 0000:17:00.0" in shown
    assert (await admin.sends(path))[0] == 303
    done = f"{A100[0]}: Done"
    await admin.waits(f"/gpus/{A100[0]}", lambda text: done in text and "MIGBacked" in text)
    then = planned(A100[0], **{"vgpu:A100-3-20C": "1", "vgpu:A100-2-10C": "1"})
    html = await admin.html(then)
    assert "new" in html
    text = await admin.sees(then)
    assert "create GPU instance 2g.10gb at 4" in text or "create GPU instance 2g.10gb at" in text
    assert "2g.10gb , 10 GiB at 20 GiB new A100-2-10C" in text


async def test_several_gpus_are_tried_first_and_each_has_its_result(
    admin: Person, site: SimulatedSite
) -> None:
    rows = [("row", name) for name in (A2, A100[1], A100[2])]
    mixed = f"/gpus/change?{urlencode([*rows, ('to', 'vgpus')])}"
    assert "The selected GPUs have no vGPU profile in common." in await admin.sees(mixed)
    path = f"/gpus/change?{urlencode([*rows[1:], ('to', 'vgpus'), ('vgpu:A100-20C', '3')])}"
    tried = await admin.sees(path)
    assert tried.count("Refused LayoutDoesNotFit: A100-20C=3 does not fit") == 2
    assert "No selected GPU would change." in tried
    path = f"/gpus/change?{urlencode([*rows, ('to', 'Passthrough')])}"
    tried = await admin.sees(path)
    assert "Apply to 2 GPUs" in tried
    status, report = await admin.sends(path)
    assert status == 200
    assert "sim-a100-1/0000:31:00.0 Done" in report
    assert f"sim-a2-1/0000:08:00.0 Refused VGPULayout {A2} configures" in report
    await admin.waits("/gpus?state=disabled", lambda text: "1-2 of 2" in text)


async def test_only_what_a_user_may_list_is_shown(site: SimulatedSite, enter: Any) -> None:
    eve = await enter(site.account("eve", rule("", ["nodes"], READ)))
    assert "You may not list sriovgpudevices." in await eve.sees("/gpus", status=403)
    for page in ("", "/vgpus", "/mode", "/withdraw"):
        await eve.html(f"/gpus/{A2}{page}", status=403)


async def test_the_list_says_of_each_node_what_its_gpus_lack(admin_of_troubled: Browser) -> None:
    text = await Person(admin_of_troubled).sees("/gpus")
    assert "n3 : no agent No agent of Laneway has reported on n3" in text
    failed = await Person(admin_of_troubled).sees("/gpus?state=failed")
    assert "1-1 of 1 (2 without filters)" in failed


async def test_a_gpu_whose_agent_does_not_answer_is_left_as_it_is(
    troubled: SeparateSite, admin_of_troubled: Browser
) -> None:
    person, name = Person(admin_of_troubled), "n2-000001000"
    spec = {"nodeName": "n2", "address": "0000:01:00.0"}
    body = {"apiVersion": f"{DEVICES}/v1beta1", "kind": "SRIOVGPUDevice", "spec": spec}
    troubled.make(f"{API}/sriovgpudevices", body, name)
    try:
        path = f"/gpus/change?row={name}&to=SameSize"
        why = "Refused The agent of n2 is not asked: the node is not ready"
        await person.waits(path, lambda text: why in text)
        status, report = await person.sends(path)
        assert (status, why in report) == (200, True)
        stored = troubled.api.call(f"{API}/sriovgpudevices/{name}")
        assert not stored["spec"].get("enabled")
    finally:
        troubled.api.call(f"{API}/sriovgpudevices/{name}", "DELETE")
