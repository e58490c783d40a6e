"""The vGPUs and GPU instances of a GPU, planned as numbers are typed; what was shown is applied."""

from __future__ import annotations

from playwright.sync_api import expect

from support.chromium import Person, axe
from support.web_site import DEVICES, WebSite

NODE = "sim-a2-4"
GPU, ADDRESS = f"{NODE}-000008000", "0000:08:00.0"
API = f"/apis/{DEVICES}/v1beta1"
VGPU = f"{API}/vgpudevices/{NODE}-000008004"
DIVIDED = "sim-a100-1-0000ca000"


def test_a_plan_follows_what_is_typed_and_what_becomes_of_the_gpu(
    administrator: Person, site: WebSite
) -> None:
    page = administrator.go(f"/gpus?node={NODE}")
    page.get_by_role("link", name=ADDRESS).click()
    page.get_by_role("link", name="Plan vGPUs").click()
    plan = page.get_by_role("region", name="What would happen")
    expect(plan).to_be_visible()
    before = page.evaluate("history.length")
    larger, smaller = (page.get_by_label(name, exact=True) for name in ("A2-8Q", "A2-4Q"))
    larger.fill("1")
    expect(plan.get_by_role("img", name="8 GiB of 16 GiB")).to_be_visible()
    larger.fill("-1")
    expect(plan).to_contain_text("A2-8Q: -1 is not a number from 0 to 64.")
    expect(plan.get_by_role("button", name="Apply")).to_be_disabled()
    larger.fill("1")
    smaller.fill("2")
    expect(plan).to_contain_text("all vGPUs of 0000:08:00.0 must have one size")
    expect(plan.get_by_role("button", name="Apply")).to_be_disabled()
    expect(smaller).to_be_focused()
    page.get_by_label("Mode").select_option("MixedSize")
    expect(plan.get_by_role("img", name="16 GiB of 16 GiB")).to_be_visible()
    axe(page)

    # Meanwhile someone else takes a part of the GPU.
    site.api.call(VGPU, "PATCH", {"spec": {"enabled": True, "vGPUTypeName": "NVIDIA A2-16Q"}})
    expect(plan).to_contain_text("Single VGPUDevices configure the vGPUs")
    expect(smaller).to_have_value("2")
    assert page.evaluate("history.length") == before, "Back leads to what was before the plan"
    page.get_by_label("Replace vGPUs").check()
    page.get_by_role("button", name="Apply: A2-4Q=2, A2-8Q=1").click()

    expect(page.get_by_role("heading", level=1)).to_have_text(f"{NODE}/{ADDRESS}")
    expect(page.get_by_text("The layout is stored: A2-4Q=2, A2-8Q=1.")).to_be_visible()
    now = page.get_by_role("img", name="16 GiB of 16 GiB")
    expect(now).to_be_visible()
    expect(page.get_by_text(f"{GPU}: Done").first).to_be_visible()
    page.reload()
    expect(now).to_contain_text("A2-8Q")


def test_a_plan_of_gpu_instances_follows_what_becomes_of_the_gpu(
    administrator: Person, site: WebSite
) -> None:
    page = administrator.go(f"/gpus/{DIVIDED}/mode")
    choice = page.locator(".gpu-choice").filter(has=page.locator("[value=MIGBacked]"))
    expect(choice).not_to_contain_text("now")
    mode = {"spec": {"enabled": True, "mode": "MIGBacked"}}
    site.api.call(f"{API}/sriovgpudevices/{DIVIDED}", "PATCH", mode)
    expect(choice).to_contain_text("now")
    page = administrator.go("/mig")
    page.locator(f"#mig-{DIVIDED}").get_by_role("link").first.click()
    page.get_by_role("link", name="Enable…").click()
    plan = page.get_by_role("region", name="What would happen")
    count = page.get_by_label("3g.20gb", exact=True)
    count.fill("1")
    expect(plan).to_contain_text("create GPU instance 3g.20gb")

    # Meanwhile someone else makes the same GPU instance.
    path = f"{API}/migconfigurations/{DIVIDED}"
    asked = [
        {"id": one["id"], "name": one["name"], "requested": int(one["name"] == "MIG 3g.20gb")}
        for one in site.api.call(path)["status"]["profileStatus"]
    ]
    site.api.call(path, "PATCH", {"spec": {"enabled": True, "profileSpec": asked}})
    expect(plan).to_contain_text("The GPU has these GPU instances already")
    expect(count).to_have_value("1")
