"""1,000 nodes with 8,000 vGPUs, made objects with markup in all that takes a text."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from laneway.web.pages import PAGES
from support.chromium import Person, Visit
from support.many_nodes import EACH, MARKUP, NODES, ODD, node
from support.web_site import DEVICES, SeparateSite

AWAY = "The API server does not answer"
TAKEN = "taken"
SEEN = "document.title='taken'"
"""What every text of the odd objects has, also where it is shortened."""
VMS = "virtualmachines/default"
OBJECTS = (
    "sriovgpudevices",
    "vgpudevices",
    "vgpulayouts",
    "migconfigurations",
    "pcidevices",
    "pcideviceclaims",
    "usbdevices",
    "usbdeviceclaims",
    "sriovnetworkdevices",
)
CHANGES = (
    f"/gpus/change?row={ODD}",
    f"/gpus/{ODD}/vgpus?plan=1",
    f"/vgpus/change?do=enable&row={ODD}",
    f"/pci/change?do=release&row={ODD}",
    f"/usb/change?do=release&row={ODD}",
)
FIELDS = ("q", "node", "state", "group", "sort", "page", "parentSriov", "profile")


@pytest.fixture
def administrator(visit: Visit, large_site: SeparateSite) -> Person:
    person = visit(large_site)
    person.sign_in(large_site.administrator)
    return person


def vgpu_of(name: str) -> str:
    return f"{name}-000001000"


def configure(site: SeparateSite, name: str) -> None:
    """As its agent reports a vGPU that it has configured."""
    path = f"/apis/{DEVICES}/v1beta1/vgpudevices/{vgpu_of(name)}/status"
    status = {"vGPUStatus": "vGPUConfigured", "configureVGPUTypeName": "NVIDIA A2-4Q"}
    site.api.call(path, "PATCH", {"status": status})


def test_tables_are_paged_filtered_and_live(
    administrator: Person, large_site: SeparateSite
) -> None:
    name = node(700)
    page = administrator.go("/vgpus")
    expect(page.get_by_text(f"of {NODES * EACH + 1}")).to_be_visible()
    assert page.get_by_role("row").count() < 200
    page.get_by_role("searchbox").fill(name)
    expect(page.get_by_text(f"{EACH} of {EACH}")).to_be_visible()
    row = page.locator(f"tr#vgpu-{vgpu_of(name)}")
    expect(row).not_to_contain_text("A2-4Q")
    configure(large_site, name)
    expect(row).to_contain_text("A2-4Q")


def test_gpus_nodes_and_the_overview_show_a_part(administrator: Person) -> None:
    page = administrator.go("/gpus")
    expect(page.get_by_text(f"of {NODES + 1}")).to_be_visible()
    page.get_by_role("searchbox").fill(node(710))
    row = page.get_by_role("row").filter(has_text="0000:02:00.0")
    expect(row).to_have_count(1)
    page.get_by_role("link", name=node(710), exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(node(710))
    page = administrator.go("/nodes?q=" + node(710))
    expect(page.get_by_role("row").filter(has_text=node(710))).to_have_count(1)
    page = administrator.go("/")
    expect(page.get_by_role("link", name=f"{NODES + 1:,}", exact=True)).to_be_visible()
    assert page.get_by_role("row").count() < 200


def places() -> Iterator[str]:
    """Every page, of objects that have markup in all that takes a text."""
    values = {"name": ODD, "namespace": "default", "plural": "vgpudevices"}
    values |= {"cluster": ODD, "pool": ODD}
    for page in PAGES:
        if page.pattern.startswith("/nodes/"):
            yield f"/nodes/{node(0)}"
        elif page.pattern == "/objects/{plural}/{name}":
            yield from (f"/objects/{plural}/{ODD}" for plural in OBJECTS)
        else:
            yield page.pattern.format_map(values).replace("vgpudevices/default", VMS)


def test_texts_of_objects_and_addresses_are_only_shown(administrator: Person) -> None:
    query = quote(MARKUP)
    fields = "&".join(f"{name}={query}" for name in FIELDS)
    for place in (*places(), *CHANGES, f"/vgpus?{fields}", f"/{query}", f"/gpus/{query}"):
        page = administrator.go(place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.title() != TAKEN
        assert page.locator("img[src=x]").count() == 0, place
    for place in ("/gpus", "/vgpus", "/pci", "/usb", "/networks", "/mig", "/activity", "/vms"):
        page = administrator.go(f"{place}?q={ODD}")
        expect(page.get_by_role("main")).to_contain_text(SEEN)
        page = administrator.go(f"{place}?q={query}")
        expect(page.get_by_role("searchbox")).to_have_value(MARKUP)
        assert page.locator("img[src=x]").count() == 0, place


def test_a_page_outlives_the_api_server(administrator: Person, large_site: SeparateSite) -> None:
    page = administrator.go("/vgpus?q=" + node(701))
    row = page.locator(f"tr#vgpu-{vgpu_of(node(701))}")
    expect(row).to_be_visible()
    large_site.stop_server()
    try:
        expect(page.get_by_text(AWAY)).to_be_visible()
        expect(row).to_be_visible()
        page.reload()
        expect(page.get_by_text(AWAY)).to_be_visible()
        expect(row).to_be_visible()
    finally:
        large_site.start_server()
    expect(page.get_by_text(AWAY)).to_be_hidden()
    configure(large_site, node(701))
    expect(row).to_contain_text("A2-4Q")
