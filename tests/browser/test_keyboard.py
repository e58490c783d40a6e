"""Whole ways through the interface without a mouse."""

from __future__ import annotations

from playwright.sync_api import expect

from support.chromium import Person

NODE = "sim-a2-2"
LAST = "0000:08:02.3"


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
