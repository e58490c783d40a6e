"""What holds for every page: anyone can perceive it and reach all of it, on any screen."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from laneway.web.pages import PAGES
from support.chromium import Person, axe
from support.guest_pools import make_cluster, vgpu_info
from support.web_site import DEVICES, WebSite

NARROW = 320
"""The width of a window of 1280 at 400 %, and of a small phone."""
API = f"/apis/{DEVICES}/v1beta1"
NODE, OTHER = "sim-a100-1", "sim-workstation-1"
GPU, MIG = f"{NODE}-000031000", f"{NODE}-0000b1000"
VGPU = f"{NODE}-000031004"
CARD, USB = f"{OTHER}-000004001", f"{OTHER}-0781-5583-001004"
VM = "default/idle"
POLICY = "looked-at"
POOL, TYPE = "/pools/fleet-default/looked-at/gpu", "nvidia.com%2FGRID_A100-10C"
ADDRESSES = {
    "/": "/",
    "/gpus": "/gpus",
    "/gpus/change": f"/gpus/change?row={NODE}-000017000&row={MIG}&to=vgpus",
    "/gpus/{name}": f"/gpus/{GPU}",
    "/gpus/{name}/vgpus": f"/gpus/{GPU}/vgpus?plan=1",
    "/gpus/{name}/mode": f"/gpus/{GPU}/mode?to=MIGBacked",
    "/gpus/{name}/withdraw": f"/gpus/{GPU}/withdraw",
    "/vgpus": f"/vgpus?parentSriov={GPU}&group=state",
    "/vgpus/change": f"/vgpus/change?do=enable&row={NODE}-000017004",
    "/vgpus/{name}": f"/vgpus/{VGPU}",
    "/mig": "/mig",
    "/mig/{name}": f"/mig/{MIG}",
    "/mig/{name}/change": f"/mig/{MIG}/change",
    "/pci": f"/pci?node={OTHER}&group=node",
    "/pci/change": f"/pci/change?do=claim&row={CARD}",
    "/pci/{name}": f"/pci/{CARD}",
    "/pci/{name}/resource": f"/pci/{NODE}-000004001/resource?exact=on",
    "/networks": "/networks",
    "/networks/{name}": f"/networks/{OTHER}-eno2",
    "/networks/{name}/functions": f"/networks/{OTHER}-eno2/functions",
    "/usb": f"/usb?node={OTHER}",
    "/usb/change": f"/usb/change?do=claim&row={USB}",
    "/usb/{name}": f"/usb/{USB}",
    "/usb/{name}/move": "",
    "/vms": "/vms",
    "/vms/new": "/vms/new?count:nvidia.com/GRID_A100-10C=1",
    "/vms/{namespace}/{name}": f"/vms/{VM}",
    "/vms/{namespace}/{name}/devices": f"/vms/{VM}/devices",
    "/vms/{namespace}/{name}/start": f"/vms/{VM}/start",
    "/vms/{namespace}/{name}/stop": f"/vms/{VM}/stop",
    "/vms/{namespace}/{name}/delete": f"/vms/{VM}/delete",
    "/pools": "/pools",
    "/pools/{namespace}/{cluster}/{pool}": POOL,
    "/pools/{namespace}/{cluster}/{pool}/change": f"{POOL}/change?edited=1&type={TYPE}&machines=9",
    "/pools/{namespace}/{cluster}/{pool}/remove": f"{POOL}/remove",
    "/planner": f"/planner?type-0={TYPE}&type2-0=x&on-0=a&who-0=b&gpu-0=g&leave-0=x&server-0=l40s",
    "/nodes": "/nodes",
    "/nodes/{name}": f"/nodes/{NODE}",
    "/nodes/{name}/reboot": f"/nodes/{NODE}/reboot",
    "/hosts": "/hosts",
    "/hosts/policy": "/hosts/policy?edited=1&when=InWindow&pages=1G",
    "/hosts/policy/{name}": f"/hosts/policy/{POLICY}",
    "/doctor": "/doctor",
    "/activity": f"/activity?node={NODE}",
    "/history": "/history?since=7d",
    "/objects/{plural}/{name}": f"/objects/sriovgpudevices/{GPU}",
    "/objects/{plural}/{namespace}/{name}": f"/objects/virtualmachines/{VM}",
}
"""One of each page with all that it can show here. A claim to move needs a device that has gone,
which no simulated node has."""


@pytest.fixture(scope="module")
def objects(site: WebSite) -> None:
    """A GPU with a layout, one in MIG mode, a claimed device, a stopped VM, a policy, a pool."""
    api = site.api
    head = {"apiVersion": f"{DEVICES}/v1beta1"}
    mode = {"spec": {"enabled": True, "mode": "MIGBacked"}}
    api.call(f"{API}/sriovgpudevices/{MIG}", "PATCH", mode)
    claim = {"address": "0000:04:00.1", "nodeName": NODE, "userName": "admin"}
    site.make(
        f"{API}/pcideviceclaims",
        {**head, "kind": "PCIDeviceClaim", "spec": claim},
        f"{NODE}-000004001",
    )
    vgpus = [{"profile": "GRID A100-10C", "count": 3}]
    layout = {"gpuSelector": {"names": [GPU]}, "vgpus": vgpus}
    site.make(f"{API}/vgpulayouts", {**head, "kind": "VGPULayout", "spec": layout}, GPU)
    gpus = [{"name": "gpu", "deviceName": "nvidia.com/GRID_A100-10C"}]
    domain = {"devices": {"gpus": gpus}, "memory": {"guest": "1Gi"}}
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "spec": {"runStrategy": "Halted", "template": {"spec": {"domain": domain}}},
    }
    policy = {"iommu": True, "nodeSelector": {"names": [NODE]}, "rollout": {"paused": True}}
    site.make(f"{API}/hostpolicies", {**head, "kind": "HostPolicy", "spec": policy}, POLICY)
    api.until("hostpreparations", NODE, bool)
    while not vgpus_of(site, GPU) or not api.call(f"{API}/migconfigurations")["items"]:
        time.sleep(0.1)
    info = vgpu_info("nvidia.com/GRID_A100-10C")
    make_cluster(site, "looked-at", {"gpu": {"quantity": 1, "vgpuInfo": info}})
    path, name = VM.split("/")
    site.make(f"/apis/kubevirt.io/v1/namespaces/{path}/virtualmachines", vm, name)


def vgpus_of(site: WebSite, gpu: str) -> bool:
    """Whether VMs can request vGPUs of a GPU."""
    names = site.api.call(f"{API}/sriovgpudevices/{gpu}")["status"]["vGPUDevices"]
    vgpus = [site.api.call(f"{API}/vgpudevices/{name}") for name in names]
    conditions = [one for vgpu in vgpus for one in vgpu["status"].get("conditions", [])]
    return any(one["type"] == "Advertised" and one["status"] == "True" for one in conditions)


def shown(person: Person, place: str) -> Page:
    """A page, once it is there; not one that says that it is not."""
    answer = person.page.goto(person.address + place)
    assert answer is not None
    assert answer.ok, f"{place}: {answer.status}"
    return person.page


def judge(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    axe(page)
    page.set_viewport_size({"width": NARROW, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, "scrolls sideways"


def test_each_page_has_an_address_here() -> None:
    assert set(ADDRESSES) == {page.pattern for page in PAGES}


@pytest.mark.parametrize("place", [place for place in ADDRESSES.values() if place])
def test_anyone_can_read_it_on_any_screen(objects: None, administrator: Person, place: str) -> None:
    judge(shown(administrator, place))


def test_anyone_can_read_that_there_is_nothing(administrator: Person) -> None:
    judge(administrator.go("/no-such-page"))


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
