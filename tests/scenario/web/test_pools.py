"""Machine pools in the interface: on the served cluster, on another one, and where there are none.

One server is the cluster of the devices and Rancher's; a second interface reaches it as another
management cluster, by a kubeconfig of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from laneway.kube.rancher import CONFIG_GROUP, GROUP, WORKSPACE
from support.guest_pools import (
    CLUSTERS,
    config_of,
    make_cluster,
    quantity_of,
    until_advertised,
    until_held,
    until_running,
    vgpu_info,
)
from support.processes import Laneway
from support.signing_in import Browser
from support.web_pages import Person, text_of
from support.web_site import ANSWERS, DEVICES, READ, SeparateSite, SimulatedSite, rule

NODES = ("sim-a2-1", "sim-a2-2")
PROFILE, RESOURCE = "NVIDIA A2-4Q", "nvidia.com/NVIDIA_A2-4Q"
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
VGPUS = [f"{node}-00000800{number}" for node in NODES for number in (4, 5)]
POOL, TEAM = "/pools/fleet-default/guest/gpu", "/pools/fleet-default/team/web"
CLAIMS = f"/apis/{DEVICES}/v1beta1/pcideviceclaims"
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
SEES = (
    rule("", ["nodes", "pods"]),
    rule(DEVICES, ["*"], READ),
    rule("kubevirt.io", ["virtualmachines"], READ),
)
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSite]:
    """Two nodes with two vGPUs and a network card that is claimed, and Rancher."""
    folder = tmp_path_factory.mktemp("pools") / "data"
    found = SimulatedSite(folder, ["a2:2"], "--rancher")
    try:
        claim(found, NODES[0])
        until_advertised(found, VGPUS, PROFILE)
        make_cluster(found, "guest", {"gpu": {"quantity": 2}})
        make_cluster(found, "team", {"web": {"quantity": 0}})
        until_running(found, "gpu", 2)
        yield found
    finally:
        found.end()


def claim(site: SimulatedSite, node: str) -> None:
    """Claim the network card of a node."""
    spec = {"address": "0000:04:00.1", "nodeName": node, "userName": "admin"}
    head = {"apiVersion": f"{DEVICES}/v1beta1", "kind": "PCIDeviceClaim"}
    site.make(CLAIMS, {**head, "spec": spec}, f"{node}-000004001")


@pytest.fixture(scope="module")
def elsewhere(site: SimulatedSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An interface for which Rancher is on another cluster; its address."""
    folder = tmp_path_factory.mktemp("elsewhere")
    kubeconfig = site.data_dir / "kubeconfig"
    rancher = folder / "rancher"
    rancher.write_text(kubeconfig.read_text())
    ui = Laneway(
        *("ui", "--address", "127.0.0.1:0", "--health-address", "127.0.0.1:0"),
        *("--kubeconfig", str(kubeconfig), "--management-kubeconfig", str(rancher)),
        *("--log-level", "info"),
    )
    try:
        port = ui.until(ANSWERS).partition(ANSWERS)[2].rstrip('"}')
        yield f"http://127.0.0.1:{port}"
    finally:
        ui.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, str], dict[str, str]]:
    """Cookies of those who have signed in, by address and token; attempts are limited."""
    return {}


@pytest.fixture
async def visit(
    site: SimulatedSite, kept: dict[tuple[str, str], dict[str, str]]
) -> AsyncIterator[Callable[..., Any]]:
    async with contextlib.AsyncExitStack() as stack:

        async def visit(token: str, address: str = "") -> Person:
            browser = await stack.enter_async_context(Browser(address or site.address))
            if (address, token) not in kept:
                assert (await browser.sign_in(token)).status == 303
                kept[address, token] = browser.cookies
            browser.cookies = kept[address, token]
            return Person(browser)

        yield visit


@pytest.fixture(scope="module")
def token(site: SimulatedSite) -> str:
    return site.account("person", EVERYTHING)


