"""What a user sees and may do is what the API server allows this user."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from support.chromium import Arrive, axe
from support.web_site import DEVICES, READ, WebSite, rule

KUBEVIRT = "kubevirt.io"
MINE, OTHER = "team-a", "team-b"
VGPU = "sim-a2-1-000008023"


@pytest.fixture(scope="module")
def vms(site: WebSite) -> None:
    """A stopped VM in each of two namespaces."""
    for namespace in (MINE, OTHER):
        site.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace"}, namespace)
        domain = {"devices": {}, "resources": {"requests": {"memory": "1Gi"}}}
        spec = {"runStrategy": "Halted", "template": {"spec": {"domain": domain}}}
        vm = {"apiVersion": f"{KUBEVIRT}/v1", "kind": "VirtualMachine", "spec": spec}
        path = f"/apis/{KUBEVIRT}/v1/namespaces/{namespace}/virtualmachines"
        site.make(path, vm, f"vm-of-{namespace}")


def test_who_may_not_list_devices_reads_so_and_sees_none(arrive: Arrive, site: WebSite) -> None:
    person = arrive(site.account("visitor", rule("", ["nodes"])))
    page = person.go("/vgpus")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")
    expect(page.get_by_role("main")).to_contain_text("You may not list vgpudevices")
    assert "sim-a2-1-" not in page.content()
    axe(page)


def test_who_sees_one_namespace_sees_no_other(arrive: Arrive, site: WebSite, vms: None) -> None:
    resources = ["virtualmachines", "virtualmachineinstances"]
    person = arrive(site.account("member", rule(KUBEVIRT, resources), namespace=MINE))
    page = person.go("/vms")
    expect(page.get_by_role("row").filter(has_text=f"vm-of-{MINE}")).to_be_visible()
    for place in ("/vms", "/", "/activity", "/vms/new", f"/vms?namespace={OTHER}"):
        page = person.go(place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert f"vm-of-{OTHER}" not in page.content(), place
    page = person.go(f"/vms/{OTHER}/vm-of-{OTHER}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    page = person.go(f"/vms/{MINE}/vm-of-{MINE}")
    for name in ("Start", "Delete"):
        button = page.get_by_role("button", name=name).or_(page.get_by_role("link", name=name))
        expect(button).to_have_attribute("aria-disabled", "true")


def test_who_may_not_write_reads_why_before_trying(arrive: Arrive, site: WebSite) -> None:
    person = arrive(site.account("reader", rule(DEVICES, ["*"], READ), rule("", ["nodes"])))
    page = person.go("/vgpus?node=sim-a2-1")
    expect(page.locator(f"#vgpu-{VGPU}")).to_be_visible()
    expect(page.get_by_text("You may not patch VGPUDevices")).to_be_visible()
    page = person.go(f"/vgpus/{VGPU}")
    enable = page.get_by_role("link", name="Enable…")
    expect(enable).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_text("You may not patch VGPUDevices").first).to_be_visible()
    enable.click(force=True)
    expect(page).to_have_url(f"{site.address}/vgpus/{VGPU}")
    page = person.go("/gpus/sim-a2-1-000008000/vgpus?plan=1")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    expect(page.get_by_text("You may not create VGPULayouts")).to_be_visible()
    page = person.go("/pci/change?do=claim&row=sim-a2-1-000004001")
    expect(page.get_by_role("button", name="Claim")).to_be_disabled()
    expect(page.get_by_role("row").filter(has_text="sim-a2-1-000004001")).to_contain_text(
        "cannot create resource"
    )
