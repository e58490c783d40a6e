"""What a user sees is what the API server allows this user."""

from __future__ import annotations

from playwright.sync_api import expect

from support.chromium import Arrive, axe
from support.web_site import DEVICES, WebSite, rule


def test_who_may_not_list_devices_reads_so_and_sees_none(arrive: Arrive, site: WebSite) -> None:
    person = arrive(site.account("visitor", rule("", ["nodes"])))
    page = person.go("/vgpus")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")
    expect(page.get_by_role("main")).to_contain_text("You may not list vgpudevices")
    assert "sim-a2-1-" not in page.content()
    axe(page)


def test_who_may_list_devices_sees_them(arrive: Arrive, site: WebSite) -> None:
    person = arrive(site.account("reader", rule(DEVICES, ["vgpudevices"])))
    page = person.go("/vgpus?node=sim-a2-1")
    expect(page.get_by_role("row").filter(has_text="0000:08:00.4")).to_be_visible()
