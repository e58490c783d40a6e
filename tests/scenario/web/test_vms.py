"""VMs in the interface, from a form to devices that a VM holds, by the whole of `laneway up`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest

from support.signing_in import Browser, csrf_of
from support.web_pages import Person, text_of
from support.web_site import DEVICES, READ, SimulatedSite, rule

VMS = "/apis/kubevirt.io/v1/namespaces/{}/virtualmachines"
VGPUS = "/apis/devices.harvesterhci.io/v1beta1/vgpudevices"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"
COUNT = f"count:{RESOURCE}"
NAMES = [f"sim-a2-1-00000800{number}" for number in (4, 5, 6)]
FORM = {"cores": "2", "memory": "4", "source": "image", "image": "registry.example/debian:12"}


def problem_of(page: str, field: str) -> str:
    """What is said at a field that was refused."""
    found = page.partition(f'id="{field}-problem"')[2].partition("</div></div>")[0]
    return text_of(f"<{found}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSite]:
    """A node with three vGPUs, and a namespace of a team."""
    found = SimulatedSite(tmp_path_factory.mktemp("site") / "data", ["a2"])
    try:
        for name in NAMES:
            spec = {"spec": {"enabled": True, "vGPUTypeName": "NVIDIA A2-4Q"}}
            found.api.call(f"{VGPUS}/{name}", "PATCH", spec)
        found.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace"}, "team")
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}},
            },
        }
        found.make("/api/v1/namespaces/team/persistentvolumeclaims", claim, "disk")
        yield found
    finally:
        found.end()


@pytest.fixture
async def arrive(site: SimulatedSite) -> AsyncIterator[Callable[[str], Any]]:
    browsers = []

    async def arrive(token: str) -> Person:
        browser = Browser(site.address)
        browsers.append(browser)
        assert (await browser.sign_in(token)).status == 303
        return Person(browser)

    yield arrive
    for browser in browsers:
        await browser.http.close()


@pytest.fixture
async def admin(site: SimulatedSite, arrive: Any) -> Person:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    return await arrive(site.account("person", everything))


async def refused(person: Person, path: str, **fields: str) -> str:
    """A form that is refused: the page that shows it again."""
    reply = await person.posts(path, **fields)
    assert reply.status == 422
    return reply.text


def devices_of(site: SimulatedSite, name: str, namespace: str = "default") -> Mapping[str, Any]:
    found = site.api.call(f"{VMS.format(namespace)}/{name}")
    return found["spec"]["template"]["spec"]["domain"]["devices"]


async def test_a_vm_is_made_with_two_vgpus_runs_with_them_and_loses_one_once_it_is_stopped(
    admin: Person, site: SimulatedSite
) -> None:
    await admin.waits("/vms/new", lambda text: "3 of 3 free" in text)
    asked = await admin.sees(f"/vms/new?{COUNT}=2&name=desk&cores=2")
    assert "1 node has all of it." in asked
    assert "a2-4q-1 has the display with ramFB" in asked
    fields = {**FORM, "namespace": "default", "name": "desk", COUNT: "2", "start": "yes"}
    assert await admin.sends("/vms/new", **fields) == (303, "/vms/default/desk")
    shown = await admin.waits("/vms/default/desk", lambda text: "as requested" in text)
    assert "2 (a2-4q-1, a2-4q-2)" in shown
    held = [name for name in NAMES if name in shown]
    assert len(held) == 2
    # Only one has the display, without a user having said so.
    first, second = devices_of(site, "desk")["gpus"]
    assert first["virtualGPUOptions"]["display"]["enabled"]
    assert second["virtualGPUOptions"] == {"display": {"enabled": False}}
    listed = await admin.sees("/vms?node=sim-a2-1")
    assert "2 \N{MULTIPLICATION SIGN} A2-4Q" in listed
    assert all(name in listed for name in held)

    status, why = await admin.sends("/vms/default/desk/devices", detach="a2-4q-1")
    assert status == 422
    assert "VM default/desk is running with it, and KubeVirt detaches no device from a" in why

    assert (await admin.sends("/vms/default/desk/stop"))[0] == 303
    stopped = await admin.waits(
        "/vms/default/desk", lambda text: "Start" in text and text.count("(reserved)") == 2
    )
    assert "Stopped" in stopped
    assert (await admin.sends("/vms/default/desk/devices", detach="a2-4q-1"))[0] == 303
    # The display went with the first vGPU, and the other has it now.
    [left] = devices_of(site, "desk")["gpus"]
    assert left["name"] == "a2-4q-2"
    assert "virtualGPUOptions" not in left
    assert (await admin.sends("/vms/default/desk/start"))[0] == 303
    await admin.waits("/vms/default/desk", lambda text: "Running on node sim-a2-1" in text)
    assert await admin.sends("/vms/default/desk/delete") == (303, "/vms")
    await admin.waits("/vms/new", lambda text: "3 of 3 free" in text)


async def test_a_refused_vm_has_each_refusal_at_its_field_and_all_that_was_typed(
    admin: Person,
) -> None:
    await admin.waits("/vms/new", lambda text: "3 of 3 free" in text)
    fields = {**FORM, "namespace": "team", "name": "big", COUNT: "4", "start": "yes"}
    page = await refused(admin, "/vms/new", **fields)
    # By the webhook, whose words are shown at the number; what fits is still shown.
    why = f"{RESOURCE}: 4 requested on one node; node sim-a2-1 has 3 free of 3"
    assert why in problem_of(page, COUNT)
    assert 'value="4" aria-invalid="true"' in page
    assert 'value="registry.example/debian:12"' in page
    assert "No node has all of it now." in text_of(page)
    # By the form, before anything is written.
    page = await refused(admin, "/vms/new", **fields, device="node9-gone")
    assert problem_of(page, "devices") == "There is no device node9-gone for VMs any more."
    page = await refused(admin, "/vms/new", **{**fields, "name": "Not a name", "memory": "0"})
    assert "at most 63 characters" in problem_of(page, "name")
    assert problem_of(page, "memory") == "Enter an amount above 0."
    assert 'value="Not a name"' in page
    page = await refused(admin, "/vms/new", **{**fields, "image": "not an image"})
    assert problem_of(page, "image") == (
        "Enter the reference of an image, such as quay.io/containerdisks/debian:12."
    )


async def test_a_user_sees_and_changes_vms_of_own_namespaces_only(
    admin: Person, site: SimulatedSite, arrive: Any
) -> None:
    rules = [
        rule("kubevirt.io", ["virtualmachines"], [*READ, "create"]),
        rule("", ["persistentvolumeclaims"]),
    ]
    token = site.account("ann", *rules, namespace="team")
    ann = await arrive(token)
    unseen = await ann.html("/vms/new?namespace=team&cores=1")
    assert "You may not list nodes" in unseen
    assert not [name for name in (RESOURCE, *NAMES) if name in unseen]
    site.grant("ann", rule(DEVICES, ["vgpudevices"]), rule("", ["nodes"]))
    ann = await arrive(token)
    await admin.waits("/vms/new", lambda text: "3 of 3 free" in text)
    fields = {**FORM, "namespace": "default", "name": "secret", COUNT: "3", "start": "yes"}
    assert (await admin.sends("/vms/new", **fields))[0] == 303
    await admin.waits("/vms/default/secret", lambda text: "as requested" in text)

    assert "secret" not in await ann.sees("/vms")
    await ann.sees("/vms/default/secret", status=404)
    form = await ann.html(f"/vms/new?namespace=team&{COUNT}=1&cores=1")
    assert "secret" not in form
    assert "3 held by VM in another namespace" in text_of(form)
    assert "3 used by a VM in another namespace" in text_of(form)
    assert 'value="team" required list="namespaces"' in form
    assert '<option value="default"' not in form
    refused = await ann.sees("/vms/new?namespace=default&cores=1")
    assert "You may not create virtualmachines in namespace default." in refused
    assert "disk (10Gi)" in form

    # Of the namespace of the team, the form makes VMs; another is refused by the API server.
    own = {**FORM, "source": "claim", "claim": "disk", "name": "own"}
    assert (await ann.sends("/vms/new", **own, namespace="default"))[0] == 422
    assert (await ann.sends("/vms/new", **own, namespace="team"))[0] == 303
    made = site.api.call(f"{VMS.format('team')}/own")["spec"]["template"]["spec"]
    assert made["volumes"] == [
        {"name": "root", "persistentVolumeClaim": {"claimName": "disk"}},
    ]
    shown = await ann.sees("/vms/team/own")
    assert "You may not patch virtualmachines in this namespace." in shown
    assert "You may not delete virtualmachines in this namespace." in shown
    await admin.sends("/vms/default/secret/delete")
    await admin.waits("/vms/new", lambda text: "3 of 3 free" in text)


async def test_the_form_knows_whose_claims_they_are(
    admin: Person, site: SimulatedSite, arrive: Any
) -> None:
    claim = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "spec": {"address": "0000:04:00.1", "nodeName": "sim-a2-1", "userName": "admin"},
    }
    name = "sim-a2-1-000004001"
    site.make("/apis/devices.harvesterhci.io/v1beta1/pcideviceclaims", claim, name)
    form = f"/vms/new?namespace=team&cores=1&device={name}"
    await admin.waits(form, lambda text: "1 node has all of it." in text)
    refused = f"device pcidevice/{name} is claimed by another user"
    assert refused not in await admin.sees(form)
    bob = await arrive(
        site.account("bob", rule("kubevirt.io", ["virtualmachines"], ["create"]), namespace="team")
    )
    assert refused in await bob.sees(form)


async def test_a_token_that_is_refused_when_a_form_is_sent_ends_the_session(
    site: SimulatedSite, arrive: Any
) -> None:
    vm = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}
    vm |= {"spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}}}
    site.make(VMS.format("team"), vm, "kept")
    token = site.account("leaver", rule("kubevirt.io", ["virtualmachines"], [*READ, "delete"]))
    leaver = await arrive(token)
    path = "/vms/team/kept/delete"
    await leaver.waits("/vms?q=kept", lambda text: "kept" in text)
    csrf = csrf_of(await leaver.html(path))
    site.api.call("/api/v1/namespaces/default/serviceaccounts/leaver", "DELETE")
    reply = await leaver.browser.post(path, {"csrf": csrf})
    assert reply.status == 401
    assert "Sign in" in reply.text
