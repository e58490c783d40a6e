"""Claims of PCI and USB devices and virtual functions in the interface, by all of `laneway up`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from multidict import MultiDict

from support.signing_in import Browser, csrf_of
from support.web_pages import Person, text_of
from support.web_site import DEVICES, READ, SimulatedSite, rule

API = f"/apis/{DEVICES}/v1beta1"
VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
GPU, AUDIO = "sim-workstation-1-000008000", "sim-workstation-1-000008001"
DISK, SPARE = "sim-workstation-1-000001000", "sim-workstation-1-00000a000"
CARD = "sim-plain-1-ens1f0"
STICK, KEYBOARD = "sim-plain-1-0781-5583-001004", "sim-plain-1-046d-c31c-001005"
CLAIMS = ["pcideviceclaims", "usbdeviceclaims"]
SEEN = ["pcidevices", "usbdevices", "sriovnetworkdevices", *CLAIMS]

_HIDDEN = re.compile(r'<input type="hidden" name="device" value="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSite]:
    models = ["workstation", "plain", "a2"]
    found = SimulatedSite(tmp_path_factory.mktemp("site") / "data", models)
    try:
        yield found
    finally:
        found.end()


class Claimer(Person):
    """A user who claims and releases what the form of the change page offers."""

    def __init__(self, browser: Browser) -> None:
        super().__init__(browser)
        self.browser = browser

    async def changes(self, path: str, **fields: str) -> tuple[int, str]:
        page = await self.html(path)
        sent = MultiDict({"csrf": csrf_of(page), **fields})
        sent.extend(("device", name) for name in _HIDDEN.findall(page))
        reply = await self.browser.post(path, sent)
        return reply.status, reply.headers.get("Location") or text_of(reply.text)


@pytest.fixture
async def arrive(
    site: SimulatedSite, cookies: dict[str, dict[str, str]]
) -> AsyncIterator[Callable[[str], Any]]:
    browsers = []

    async def arrive(token: str) -> Claimer:
        browser = Browser(site.address)
        browsers.append(browser)
        if token not in cookies:
            assert (await browser.sign_in(token)).status == 303
            cookies[token] = browser.cookies
        browser.cookies = cookies[token]
        return Claimer(browser)

    yield arrive
    for browser in browsers:
        await browser.http.close()


@pytest.fixture
async def admin(site: SimulatedSite, arrive: Any) -> Claimer:
    return await arrive(site.administrator)


def change(do: str, *names: str, family: str = "pci", back: str = "") -> str:
    fields = [("do", do), *(("row", name) for name in names), *([("back", back)] * bool(back))]
    return f"/{family}/change?{urlencode(fields)}"


def is_claimed(site: SimulatedSite, name: str) -> bool:
    try:
        site.api.call(f"{API}/pcideviceclaims/{name}")
    except HTTPError as error:
        error.close()
        return False
    return True


async def test_a_gpu_is_claimed_exactly_and_with_its_whole_group_and_released_with_it(
    admin: Claimer, site: SimulatedSite
) -> None:
    alone = await admin.html(change("claim", GPU))
    assert "1 other device of the same IOMMU group leaves the node as well." in text_of(alone)
    assert "also leaves the node: claim it as well" in text_of(alone)
    both = await admin.sees(change("claim", GPU, AUDIO))
    assert both.count("Can be claimed") == 2
    assert "claim it as well" not in both
    assert "The node's console is on" in both

    back = "/pci?node=sim-workstation-1"
    status, report = await admin.changes(change("claim", GPU, AUDIO, back=back), exact="on")
    assert (status, "2 of 2 devices claimed" in report) == (200, True)
    shown = await admin.waits(f"/pci/{GPU}", lambda text: "Claimed Release YAML" in text)
    assert f"nvidia.com/{GPU} exact VMs that request this resource get exactly this" in shown
    assert "Driver after release nvidia" in shown
    listed = await admin.sees(f"{back}&claim=yes&sort=-user")
    assert "1-2 of 2" in listed
    assert f"nvidia.com/{AUDIO} exact" in listed

    assert (await admin.changes(f"/pci/{GPU}/resource"))[0] == 303
    await admin.waits(f"/pci/{GPU}", lambda text: "nvidia.com/GP104_GEFORCE_GTX_1080 pool" in text)
    assert "2 of 2 claims deleted" in (await admin.changes(change("release", GPU, AUDIO)))[1]
    await admin.waits(f"/pci/{AUDIO}", lambda text: "Not claimed Claim YAML" in text)


async def test_what_the_node_needs_is_refused_and_then_nothing_else_is_written_either(
    admin: Claimer, site: SimulatedSite
) -> None:
    why = f"pcidevice {DISK} is critical to its node: holds the root file system"
    shown = await admin.html(f"/pci/{DISK}")
    assert why in text_of(shown)
    assert 'aria-disabled="true"' in shown
    asked = await admin.sees(change("claim", DISK, SPARE))
    assert f"Refused {why}" in asked
    assert "Claim 1 device" in asked
    assert "1 device stays as it is." in asked
    path = change("claim", DISK, SPARE)
    sent = MultiDict({"csrf": csrf_of(await admin.html(path)), "device": DISK})
    sent.add("device", SPARE)
    refused = await admin.browser.post(path, sent)
    assert refused.status == 422
    assert "Nothing was changed" in text_of(refused.text)
    assert why in text_of(refused.text)
    assert not is_claimed(site, SPARE)


async def test_an_administrator_releases_the_claim_of_another_user_and_says_so(
    admin: Claimer, arrive: Any, site: SimulatedSite
) -> None:
    rights = [rule(DEVICES, SEEN), rule(DEVICES, CLAIMS, ["create", "delete"])]
    owner = await arrive(site.account("owner", *rights))
    other = await arrive(site.account("other", *rights))
    done = await owner.changes(change("claim", SPARE))
    assert done == (303, f"/pci/{SPARE}")

    user = "system:serviceaccount:default:owner"
    refusal = f"pcideviceclaim {SPARE} belongs to user '{user}', so it cannot be deleted by you."
    assert refusal in await other.waits(f"/pci/{SPARE}", lambda text: "Claimed by" in text)
    assert f"Refused {refusal}" in await other.sees(change("release", SPARE))

    path = change("release", SPARE)
    assert f"{SPARE}, claimed by {user}" in await admin.sees(path)
    status, words = await admin.changes(path)
    assert status == 422
    assert "Confirm that you release what other users have claimed." in words
    assert is_claimed(site, SPARE)
    assert (await admin.changes(path, others="on"))[0] == 303
    await admin.waits(f"/pci/{SPARE}", lambda text: "Not claimed Claim YAML" in text)


async def test_a_device_in_use_is_not_released_and_its_vm_is_named_to_those_who_may_see_it(
    admin: Claimer, arrive: Any, site: SimulatedSite
) -> None:
    await admin.changes(change("claim", SPARE))
    shown = await admin.waits(f"/pci/{SPARE}", lambda text: "Claimed Release YAML" in text)
    resource = re.search(r"Resource name (\S+) pool", shown)
    assert resource
    device = {"name": "disk", "deviceName": resource[1]}
    domain = {
        "devices": {"hostDevices": [device]},
        "resources": {"requests": {"memory": "1Gi"}},
    }
    vm = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}
    spec = {"running": True, "template": {"spec": {"domain": domain}}}
    site.make(VMS, {**vm, "spec": spec}, "desk")
    held = await admin.waits(f"/pci/{SPARE}", lambda text: "In use Release" in text)
    assert "Held by VM default/desk" in held
    assert "is already in use with VM default/desk" in held
    assert 'href="/vms/default/desk"' in await admin.html(f"/pci?q={SPARE}")
    assert "is already in use with VM default/desk" in await admin.sees(change("release", SPARE))

    stranger = await arrive(site.account("stranger", rule(DEVICES, SEEN, READ)))
    seen = await stranger.sees(f"/pci?q={SPARE}")
    assert "In use a VM in another namespace" in seen
    assert "desk" not in seen
    assert "You may not delete pcideviceclaims." in await stranger.sees(f"/pci/{SPARE}")
    assert "no longer right in VM default/desk" in await admin.sees(f"/pci/{SPARE}/resource")
    seen = await stranger.sees(f"/pci/{SPARE}/resource")
    assert "You may not patch pcideviceclaims." in seen
    assert "desk" not in seen
    shown = await stranger.sees(f"/networks/{CARD}/functions")
    assert "Set number You may not patch sriovnetworkdevices." in shown

    neighbour = site.account("neighbour", rule(DEVICES, SEEN, READ))
    site.grant("neighbour", rule("kubevirt.io", ["virtualmachines"]), namespace="default")
    site.api.call(f"{VMS}/desk", "PATCH", {"spec": {"running": False}})
    await admin.waits(f"/pci/{SPARE}", lambda text: "VM default/desk (stopped)" in text)
    first = await (await arrive(neighbour)).sees(f"/pci/{SPARE}")
    assert "Held by VM default/desk (stopped)" in first
    site.api.call(f"{VMS}/desk", "DELETE")


async def test_filters_by_gpu_and_by_card_stand_together_and_gpu_functions_are_hidden_at_first(
    admin: Claimer, site: SimulatedSite
) -> None:
    gpu, function = "sim-a2-1-000008000", "sim-a2-1-000008004"
    await admin.waits(f"/pci?gpu={gpu}", lambda text: function in text)
    assert function not in await admin.sees("/pci?node=sim-a2-1")
    assert function in await admin.sees("/pci?node=sim-a2-1&functions=all")
    status, where = await admin.sends(f"/networks/{CARD}/functions", count="2")
    assert (status, where) == (303, f"/networks/{CARD}")
    await admin.waits(f"/pci?card={CARD}", lambda text: "1-2 of 2" in text)
    both = await admin.sees(f"/pci?gpu={gpu}&card={CARD}&group=node&size=100")
    assert function in both
    assert "sim-plain-1-000017010" in both
    assert "sim-a2-1 16 rows: 16 not claimable" in both
    assert "sim-plain-1 2 rows: 2 not claimed" in both
    assert (await admin.sends(f"/networks/{CARD}/functions", count="0"))[0] == 303


async def test_the_number_of_functions_is_refused_at_its_field_in_the_words_of_admission(
    admin: Claimer, site: SimulatedSite
) -> None:
    card = "sim-plain-1-ens4f0"
    path = f"/networks/{card}/functions"
    status, words = await admin.sends(path, count="65")
    assert status == 422
    assert f"{card} can have 0 to 64 virtual functions, not 65." in words
    assert (await admin.sends(path, count="many"))[0] == 422
    assert (await admin.sends(path, count="2"))[0] == 303
    shown = await admin.waits(f"/networks/{card}", lambda text: "Enabled Virtual" in text)
    assert "2 of 64" in shown
    function = site.api.call(f"{API}/sriovnetworkdevices/{card}")["status"]["vfPCIDevices"][0]
    assert (await admin.changes(change("claim", function)))[0] == 303
    blocked = await admin.waits(f"/networks/{card}", lambda text: "1 is claimed" in text)
    assert function in blocked.partition("What keeps the number as it is")[2]
    status, words = await admin.sends(path, count="4")
    assert (status, function in words) == (422, True)
    assert (await admin.changes(change("release", function)))[0] == 303
    await admin.waits(f"/pci/{function}", lambda text: "Not claimed Claim YAML" in text)
    assert (await admin.sends(path, count="0"))[0] == 303
    await admin.waits(f"/networks/{card}", lambda text: "Disabled Virtual" in text)


async def test_usb_devices_are_claimed_and_released_several_at_once(admin: Claimer) -> None:
    path = change("claim", STICK, KEYBOARD, family="usb")
    status, report = await admin.changes(path)
    assert (status, "2 of 2 devices claimed" in report) == (200, True)
    await admin.waits("/usb?claim=yes&state=claimed", lambda text: "1-2 of 2" in text)
    shown = await admin.sees(f"/usb/{STICK}")
    assert "Serial number 4C530001230807114385" in shown
    assert "bus 1, number 4" in shown
    assert "2 of 2" in (await admin.changes(change("release", STICK, KEYBOARD, family="usb")))[1]
    await admin.waits("/usb?claim=yes", lambda text: "Nothing matches" in text)
