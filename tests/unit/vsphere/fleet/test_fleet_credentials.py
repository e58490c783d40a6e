"""Who is logged in where, and what becomes of wrong credentials: words, and no storm of logins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneway.api import find_condition
from laneway.api.vsphere import VCenter, VSphereHost
from laneway.kube import capv
from laneway.kube.resource import served


def ready_is(reason: str) -> Callable[[Any], bool]:
    def holds(vcenter: Any) -> bool:
        found = find_condition(vcenter.status.conditions, "Ready")
        return found is not None and found.reason == reason

    return holds


def words(vcenter: Any) -> str:
    found = find_condition(vcenter.status.conditions, "Ready")
    return found.message if found is not None else ""


async def test_wrong_credentials_are_tried_once_and_right_ones_at_once(
    site: Any, start_vcenter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    vcenter = start_vcenter(password="right")
    await site.vcenter(vcenter)
    await site.secret(password="wr0ng-word")
    await site.lead()
    reported = await site.until(VCenter, "main", ready_is("LoginRefused"))
    assert "default/main" in words(reported)
    tries = vcenter.requests("Login")
    for _ in range(5):
        # Any change of the object that is not of the credentials, and looks at the Secret.
        await site.client.patch(
            served(VCenter), "main", {"metadata": {"annotations": {"seen": str(_)}}}
        )
    await site.secret(password="wr0ng-word", extra="touched")
    other = start_vcenter()
    await site.vcenter(other, "other")
    await site.until(VCenter, "other", ready_is("Following"))
    assert vcenter.requests("Login") == tries == 1
    await site.secret(password="right")
    await site.until(VCenter, "main", ready_is("Following"))
    assert vcenter.requests("Login") == 2
    assert "wr0ng-word" not in caplog.text
    assert "wr0ng-word" not in words(reported)


async def test_a_secret_that_comes_late_is_found(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter, secretRef={"namespace": "default", "name": "late"})
    await site.lead()
    reported = await site.until(VCenter, "main", ready_is("NoCredentials"))
    assert "Secret default/late does not exist" in words(reported)
    await site.secret("late", password="")
    reported = await site.until(VCenter, "main", lambda obj: "has no password" in words(obj))
    await site.secret("late")
    await site.until(VCenter, "main", ready_is("Following"))


async def test_the_longest_password_is_tried(site: Any, start_vcenter: Any) -> None:
    vcenter = start_vcenter(password="p" * 1024)
    await site.vcenter(vcenter)
    await site.secret(password="p" * 1024)
    await site.lead()
    await site.until(VCenter, "main", ready_is("Following"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"password": "pass\n"}, "password has a control character, such as a line break"),
        ({"user": "u\x00ser"}, "username has a control character"),
        ({"user": "u" * 500_000}, "username has more than 1024 characters"),
        ({"password": "p" * 1025}, "password has more than 1024 characters"),
    ],
)
async def test_what_is_no_password_is_not_even_tried(
    site: Any, vcenter: Any, data: dict[str, str], said: str
) -> None:
    await site.secret("odd", **data)
    await site.vcenter(vcenter, secretRef={"namespace": "default", "name": "odd"})
    await site.lead()
    reported = await site.until(VCenter, "main", ready_is("NoCredentials"))
    assert f"Secret default/odd: {said}" in words(reported)
    assert len(words(reported)) < 300
    assert vcenter.requests("Login") == 0
    await site.secret("odd")
    await site.until(VCenter, "main", ready_is("Following"))


async def test_one_that_does_not_answer_hampers_no_other(site: Any, start_vcenter: Any) -> None:
    dead, alive = start_vcenter(), start_vcenter()
    dead.stop()
    await site.vcenter(dead, "dead")
    await site.vcenter(alive, "alive")
    found = await site.lead()
    await site.until(VCenter, "alive", ready_is("Following"))
    reported = await site.until(VCenter, "dead", ready_is("Unreachable"))
    assert dead.server in words(reported)
    assert found.fleet.ages()["dead"] is None
    value = site.registry.get_sample_value
    assert value("laneway_vsphere_connected", {"vcenter": "alive"}) == 1
    assert value("laneway_vsphere_connected", {"vcenter": "dead"}) == 0


async def test_an_outage_withdraws_nothing_and_ends_by_itself(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.until(VCenter, "main", ready_is("Following"))
    await site.rest(found)
    hosts = {one.metadata.name for one in await site.all(VSphereHost)}
    vcenter.drop("WaitForUpdatesEx", times=3)
    vcenter.cut_connections()
    await site.until(VCenter, "main", lambda obj: not ready_is("Following")(obj))
    assert {one.metadata.name for one in await site.all(VSphereHost)} == hosts
    await site.until(VCenter, "main", ready_is("Following"))
    vcenter.expire_sessions()
    vcenter.change_device("DC0_C0_H0", "0000:3b:00.0", label="new")
    await site.until(
        VSphereHost,
        next(
            one.metadata.name
            for one in await site.all(VSphereHost)
            if one.status.host == "DC0_C0_H0"
        ),
        lambda obj: [one.label for one in obj.status.devices] == ["new", ""],
    )


async def test_a_cluster_of_capv_is_enough_to_know_its_vcenter(site: Any, vcenter: Any) -> None:
    await site.secret("capv")
    spec = {
        "server": vcenter.server,
        "thumbprint": vcenter.thumbprint,
        "identityRef": {"kind": "Secret", "name": "capv"},
    }
    await site.make(capv.VSPHERE_CLUSTERS, "one", spec=spec)
    await site.make(capv.VSPHERE_CLUSTERS, "two", spec=spec)
    found = await site.lead()
    await site.followed(found, vcenter)
    await site.rest(found)
    assert vcenter.requests("Login") == 1
    name = found.fleet.name(vcenter.server)
    assert {one.spec.vcenter for one in await site.all(VSphereHost)} == {name}
    await site.vcenter(vcenter)
    await site.until(VCenter, "main", ready_is("Following"))
    await site.until_all(VSphereHost, lambda hosts: {one.spec.vcenter for one in hosts} == {"main"})


async def test_what_is_no_server_or_named_twice_is_reported(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    await site.vcenter(vcenter, "second")
    await site.vcenter(vcenter, "odd", server=":::")
    await site.vcenter(vcenter, "bare", server="vc.example.com", secretRef={})
    await site.lead()
    assert "main" in words(await site.until(VCenter, "second", ready_is("Duplicate")))
    await site.until(VCenter, "odd", ready_is("Misconfigured"))
    assert "secretRef" in words(await site.until(VCenter, "bare", ready_is("Misconfigured")))
    await site.until(VCenter, "main", ready_is("Following"))
    assert vcenter.requests("Login") == 1


async def test_with_the_last_object_of_a_vcenter_its_hosts_go(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    found = await site.lead()
    await site.until(VCenter, "main", ready_is("Following"))
    await site.until_all(VSphereHost, bool)
    await site.client.delete(served(VCenter), "main")
    await site.until_all(VSphereHost, lambda hosts: not hosts)
    assert not found.fleet.ages()