@pytest.fixture
async def admin(visit: Any, token: str) -> Person:
    person: Person = await visit(token)
    return person


def query(*rows: tuple[str, int], machines: int) -> str:
    fields = "".join(f"&type={name.replace('/', '%2F')}&count={count}" for name, count in rows)
    return f"{POOL}/change?edited=1&machines={machines}{fields}"


def form(*rows: tuple[str, int], machines: int, had: str = "") -> list[tuple[str, str]]:
    found = [("edited", "1"), ("had", had), ("machines", str(machines))]
    for name, count in rows:
        found += [("type", name), ("count", str(count))]
    return found


def stamp(page: str) -> str:
    return page.partition('name="had" value="')[2].partition('"')[0]


async def test_a_pool_gets_vgpus_is_refused_too_many_and_loses_them(
    admin: Person, site: SimulatedSite
) -> None:
    listed = await admin.waits("/pools", lambda text: "2 of 2 running" in text)
    assert "guest fleet-default gpu yes none 2 of 2 running 2 CPUs, 2 GiB" in listed

    page = await admin.html(f"{POOL}/change")
    assert f'<option value="{RESOURCE}">A2-4Q (4 GiB): 4 available</option>' in page
    assert "This is what the pool has already." in page
    assert 'name="count"' not in page, "there is no device type yet"

    asked = await admin.sees(query((RESOURCE, 1), machines=3))
    assert "Note: This is what the pool has" not in asked
    assert "All machines of the cluster can start." in asked
    assert f"{NODES[0]}: 2, {NODES[1]}: 2" in asked
    assert "2 machines are replaced, in this order" in asked
    assert "3 machines are still to start." in asked
    assert f"{NODES[0]} 2 2 " in asked, "room for two machines on the first node, with two vGPUs"

    five = form((RESOURCE, 1), machines=5, had=stamp(page))
    refused = await admin.posts(f"{POOL}/change", five)
    assert refused.status == 422
    assert "1 requested by each of 5 VMs, and there is enough for 4" in text_of(refused.text)
    assert quantity_of(site, "guest", "gpu") == 2
    assert "vgpuInfo" not in config_of(site, "guest", "gpu")

    plain = until_running(site, "gpu", 2)
    three = form((RESOURCE, 1), machines=3, had=stamp(page))
    assert await admin.sends(f"{POOL}/change", three) == (303, POOL)
    machines = until_running(site, "gpu", 3)
    assert not set(machines) & set(plain)
    devices = until_held(site, machines)
    shown = await admin.waits(
        POOL,
        lambda text: (
            "3 of 3 running" in text
            and "stays" in text
            and {name for name in VGPUS if name in text} == devices
        ),
    )
    assert shown.count("A2-4Q 4 GiB") == 1

    no_room = "There is no room for a rolling update of pool gpu."
    four = await admin.waits(query((RESOURCE, 1), machines=4), lambda text: no_room in text)
    assert f"the nodes lack 1 x {RESOURCE}" in four

    removal = await admin.sees(f"{POOL}/remove")
    assert "3 machines are replaced, in this order" in removal
    order = [name for name in removal.split() if name in machines]
    assert sorted(order) == sorted(machines)
    for name in devices:
        assert name in removal
    assert await admin.sends(f"{POOL}/remove") == (303, POOL)
    assert config_of(site, "guest", "gpu").get("vgpuInfo", "") == ""
    until_running(site, "gpu", 3)
    assert await admin.sends(f"{POOL}/change", form(machines=2)) == (303, POOL)
    until_running(site, "gpu", 2)


