"""Pages follow what happens, and never take from a person what they have typed or chosen."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, Route, expect

from support.chromium import Person
from support.web_site import WebSite

NODE = "sim-a2-3"
VGPU, OTHER = f"{NODE}-000008004", f"{NODE}-000008005"
PROFILE = "NVIDIA A2-4Q"


def row(page: Page, name: str) -> Locator:
    return page.locator(f"tr#vgpu-{name}")


def desire(site: WebSite, name: str, **spec: object) -> None:
    path = f"/apis/devices.harvesterhci.io/v1beta1/vgpudevices/{name}"
    site.api.call(path, "PATCH", {"spec": spec})


def test_a_change_elsewhere_is_seen_and_nothing_is_lost(
    administrator: Person, site: WebSite
) -> None:
    page = administrator.go("/vgpus")
    page.get_by_label("Node", exact=True).select_option(NODE)
    expect(page.get_by_role("row").filter(has_text="sim-a100")).to_have_count(0)
    box = row(page, OTHER).get_by_role("checkbox")
    box.check()
    search = page.get_by_label("Search", exact=True)
    search.focus()
    page.keyboard.type(NODE[:4])
    expect(page).to_have_url(f"{site.address}/vgpus?q={NODE[:4]}&node={NODE}")

    desire(site, VGPU, enabled=True, vGPUTypeName=PROFILE)
    expect(row(page, VGPU)).to_contain_text("Enabled")
    expect(row(page, VGPU)).to_contain_text("A2-4Q")
    expect(search).to_be_focused()
    expect(search).to_have_value(NODE[:4])
    expect(box).to_be_checked()

    desire(site, VGPU, enabled=False)
    expect(row(page, VGPU)).to_contain_text("Disabled")
    expect(box).to_be_checked()


def test_back_and_reload_show_the_same_again(administrator: Person, site: WebSite) -> None:
    page = administrator.go("/vgpus")
    page.get_by_label("Node", exact=True).select_option(NODE)
    expect(page).to_have_url(f"{site.address}/vgpus?node={NODE}")
    page.get_by_label("State", exact=True).select_option("enabled")
    expect(page.get_by_text("Nothing matches the filters.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("State", exact=True)).to_have_value("enabled")
    page.go_back()
    expect(page.get_by_label("State", exact=True)).to_have_value("")
    expect(page.get_by_label("Node", exact=True)).to_have_value(NODE)
    expect(row(page, VGPU)).to_be_visible()


def test_two_filters_chosen_at_once_both_count(administrator: Person) -> None:
    page = administrator.go("/vgpus")
    slow: list[Route] = []

    def answer(route: Route) -> None:
        if "state=failed" in route.request.url:
            route.continue_()
        else:
            slow.append(route)

    page.route("**/vgpus?*", answer)
    page.get_by_label("Node", exact=True).select_option(NODE)
    while not slow:
        page.wait_for_timeout(20)
    page.get_by_label("State", exact=True).select_option("failed")
    slow[0].continue_()
    expect(page).to_have_url(re.compile(rf"node={NODE}.*state=failed"))
    expect(page.get_by_label("State", exact=True)).to_have_value("failed")


def out_of_sight(page: Page, *, hidden: bool) -> None:
    """Browsers without a window have no page out of sight, so they are told that one is."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_more_pages_are_open_than_a_browser_has_connections_and_each_catches_up(
    administrator: Person, site: WebSite
) -> None:
    first = administrator.go(f"/vgpus?node={NODE}")
    pages = [first]
    for _ in range(7):
        out_of_sight(pages[-1], hidden=True)
        page = administrator.page.context.new_page()
        page.goto(f"{site.address}/vgpus?node={NODE}")
        pages.append(page)
    desire(site, VGPU, enabled=True, vGPUTypeName=PROFILE)
    expect(row(pages[-1], VGPU)).to_contain_text("A2-4Q")
    expect(row(first, VGPU)).not_to_contain_text("A2-4Q")

    out_of_sight(first, hidden=False)
    expect(row(first, VGPU)).to_contain_text("A2-4Q")
    desire(site, VGPU, enabled=False)
    expect(row(first, VGPU)).to_contain_text("Disabled")


def test_what_was_asked_on_a_page_is_not_put_into_the_next(administrator: Person) -> None:
    page = administrator.go("/vms/new")
    slow: list[Route] = []

    def hold(route: Route) -> None:
        slow.append(route)

    page.route("**/vms/new?*", hold)
    page.get_by_role("textbox", name="Name", exact=True).fill("late")
    while not slow:
        page.wait_for_timeout(20)
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Virtual machines")
    for route in slow:
        route.continue_()
    page.get_by_role("searchbox").fill("late")
    expect(page).to_have_url(re.compile("/vms.q=late"))
    expect(page.locator("#connector")).to_have_attribute(
        "sse-connect", re.compile("page=/vms%3Fq%3Dlate&")
    )


def test_a_page_whose_server_is_silent_says_so_until_it_speaks(
    administrator: Person, site: WebSite
) -> None:
    page = administrator.page
    page.clock.install()
    administrator.go(f"/vgpus?node={NODE}")
    notice = page.get_by_text("The web interface does not answer")
    expect(notice).to_be_hidden()
    page.clock.fast_forward(60_000)
    expect(notice).to_be_visible()
    desire(site, OTHER, enabled=True, vGPUTypeName=PROFILE)
    expect(row(page, OTHER)).to_contain_text("A2-4Q")
    expect(notice).to_be_hidden()
    desire(site, OTHER, enabled=False)
