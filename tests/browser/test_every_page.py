"""What holds for every page: anyone can perceive it and reach all of it, on any screen."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from support.chromium import PLACES, Person, axe

NARROW = 320
"""The width of a window of 1280 at 400 %, and of a small phone."""


@pytest.mark.parametrize("place", PLACES)
def test_anyone_can_read_it_on_any_screen(administrator: Person, place: str) -> None:
    page = administrator.go(place)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    axe(page)
    page.set_viewport_size({"width": NARROW, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, "scrolls sideways"


def test_the_menu_leads_everywhere_by_keyboard(administrator: Person) -> None:
    page = administrator.go("/")
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    for name in menu.get_by_role("link").all_inner_texts():
        administrator.activate(menu.get_by_role("link", name=name, exact=True))
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(menu.get_by_role("link", name=name, exact=True)).to_have_attribute(
            "aria-current", "page"
        )
        administrator.press("Tab")


def test_a_theme_that_was_chosen_stays(administrator: Person) -> None:
    page = administrator.go("/vgpus")
    html = page.locator("html")
    page.get_by_role("button", name="Dark").click()
    expect(html).to_have_class("pf-v6-theme-dark")
    page.reload()
    expect(html).to_have_class("pf-v6-theme-dark")
    page.get_by_role("button", name="System").click()
    expect(html).not_to_have_class("pf-v6-theme-dark")
    page.emulate_media(color_scheme="dark")
    expect(html).to_have_class("pf-v6-theme-dark")
