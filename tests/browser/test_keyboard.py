"""Whole ways through the interface without a mouse."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from support.chromium import Person

NODE = "sim-a2-2"
LAST = "0000:08:02.3"
CARD = f"{NODE}-000004001"


def test_to_a_device_among_many(administrator: Person) -> None:
    page = administrator.go("/vgpus")
    administrator.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    administrator.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()

    administrator.reach(page.get_by_role("searchbox"))
    page.keyboard.type(NODE)
    expect(page.get_by_role("row").filter(has_text="sim-a2-1")).to_have_count(0)
    expect(page.get_by_role("searchbox")).to_be_focused()

    name = page.get_by_role("columnheader", name="Virtual function")
    for order in ("ascending", "descending"):
        administrator.activate(name.get_by_role("link"))
        expect(name).to_have_attribute("aria-sort", order)
        expect(name.get_by_role("link")).to_be_focused()
    first = page.get_by_role("row").nth(1)
    expect(first).to_contain_text(LAST)

    administrator.reach(first.get_by_role("checkbox"))
    administrator.press("Space")
    expect(first.get_by_role("checkbox")).to_be_checked()
    administrator.reach(page.get_by_role("combobox", name="State"), key="Shift+Tab")
    page.keyboard.type("Enabled")
    expect(page.get_by_text("Nothing matches the filters.")).to_be_visible()
    expect(page.get_by_role("combobox", name="State")).to_be_focused()
    administrator.activate(page.get_by_role("link", name="Clear all"))
    expect(page.get_by_role("searchbox")).to_have_value("")


def test_to_vgpus_that_are_planned_and_applied(administrator: Person) -> None:
    page = administrator.go(f"/gpus?node={NODE}")
    administrator.activate(page.get_by_role("link", name="0000:08:00.0", exact=True))
    administrator.activate(page.get_by_role("link", name="Plan vGPUs"))
    administrator.reach(page.get_by_label("A2-4Q", exact=True))
    page.keyboard.type("2")
    plan = page.get_by_role("region", name="What would happen")
    expect(plan.get_by_text("Possible: ")).to_be_visible()
    expect(page.get_by_label("A2-4Q", exact=True)).to_be_focused()
    administrator.activate(plan.get_by_role("button", name="Apply: A2-4Q=2"))
    vgpus = page.get_by_role("region", name="vGPUs")
    expect(vgpus.get_by_text("vGPU not in use")).to_have_count(2)


def test_to_a_vm_with_a_card_that_is_claimed(administrator: Person) -> None:
    page = administrator.go("/pci")
    administrator.reach(page.get_by_role("searchbox"))
    page.keyboard.type(CARD)
    expect(page).to_have_url(re.compile(f"q={CARD}"))
    administrator.activate(page.get_by_role("link", name=CARD, exact=True))
    main = page.get_by_role("main")
    administrator.activate(main.get_by_role("link", name="Claim", exact=True))
    administrator.activate(page.get_by_role("button", name="Claim 1 device"))
    expect(page.get_by_text("VMs can request it as")).to_be_visible()

    menu = page.get_by_role("navigation", name="Pages", exact=True)
    administrator.activate(menu.get_by_role("link", name="Virtual machines"))
    administrator.activate(page.get_by_role("link", name="New VM"))
    for field, text in (
        (page.get_by_role("textbox", name="Name", exact=True), "router"),
        (page.get_by_label("Image of the container disk"), "registry.example/debian:12"),
        (page.get_by_role("spinbutton", name="I350"), "1"),
        (page.get_by_label("Node", exact=True).last, NODE),
    ):
        administrator.reach(field)
        page.keyboard.type(text)
    fits = page.get_by_role("region", name="Where it fits")
    expect(fits.get_by_text("1 node has all of it.")).to_be_visible()
    administrator.activate(page.get_by_role("button", name="Create"))
    expect(main.get_by_text("Running")).to_be_visible()
    expect(main.get_by_role("link", name=CARD)).to_be_visible()
