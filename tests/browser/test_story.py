"""The whole way of a person, from the printed address to a VM with its devices and their record."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from support.chromium import Person
from support.web_site import DEVICES, WebSite

NODE = "sim-l40s-1"
GPU, TITLE = f"{NODE}-000017000", f"{NODE}/0000:17:00.0"
CARD = f"{NODE}-000004001"
VM = "studio"


@pytest.fixture
def disabled(site: WebSite, administrator: Person) -> None:
    """The GPU as a new one: disabled, without virtual functions."""
    path = f"/apis/{DEVICES}/v1beta1/sriovgpudevices/{GPU}"
    site.api.call(path, "PATCH", {"spec": {"enabled": False}})
    expect(administrator.go(f"/gpus/{GPU}").get_by_text("Disabled").first).to_be_visible()


def test_from_a_disabled_gpu_to_a_vm_and_its_record(
    disabled: None, administrator: Person, site: WebSite
) -> None:
    page = administrator.go("/")
    enable(page)
    fill(page)
    claim(page)
    create(page)
    refuse(page)
    find(page)


def menu(page: Page, name: str) -> None:
    pages = page.get_by_role("navigation", name="Pages", exact=True)
    pages.get_by_role("link", name=name, exact=True).click()


def enable(page: Page) -> None:
    menu(page, "GPUs")
    page.locator(f"#gpu-{GPU}").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(TITLE)
    page.get_by_role("link", name="Enable, disable, mode").click()
    page.get_by_label("Shared by time, several sizes").check()
    plan = page.get_by_role("region", name="What would happen")
    expect(plan.get_by_role("listitem").first).to_be_visible()
    plan.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("main").get_by_text("Enabled", exact=True).first).to_be_visible()


def fill(page: Page) -> None:
    page.get_by_role("link", name="Plan vGPUs").click()
    large, small = (page.get_by_label(f"L40S-{size}Q", exact=True) for size in (24, 12))
    plan = page.get_by_role("region", name="What would happen")
    large.fill("1")
    expect(plan.get_by_text("Would still fit:")).to_be_visible()
    expect(plan.get_by_role("paragraph").filter(has_text="fit:")).to_contain_text("2 x L40S-12A/Q")
    small.fill("3")
    expect(plan.get_by_text("Error:")).to_be_visible()
    expect(plan.get_by_role("button", name="Apply")).to_be_disabled()
    small.fill("2")
    after = plan.get_by_role("figure", name="After the change")
    expect(after.get_by_role("img")).to_have_accessible_name(re.compile("48 GiB of 48 GiB"))
    expect(plan.locator("ol.gpu-steps").get_by_role("listitem")).to_have_count(3)
    plan.get_by_role("button", name="Apply: L40S-12Q=2, L40S-24Q=1").click()
    vgpus = page.get_by_role("region", name="vGPUs")
    expect(vgpus.get_by_text("vGPU not in use")).to_have_count(3)


def claim(page: Page) -> None:
    menu(page, "PCI devices")
    page.get_by_role("searchbox").fill(CARD)
    page.get_by_role("link", name=CARD, exact=True).click()
    page.get_by_role("main").get_by_role("link", name="Claim", exact=True).click()
    page.get_by_role("button", name="Claim 1 device").click()
    expect(page.get_by_text(f"OK: {CARD} is claimed.")).to_be_visible()
    claim = page.get_by_role("region", name="Conditions of the claim").first
    expect(claim.get_by_text("VMs can request it as")).to_be_visible()


def create(page: Page) -> None:
    menu(page, "Virtual machines")
    page.get_by_role("link", name="New VM").click()
    page.get_by_role("textbox", name="Name", exact=True).fill(VM)
    page.get_by_label("Image of the container disk").fill("registry.example/debian:12")
    page.get_by_role("spinbutton", name="L40S-12Q").fill("2")
    page.get_by_role("spinbutton", name="I350").fill("1")
    fits = page.get_by_role("region", name="Where it fits")
    expect(fits.get_by_text("1 node has all of it.")).to_be_visible()
    expect(fits.get_by_role("row").filter(has_text=NODE)).to_contain_text("Yes")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text(f"OK: VM default/{VM} is created and being started.")).to_be_visible()
    expect(page.get_by_text(f"on node {NODE}")).to_be_visible()
    devices = page.get_by_role("region", name="Devices").first
    expect(devices.get_by_text("as requested")).to_have_count(2)
    expect(devices.get_by_role("link", name=CARD)).to_be_visible()


def refuse(page: Page) -> None:
    devices = page.get_by_role("region", name="Devices").first
    devices.get_by_role("link", name=GPU[:-1]).first.click()
    expect(page.get_by_role("link", name=f"VM default/{VM}").first).to_be_visible()
    page.get_by_role("link", name="Plan the vGPUs of this GPU").click()
    page.get_by_label("L40S-12Q", exact=True).fill("1")
    plan = page.get_by_role("region", name="What would happen")
    expect(plan.get_by_text(f"VM default/{VM}").first).to_be_visible()
    expect(plan.get_by_role("button", name="Apply")).to_be_disabled()


def find(page: Page) -> None:
    menu(page, "Activity")
    page.get_by_label("Node", exact=True).select_option(NODE)
    page.get_by_label("Kind", exact=True).select_option("Hardware write")
    page.get_by_label("Requested by", exact=True).select_option("admin")
    rows = page.locator("tbody").get_by_role("row").filter(has_text="admin")
    for kind, name, writes in (
        ("SRIOVGPUDevice", GPU, 2),
        ("VGPUDevice", GPU[:-1], 3),
        ("PCIDeviceClaim", CARD, 1),
    ):
        found = rows.filter(has_text=re.compile(rf"\b{kind} {name}"))
        expect(found).to_have_count(writes)
    made = rows.filter(has_text=re.compile(r"\bVGPUDevice")).first
    made.get_by_text("1 step").click()
    expect(made.get_by_role("listitem")).to_contain_text("configure L40S-")