async def test_the_last_device_stays_in_the_list_of_the_pool_that_has_it(
    admin: Person, site: SimulatedSite
) -> None:
    """R4: what a pool had was missing from the list once nothing was free."""
    make_cluster(site, "full", {"all": {"quantity": 4, "vgpuInfo": vgpu_info(RESOURCE)}})
    until_held(site, until_running(site, "all", 4))
    full = "/pools/fleet-default/full/all/change"
    await admin.waits(full, lambda text: f"{NODES[0]} 0 2 " in text)  # room, and what is available
    page = await admin.html(full)
    assert f'<option value="{RESOURCE}" selected>A2-4Q (4 GiB): 4 available' in page
    assert "0 free, 4 in machines of this cluster" in page
    assert "This is what the pool has already." in page
    assert RESOURCE not in await admin.html(f"{POOL}/change")
    site.api.call(f"{CLUSTERS}/full", "DELETE")
    until_running(site, "all", 0)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (form((RESOURCE, 1), machines=10_000), "1 requested by each of 10000 VMs"),
        (form((RESOURCE, 65), machines=1), "Enter a number from 0 to 64."),
        (form((RESOURCE, 40), (RESOURCE, 40), machines=1), "Enter a number from 0 to 64."),
        (form(("nvidia.com/NVIDIA_A2-99Q", 1), machines=1), "No node has devices of type"),
        (form(machines=-1), "Enter a number from 0 to 100,000."),
        (form((NIC, 1), machines=1), "does not keep the field hostDeviceInfo"),
        (form(machines=3, had="0" * 16), "was changed by someone else since you opened this page"),
    ],
)
async def test_what_cannot_be_is_refused_and_nothing_is_written(
    admin: Person, site: SimulatedSite, fields: list[tuple[str, str]], said: str
) -> None:
    status, text = await admin.sends(f"{POOL}/change", fields)
    assert (status, said in text) == (422, True), text
    assert quantity_of(site, "guest", "gpu") == 2
    assert not config_of(site, "guest", "gpu").get("vgpuInfo")


@pytest.mark.parametrize(("count", "machines"), [(-1, 2), (10_000, 2), (1, -1), (1, 100_001)])
async def test_what_is_no_number_has_no_answer_but_the_error(
    admin: Person, count: int, machines: int
) -> None:
    text = await admin.sees(query((RESOURCE, count), machines=machines))
    assert "Enter a number from 0 to" in text
    assert "can start" not in text
    assert "replaced" not in text
    assert "This is what the pool has already" not in text


async def test_a_number_that_is_missing_stays_with_its_type(admin: Person) -> None:
    row = "&type=nvidia.com%2FNVIDIA_A2-4Q&count="
    path = f"{POOL}/change?edited=1&machines=1{row}&type=intel.com%2FX&count=2"
    reply = await admin.browser.get(path, HX_Request="true", HX_Target="live-fit")
    kept = reply.headers["HX-Replace-Url"].partition("&type=")[2]
    assert kept == "nvidia.com%2FNVIDIA_A2-4Q&count=-&type=intel.com%2FX&count=2"


async def test_what_someone_else_has_changed_is_told_in_the_form(admin: Person) -> None:
    text = await admin.sees(f"{query((RESOURCE, 1), machines=2)}&had={'0' * 16}")
    assert "was changed by someone else since you opened this page" in text
    assert "can start" not in text


async def test_the_server_is_asked_before_the_form_is_sent(admin: Person) -> None:
    asked = await admin.sees(query((NIC, 1), machines=1))
    assert "The management cluster would not store this" in asked
    assert "All machines of the cluster can start." not in asked


async def test_the_server_is_asked_once_a_change_fits_that_did_not(
    admin: Person, site: SimulatedSite
) -> None:
    path = query((NIC, 1), machines=2)
    assert "there is enough for 1" in await admin.sees(path)
    name = f"{NODES[1]}-000004001"
    async with admin.browser.stream(path) as stream:
        await stream.next()
        await asyncio.to_thread(claim, site, NODES[1])
        try:
            await stream.until(lambda event: "would not store this" in event)
        finally:
            await asyncio.to_thread(site.api.call, f"{CLAIMS}/{name}", "DELETE")


