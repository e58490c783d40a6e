"""A VM with devices is made at a form that says, while it is filled, where the VM fits."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from support.chromium import Person, axe
from support.web_site import WebSite

VGPU = "sim-a2-1-000008004"
RESOURCE = "nvidia.com/NVIDIA_A2-16Q"
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"


def other() -> dict[str, object]:
    """A VM of another user, which takes the only vGPU there is."""
    gpus = [{"name": "gpu", "deviceName": RESOURCE}]
    spec = {"domain": {"devices": {"gpus": gpus}, "memory": {"guest": "1Gi"}}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "spec": {"runStrategy": "Always", "template": {"spec": spec}},
    }


def test_the_answer_follows_the_form_and_the_cluster_and_nothing_typed_is_lost(
    administrator: Person, site: WebSite
) -> None:
    site.api.call(
        f"/apis/devices.harvesterhci.io/v1beta1/vgpudevices/{VGPU}",
        "PATCH",
        {"spec": {"enabled": True, "vGPUTypeName": "NVIDIA A2-16Q"}},
    )
    page = administrator.go("/vms/new")
    # What can be chosen is as it was when the form was opened.
    number = page.get_by_role("spinbutton", name="A2-16Q")
    while not number.count():
        page.reload()
    name = page.get_by_role("textbox", name="Name", exact=True)
    name.fill("viewer")
    page.get_by_label("Image of the container disk").fill("registry.example/debian:12")
    answer = page.locator("#live-fit")
    number.fill("2")
    expect(answer).to_contain_text("No node has all of it now.")
    expect(answer.get_by_role("row").filter(has_text="sim-a2-1")).to_contain_text("too few A2-16Q")
    number.fill("1")
    expect(answer).to_contain_text("1 node has all of it.")
    expect(page).to_have_url(re.compile(r"name=viewer&(?!.*csrf)"))
    axe(page)

    name.focus()
    page.keyboard.press("End")
    page.keyboard.type("-2")
    site.make(VMS, other(), "taker")
    row = answer.get_by_role("row").filter(has_text="sim-a2-1")
    expect(row).to_contain_text("1 used by VM default/taker")
    expect(name).to_have_value("viewer-2")
    expect(name).to_be_focused()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert").filter(has_text=f"{RESOURCE}: 1 requested")).to_be_visible()
    expect(name).to_have_value("viewer-2")

    site.api.call(f"{VMS}/taker", "DELETE")
    expect(page.locator("#live-fit")).to_contain_text("1 node has all of it.")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("default/viewer-2")
    expect(page.get_by_text("as requested")).to_be_visible()
    expect(page.get_by_role("link", name=VGPU)).to_be_visible()
    axe(page)

    page.get_by_role("link", name="Change devices").click()
    expect(page.get_by_role("checkbox", name="Detach a2-16q-1")).to_be_disabled()
    expect(page.get_by_text("KubeVirt detaches no device from a running VM")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Delete").click()
    expect(page.get_by_text("These devices become free for other VMs:")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{site.address}/vms")
