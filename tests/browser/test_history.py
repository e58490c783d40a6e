"""The history as a person reads it: who held a vGPU, filtered, on any screen."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from support.chromium import Person, axe
from support.holding import configure, run_vm, stop_vm, take_back
from support.web_site import WebSite

VGPU = "sim-a2-3-000008006"
FIRST, SECOND = "history-first", "history-second"


def test_a_person_sees_live_who_holds_a_vgpu_and_finds_who_held_it(
    administrator: Person, site: WebSite
) -> None:
    configure(site, VGPU)
    page = administrator.go("/")
    pages = page.get_by_role("navigation", name="Pages", exact=True)
    pages.get_by_role("link", name="History", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("History")
    run_vm(site, "default", FIRST)
    first = page.get_by_role("row").filter(has_text=f"VM default/{FIRST}")
    expect(first).to_contain_text("now")
    device = first.get_by_role("link").nth(1).inner_text()
    stop_vm(site, "default", FIRST)
    expect(first.get_by_role("time")).to_have_count(2)
    expect(first.get_by_role("time").first).to_have_text(re.compile(r" (UTC|GMT)"))

    page.get_by_label("VM", exact=True).fill(f"default/{SECOND}")
    page.get_by_label("VM", exact=True).press("Enter")
    expect(page.get_by_text("Nothing matches the filters.")).to_be_visible()
    page.get_by_role("link", name="Clear all").click()
    expect(first).to_be_visible()
    page.get_by_label("Device", exact=True).fill(device)
    page.get_by_label("Device", exact=True).press("Enter")
    expect(first).to_be_visible()
    expect(page).to_have_url(f"{site.address}/history?device={device}")
    axe(page)
    first.get_by_role("link", name=f"VM default/{FIRST}").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(FIRST)
    take_back(site, VGPU, "default", FIRST)