async def test_a_form_of_a_pool_that_is_gone_becomes_the_page_that_says_so(admin: Person) -> None:
    path = "/pools/fleet-default/gone/gpu/change?edited=1&machines=1"
    reply = await admin.browser.get(path, HX_Request="true")
    assert reply.status == 404
    headers = ("HX-Retarget", "HX-Reselect")
    assert [reply.headers[one] for one in headers] == ["#page", "#live-problem"]
    assert 'id="live-problem"' in reply.text


async def test_a_mistake_is_named_with_field_and_entry_and_no_form_is_shown(
    admin: Person, site: SimulatedSite
) -> None:
    info = '{"vGPURequests":[{"name":"a"}]}'
    bad_one = {"quantity": 1, "vgpuInfo": info}
    make_cluster(site, "broken", {"bad": bad_one, "worse": bad_one})
    bad = "/pools/fleet-default/broken/bad"
    shown = await admin.waits("/pools?cluster=broken", lambda text: "broken fleet" in text)
    assert "not checked: invalid vgpuInfo: entry 1 has no deviceName" in shown
    for path in (bad, f"{bad}/change"):
        page = await admin.html(path)
        assert "vgpuInfo: entry 1 has no deviceName" in page
        assert f"kubectl edit harvesterconfigs.{CONFIG_GROUP} nc-broken-bad -n" in page
        assert '<form method="post" action="/pools' not in page
        assert "worse" not in page, "the mistake of another pool is told on its own page"
    assert (await admin.sees(bad)).count("Correct the machine configuration first.") == 1
    site.api.call(f"{CLUSTERS}/broken", "DELETE")


async def test_who_may_only_read_sees_which_right_is_missing(
    visit: Any, site: SimulatedSite
) -> None:
    reads = (rule(GROUP, ["clusters"]), rule(CONFIG_GROUP, ["harvesterconfigs"]))
    reader = await visit(site.account("pool-reader", *SEES, *reads))
    text = await reader.sees(POOL)
    assert f"You may not patch harvesterconfigs.{CONFIG_GROUP} in namespace {WORKSPACE}" in text
    page = await reader.html(f"{POOL}/change")
    assert 'aria-disabled="true" disabled' in page
    status, text = await reader.sends(f"{POOL}/change", form(machines=1))
    assert (status, 'cannot patch resource "clusters"' in text) == (422, True), text
    assert quantity_of(site, "guest", "gpu") == 2


async def test_who_may_change_only_the_number_changes_the_number(
    visit: Any, site: SimulatedSite
) -> None:
    rules = (
        rule(GROUP, ["clusters"], [*READ, "patch"]),
        rule(CONFIG_GROUP, ["harvesterconfigs"]),
    )
    person = await visit(site.account("scaler", *SEES, *rules))
    assert await person.sends(f"{TEAM}/change", form(machines=1)) == (303, TEAM)
    assert quantity_of(site, "team", "web") == 1
    assert await person.sends(f"{TEAM}/change", form(machines=0)) == (303, TEAM)


async def test_what_may_not_be_read_is_not_shown_as_absent(visit: Any, site: SimulatedSite) -> None:
    stranger = await visit(site.account("pool-stranger", *SEES))
    text = await stranger.sees("/pools")
    assert "You may not list clusters.provisioning.cattle.io" in text
    assert "No guest cluster has machine pools" not in text
    assert "tries again by itself" not in text

    site.account("pool-part", *SEES)
    part = site.account("pool-part", rule(GROUP, ["clusters"]), namespace=WORKSPACE)
    text = await (await visit(part)).sees("/pools")
    assert "You may not list clusters in all namespaces: only those of fleet-default" in text
    assert "You may not list harvesterconfigs.rke-machine-config.cattle.io" in text
    assert (
        "gpu not known machineConfigRef: HarvesterConfig nc-guest-gpu may not be read by you"
        in text
    )


