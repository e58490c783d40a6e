"""A machine pool gets vGPUs in a form that says what happens, and its page follows the machines."""

from __future__ import annotations

from playwright.sync_api import expect

from support.chromium import Person, axe
from support.guest_pools import CLUSTERS, make_cluster, until_advertised, until_running
from support.web_site import WebSite

NODE = "sim-a2-5"
VGPUS = [f"{NODE}-000008004", f"{NODE}-000008005"]
PROFILE, RESOURCE = "NVIDIA A2-8C", "nvidia.com/NVIDIA_A2-8C"


def test_a_pool_gets_vgpus_and_its_page_follows_the_machines(
    administrator: Person, site: WebSite
) -> None:
    until_advertised(site, VGPUS, PROFILE)
    make_cluster(site, "shop", {"render": {"quantity": 1}})
    [plain] = until_running(site, "render", 1)

    page = administrator.go("/pools?cluster=shop")
    row = page.get_by_role("row").filter(has_text="render")
    expect(row).to_contain_text("1 of 1 running")
    axe(page)
    row.get_by_role("link", name="shop/render").click()
    expect(page.get_by_role("row").filter(has_text=plain)).to_contain_text("running")
    page.get_by_role("link", name="Change").click()

    answer = page.locator("#live-fit")
    expect(answer).to_contain_text("This is what the pool has already.")
    types = page.get_by_label("Device type", exact=True)
    expect(types).to_have_count(1)
    assert page.get_by_role("option", name="A2-8C (8 GiB): 2 available").count()
    types.select_option(RESOURCE)
    expect(types).to_have_count(2)
    said = f"2 free, 0 in machines of this cluster · {NODE}: 2"
    expect(page.get_by_text(said)).to_be_visible()
    expect(answer).to_contain_text("1 machine is replaced")
    expect(answer.get_by_role("listitem")).to_have_text([plain])

    machines = page.get_by_label("Machines", exact=True)
    machines.fill("3")
    expect(answer).to_contain_text("1 requested by each of 3 VMs, and there is enough for 2")
    axe(page)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    expect(machines).to_have_value("3")
    expect(types.first).to_have_value(RESOURCE)
    machines.fill("2")
    expect(answer).to_contain_text("All machines of the cluster can start.")
    page.get_by_role("button", name="Save").click()

    expect(page.get_by_text("Machine pool shop/render is changed.")).to_be_visible()
    for name in VGPUS:
        expect(page.get_by_role("link", name=name)).to_be_visible()
    expect(page.get_by_text("stays")).to_have_count(2)
    expect(page.get_by_text("2 of 2 running")).to_be_visible()
    expect(page.get_by_text(plain)).to_have_count(0)
    expect(page.get_by_text(f"the nodes lack 1 x {RESOURCE}")).to_be_visible()
    axe(page)

    spec = site.api.call(f"{CLUSTERS}/shop")["spec"]
    spec["rkeConfig"]["machinePools"][0]["quantity"] = 1
    site.api.call(f"{CLUSTERS}/shop", "PATCH", {"spec": spec})
    expect(page.get_by_text("1 of 1 running")).to_be_visible()

    page.get_by_role("link", name="Remove all devices").click()
    expect(page.get_by_text("1 machine is replaced")).to_be_visible()
    axe(page)
    page.get_by_role("button", name="Remove all devices").click()
    expect(page.get_by_text("The machines have no devices.").first).to_be_visible()
    for name in VGPUS:
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    site.api.call(f"{CLUSTERS}/shop", "DELETE")


def test_a_form_follows_its_pool_until_that_is_gone(administrator: Person, site: WebSite) -> None:
    make_cluster(site, "brief", {"web": {"quantity": 0}})
    page = administrator.go("/pools/fleet-default/brief/web/change")
    answer, machines = page.locator("#live-fit"), page.get_by_label("Machines", exact=True)
    expect(answer).to_contain_text("This is what the pool has already.")
    machines.fill("-1")
    expect(answer).to_contain_text("Enter a number from 0 to 100,000.")
    expect(answer).not_to_contain_text("already")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    axe(page)

    page.goto(page.url.partition("?")[0])
    expect(answer).to_contain_text("This is what the pool has already.")
    spec = site.api.call(f"{CLUSTERS}/brief")["spec"]
    spec["rkeConfig"]["machinePools"][0]["quantity"] = 1
    site.api.call(f"{CLUSTERS}/brief", "PATCH", {"spec": spec})
    expect(answer).to_contain_text("was changed by someone else since you opened this page")
    expect(answer).not_to_contain_text("can start")
    axe(page)
    answer.get_by_role("link", name="Open the page again").click()
    expect(machines).to_have_value("1")

    site.api.call(f"{CLUSTERS}/brief", "DELETE")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_text("The web interface does not answer")).to_be_hidden()
    axe(page)
