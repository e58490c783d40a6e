"""Who is at the other end of a connection, and what it answers, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laneway.api import find_condition
from laneway.api.vsphere import VCenter, VSphereHost
from laneway.kube.resource import served


def ready_is(reason: str) -> Callable[[Any], bool]:
    def holds(vcenter: Any) -> bool:
        found = find_condition(vcenter.status.conditions, "Ready")
        return found is not None and found.reason == reason

    return holds


def words(vcenter: Any) -> str:
    found = find_condition(vcenter.status.conditions, "Ready")
    return found.message if found is not None else ""


async def test_a_wrong_thumbprint_is_reported_and_corrected(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter, thumbprint=":".join(["AB"] * 20))
    await site.lead()
    await site.until(VCenter, "main", ready_is("LoginRefused"))
    assert vcenter.requests("Login") == 0, "no password is shown to a stranger"
    spec = {"thumbprint": vcenter.thumbprint_sha256}
    await site.client.patch(served(VCenter), "main", {"spec": spec})
    await site.until(VCenter, "main", ready_is("Following"))
    await site.client.patch(
        served(VCenter), "main", {"spec": {"thumbprint": None, "caBundle": vcenter.ca}}
    )
    await site.until(VCenter, "main", lambda obj: obj.status.observed_generation == 3)
    await site.until(VCenter, "main", ready_is("Following"))


async def test_a_vcenter_that_answers_nonsense_is_asked_again_with_words(
    site: Any, vcenter: Any
) -> None:
    vcenter.nonsense("RetrieveServiceContent", "<html>Bad day</html>", times=4)
    vcenter.nonsense("WaitForUpdatesEx", '{"not": "SOAP"}', times=2)
    await site.vcenter(vcenter)
    await site.lead()
    reported = await site.until(VCenter, "main", ready_is("Unreachable"))
    assert vcenter.server in words(reported)
    await site.until(VCenter, "main", ready_is("Following"))
    await site.until_all(VSphereHost, bool)