async def test_names_of_vms_are_for_those_who_may_see_them(visit: Any, site: SimulatedSite) -> None:
    reads = (rule(GROUP, ["clusters"]), rule(CONFIG_GROUP, ["harvesterconfigs"]))
    person = await visit(site.account("no-vms", rule("", ["nodes"]), rule(DEVICES, ["*"]), *reads))
    [name, _] = until_running(site, "gpu", 2)
    text = await person.sees(POOL)
    assert "a machine whose VM you may not see" in text
    assert name not in text
    assert "CPU and memory are not checked" in text, "the user may not list pods"
    assert "All machines can start" not in text
    assert "All machines of the cluster can start" not in await person.sees(f"{POOL}/change")
    assert "devices: yes; CPU and memory are not checked" in await person.sees("/pools")


async def test_a_cluster_without_rancher_says_how_to_name_the_one_that_has_it(
    admin_of_troubled: Browser, troubled: SeparateSite
) -> None:
    person = Person(admin_of_troubled)
    text = await person.sees("/pools")
    assert "This cluster is not a Rancher management cluster" in text
    assert "laneway ui --management-kubeconfig PATH" in text
    assert "laneway pools list" in text
    assert "laneway ui --management-kubeconfig PATH" in await person.sees(POOL)


async def test_the_credentials_of_the_kubeconfig_serve_the_one_who_gave_them(
    visit: Any, elsewhere: str, site: SimulatedSite, token: str
) -> None:
    owner = await visit(site.administrator, elsewhere)
    assert "guest fleet-default gpu yes" in await owner.waits(
        "/pools", lambda t: "guest fleet" in t
    )

    person = await visit(token, elsewhere)
    text = await person.sees("/pools")
    assert "Sign in to the management cluster" in text
    assert "fleet-default" not in text
    assert "you are not signed in" in await person.sees(POOL)
    status, text = await person.sends("/pools", token="nonsense")
    assert status == 422
    assert "The management cluster does not accept this token" in text
    assert await person.sends("/pools", token=token) == (303, "/pools")
    text = await person.waits("/pools", lambda text: "guest fleet-default gpu" in text)
    assert "system:serviceaccount:default:person in the management cluster" in text
    assert token not in await person.html("/pools")
    assert await person.sends(f"{TEAM}/change", form(machines=1)) == (303, TEAM)
    assert quantity_of(site, "team", "web") == 1
    assert await person.sends(f"{TEAM}/change", form(machines=0)) == (303, TEAM)
    assert await person.sends("/pools", forget="yes") == (303, "/pools")
    assert "fleet-default" not in await person.sees("/pools")


async def test_rights_in_rancher_show_no_devices_of_harvester(
    visit: Any, elsewhere: str, site: SimulatedSite, token: str
) -> None:
    nobody = await visit(site.account("pool-nobody"), elsewhere)
    assert await nobody.sends("/pools", token=token) == (303, "/pools")
    for path in ("/pools", POOL, f"{POOL}/change", query((RESOURCE, 9), machines=9)):
        text = await nobody.sees(path)
        assert "You may not list pcideviceclaims.devices.harvesterhci.io" in text
        assert "usbdeviceclaims.devices.harvesterhci.io" in text
        assert not [name for name in (*NODES, RESOURCE, "guest fleet-default") if name in text]
    status, text = await nobody.sends(f"{POOL}/change", form((RESOURCE, 9), machines=9))
    assert (status, NODES[0] in text) == (422, False)
    assert quantity_of(site, "guest", "gpu") == 2


async def test_a_token_that_ends_asks_for_another_and_leaves_the_session(
    visit: Any, elsewhere: str, site: SimulatedSite, token: str
) -> None:
    short = site.account("short", EVERYTHING)
    person = await visit(token, elsewhere)
    assert await person.sends("/pools", token=short) == (303, "/pools")
    site.api.call("/api/v1/namespaces/default/serviceaccounts/short", "DELETE")
    text = await person.waits("/pools", lambda text: "does not accept your token any more" in text)
    assert "Sign in to the management cluster" in text
    assert "gpu yes" not in text, "what was known belongs to a user who is not one any more"
    assert "GPUs" in await person.sees("/gpus")
