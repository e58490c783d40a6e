"""vGPU devices and GPU instances in the interface, by the whole of `laneway up`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from support.signing_in import Browser
from support.web_pages import Person
from support.web_site import DEVICES, READ, SimulatedSite, rule

ROOT = "/apis/devices.harvesterhci.io/v1beta1"
A2, A100 = "sim-a2-1-000008000", "sim-a100-1-000017000"
FUNCTIONS = [f"sim-a2-1-0000080{end}" for end in ("04", "05", "06", "07", "10")]
SMALL = "NVIDIA A2-4Q"
OF_A2 = f"/vgpus?parentSriov={A2}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSite]:
    found = SimulatedSite(tmp_path_factory.mktemp("vgpus") / "data", ["a2", "a100"])
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
async def arrive(site: SimulatedSite) -> AsyncIterator[Callable[[str], Awaitable[Person]]]:
    browsers = []

    async def arrive(token: str) -> Person:
        browser = Browser(site.address)
        browsers.append(browser)
        assert (await browser.sign_in(token)).status == 303
        return Person(browser)

    yield arrive
    for browser in browsers:
        await browser.http.close()


@pytest.fixture
async def admin(site: SimulatedSite, arrive: Any) -> Person:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    return await arrive(site.account("person", everything))


def change(do: str, names: list[str], **more: str) -> str:
    query = [("do", do), *(("row", name) for name in names), *more.items()]
    return "/vgpus/change?" + "&".join(f"{key}={value}" for key, value in query)


def rows(names: list[str]) -> list[tuple[str, str]]:
    return [("row", name) for name in names]


async def test_many_are_enabled_at_once_each_with_its_result_and_the_full_gpu_says_so(
    admin: Person,
) -> None:
    await admin.waits(OF_A2, lambda text: text.count("Disabled") == 16)
    blank = change("enable", FUNCTIONS)
    assert "A2-4Q 4 left" in await admin.sees(blank)
    assert "Choose a profile first." in await admin.sees(blank)
    assert (await admin.sends(blank, rows(FUNCTIONS)))[0] == 422

    # What would become of each is known before: they share the room of one GPU.
    chosen = change("enable", FUNCTIONS, profile="NVIDIA+A2-4Q")
    tried = await admin.sees(chosen)
    assert tried.count("Possible") == 4
    assert "The GPU has room for 4 more of A2-4Q, which functions before this one take." in tried
    page = await admin.html(chosen)
    assert page.count("data-row") == 5
    assert page.count("checked>") == 5  # the profile, and the four that are possible

    status, report = await admin.sends(chosen, rows(FUNCTIONS))
    assert status == 200
    assert report.count("Done") == 4
    assert "Refused VGPUTypeName NVIDIA A2-4Q is not a valid profile" in report

    # The others of this GPU are exhausted, with the reason; those of another GPU are not.
    full = await admin.waits(
        OF_A2,
        lambda text: (
            text.count("Enabled A2-4Q") == 0
            and text.count("No room The GPU has A2-4Q=4: no room for more.") == 12
        ),
    )
    assert "sim-a100-1" not in full
    assert "No room" not in (await admin.sees(f"/vgpus?parentSriov={A100}")).partition("State")[2]
    grouped = await admin.sees("/vgpus?group=parentSriov")
    assert "16 functions: 4 enabled · 12 no room" in grouped
    one = await admin.sees(f"/vgpus/{FUNCTIONS[4]}")
    assert "No room The GPU has A2-4Q=4: no room for more." in one
    closed = await admin.sees(change("enable", FUNCTIONS[4:]))
    assert "The GPU has A2-4Q=4, and no room for another of this profile." in closed


async def test_a_live_update_keeps_the_filter_by_gpu(admin: Person, site: SimulatedSite) -> None:
    name = f"{A100[:-3]}004"
    spec = {"spec": {"enabled": True, "vGPUTypeName": "GRID A100-4C"}}
    async with admin.browser.stream(f"/vgpus?parentSriov={A100}") as stream:
        await asyncio.to_thread(site.api.call, f"{ROOT}/vgpudevices/{name}", "PATCH", spec)
        text = await stream.until(lambda event: "A100-4C" in event)
    assert f'id="vgpu-{name}"' in text
    assert 'id="vgpu-sim-a2-1' not in text
    off = {"spec": {"enabled": False}}
    await asyncio.to_thread(site.api.call, f"{ROOT}/vgpudevices/{name}", "PATCH", off)


async def test_what_a_vm_has_is_not_taken_and_is_named_only_to_users_who_may_see_it(
    admin: Person, site: SimulatedSite, arrive: Any
) -> None:
    await enable(admin, site, FUNCTIONS[:4])
    device = {"name": "gpu", "deviceName": "nvidia.com/NVIDIA_A2-4Q"}
    template = {"spec": {"domain": {"devices": {"gpus": [device]}, "memory": {"guest": "1Gi"}}}}
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "spec": {"runStrategy": "Always", "template": template},
    }
    site.make("/apis/kubevirt.io/v1/namespaces/default/virtualmachines", vm, "secret")
    await admin.waits(OF_A2, lambda text: "VM default/secret" in text)
    found = {name: await admin.sees(f"/vgpus/{name}") for name in FUNCTIONS[:4]}
    [held] = [name for name, text in found.items() if "VM default/secret" in text]
    assert "is in use with VM default/secret" in found[held]
    assert 'href="/vms/default/secret"' in await admin.html(f"/vgpus/{held}")

    # All of a GPU: a page says what would become of each, and one refusal stops no other.
    everything = f"/vgpus/change?do=disable&parentSriov={A2}"
    asked = await admin.sees(everything)
    assert asked.count("Possible Its A2-4Q is removed.") == 3
    assert f"Refused device {held} is in use with VM default/secret" in asked
    _, report = await admin.sends(everything, rows(FUNCTIONS[:4]))
    assert report.count("Done") == 3
    assert "is in use with VM default/secret" in report
    await admin.waits(OF_A2, lambda text: text.count("A2-4Q") == 1)

    rules = [
        rule(DEVICES, ["vgpudevices"], [*READ, "patch"]),
        rule(DEVICES, ["sriovgpudevices"]),
    ]
    ann = await arrive(site.account("ann", *rules))
    for path in (OF_A2, f"/vgpus/{held}"):
        assert "a VM in another namespace" in await ann.sees(path)
        assert "secret" not in await ann.html(path)
    assert "secret" not in (await ann.sees("/vgpus?q=secret")).partition("Held by")[2]
    site.api.call("/apis/kubevirt.io/v1/namespaces/default/virtualmachines/secret", "DELETE")
    await admin.waits(OF_A2, lambda text: "VM default/secret" not in text)


async def test_a_function_of_a_gpu_that_a_layout_configures_leads_to_its_plan(
    admin: Person, site: SimulatedSite
) -> None:
    gpu = "sim-a100-1-0000ca000"
    layout = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPULayout",
        "spec": {
            "gpuSelector": {"names": [gpu]},
            "vgpus": [{"profile": "GRID A100-20C", "count": 2}],
        },
    }
    site.make(f"{ROOT}/vgpulayouts", layout, gpu)
    name = "sim-a100-1-0000ca004"
    shown = await admin.waits(
        f"/vgpus/{name}", lambda text: "would undo" in text and "Enabled A100-20C" in text
    )
    assert f"VGPULayout {gpu} configures the vGPUs of GPU {gpu} and would undo this change" in shown
    assert f'href="/gpus/{gpu}/vgpus"' in await admin.html(f"/vgpus/{name}")
    refused = await admin.sees(change("disable", [name]))
    assert f"VGPULayout {gpu} configures the vGPUs" in refused
    assert (await admin.sends(change("disable", [name]), rows([name])))[0] == 422


async def enable(admin: Person, site: SimulatedSite, names: list[str]) -> None:
    spec = {"spec": {"enabled": True, "vGPUTypeName": SMALL}}
    for name in names:
        site.api.call(f"{ROOT}/vgpudevices/{name}", "PATCH", spec)
    await admin.waits("/vgpus?state=enabled&q=A2-4Q", lambda text: f"1-{len(names)} of" in text)


# ------------------------------------------------------------------------------------------ MIG


async def test_gpu_instances_are_planned_together_and_none_with_a_vgpu_is_destroyed(
    admin: Person, site: SimulatedSite
) -> None:
    gate = await admin.html("/mig")
    assert "First enable a GPU that supports MIG" in gate
    assert 'href="/gpus"' in gate
    mode = {"spec": {"enabled": True, "mode": "MIGBacked"}}
    site.api.call(f"{ROOT}/sriovgpudevices/{A100}", "PATCH", mode)
    await admin.waits("/mig", lambda text: "sim-a100-1/0000:17:00.0" in text)
    one, plan = f"/mig/{A100}", f"/mig/{A100}/change"
    await admin.waits(one, lambda text: "Disabled" in text and "What still fits" in text)

    # Each number is possible alone, and they are not together.
    much = f"{plan}?plan=1&mig:3g.20gb=2&mig:2g.10gb=1"
    why = "1 x MIG 2g.10gb, 2 x MIG 3g.20gb do not fit"
    assert why in await admin.sees(much)
    status, again = await admin.sends(much)
    assert (status, why in again) == (422, True)
    assert not site.api.call(f"{ROOT}/migconfigurations/{A100}")["spec"].get("enabled")

    # A place in the picture leads to the plan with one more of its profile.
    page = await admin.html(f"{plan}?plan=1&mig:3g.20gb=1")
    assert f'href="{plan}?plan=1&amp;mig%3A3g.20gb=1&amp;mig%3A2g.10gb=1"' in page
    fits = f"{plan}?plan=1&mig:3g.20gb=1&mig:2g.10gb=1"
    assert "create GPU instance 2g.10gb at 4" in await admin.sees(fits)
    assert await admin.sends(fits) == (303, one)
    await admin.waits(one, lambda text: "Enabled 2g.10gb=1, 3g.20gb=1" in text)

    vgpu = {"spec": {"enabled": True, "vGPUTypeName": "GRID A100-3-20C"}}
    site.api.call(f"{ROOT}/vgpudevices/{A100[:-3]}004", "PATCH", vgpu)
    await admin.waits(one, lambda text: "it has A100-3-20C=1" in text)
    whole = await admin.sees(f"{plan}?plan=1&mig:7g.40gb=1")
    assert "vGPU GRID A100-3-20C on 0000:17:00.4 is in its GPU instance" in whole
    less = await admin.sees(f"{plan}?plan=1&mig:3g.20gb=1")
    assert "1 GPU instance is destroyed 2g.10gb, id" in less
    off = await admin.sees(f"{plan}?off=1")
    assert "cannot disable MIGConfiguration" in off
    assert (await admin.sends(f"{plan}?off=1"))[0] == 422
