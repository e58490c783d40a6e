"""A user with rights in one namespace only is told what they may not see, and nothing untrue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from laneway.api import PCIDeviceClaim
from laneway.cli import takeover as command
from laneway.controllers.doctor.facts import look
from laneway.controllers.doctor.harvester import DAEMON_SET, PARKED, RECORD
from laneway.controllers.doctor.objects import DAEMON_SETS
from laneway.controllers.takeover import adopting, steps
from laneway.controllers.takeover.facts import look as look_before
from laneway.core.doctor.cluster import judge
from laneway.core.doctor.finding import Level
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.resource import served
from laneway.roles.install import install_crds
from support.accounts import NAMESPACE, Installed, account, right

NAME = "tester"
RBAC = "rbac.authorization.k8s.io"
pytestmark = pytest.mark.realapi


def placed(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE}


@pytest.fixture
async def confined(chart: Installed) -> AsyncIterator[Client]:
    """A client of a user who may do everything, in the namespace of Harvester alone."""
    await install_crds(chart.client)
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": "default"}
    role = {"apiGroup": RBAC, "kind": "Role", "name": NAME}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": placed(NAME)}
    await chart.apply(account(NAME))
    await chart.apply(head | {"kind": "Role", "rules": rules})
    await chart.apply(head | {"kind": "RoleBinding", "roleRef": role, "subjects": [subject]})
    async with await chart.acting(NAME, "default") as client:
        await chart.granted(client, right(f"patch daemonsets.apps {NAMESPACE}/"))
        yield client


@pytest.fixture
async def parked(chart: Installed) -> None:
    """Harvester's controller after a takeover, and a claim that would cost a node its devices."""
    labels = {"app": DAEMON_SET}
    pod = {"nodeSelector": {PARKED: "parked"}, "containers": [{"name": "c", "image": "a/b:v1.8.1"}]}
    await chart.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": placed(DAEMON_SET),
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
    )
    record = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": placed(RECORD), "data": {}}
    await chart.apply(record)


async def is_parked(client: Client) -> bool:
    found = await client.get(DAEMON_SETS, DAEMON_SET, NAMESPACE)
    return PARKED in (found.spec.template.spec.node_selector or {})


async def test_the_doctor_takes_nothing_for_missing_that_it_may_not_see(confined: Client) -> None:
    found = judge(await look(confined))
    # The real server of the tests is older than Laneway needs, which is reported of course.
    wrong = {one.check for one in found if one.level is not Level.OK}
    assert wrong - {"Kubernetes"} == {"Rights"}
    reported = {one.what for one in found if one.check == "Rights"}
    assert "you may not list daemonsets.apps" in reported
    assert "you may not list kubevirts.kubevirt.io" in reported
    assert not [one for one in found if one.check in ("Definitions", "Webhooks", "Nodes")]


@pytest.mark.slow
@pytest.mark.usefixtures("parked")
async def test_harvesters_controller_does_not_start_for_a_user_who_may_not_read_the_objects(
    chart: Installed, confined: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = served(PCIDeviceClaim)
    head = {"apiVersion": claim.api_version, "kind": claim.kind}
    spec = {"nodeName": "node1", "address": "0000:08:00.0", "userName": "admin"}
    await chart.client.create(claim, head | {"metadata": {"name": "free"}, "spec": spec})
    try:
        facts = await look_before(confined)
        assert await command.undo(confined, facts, dry_run=False) == 3
        reported = capsys.readouterr().out
        assert "Rights: you may not list pcideviceclaims.devices.harvesterhci.io" in reported
        assert "no DaemonSet" not in reported
        assert await command.carry_out(confined, facts, dry_run=False, seconds=1) == 3
        assert "cannot read which of KubeVirt's entries" in capsys.readouterr().out
        with pytest.raises(ForbiddenError):  # And without having looked before.
            await steps.back(confined, print)
        assert await is_parked(chart.client)
    finally:
        await chart.client.delete(claim, "free")


@pytest.mark.slow
async def test_a_controller_that_cannot_be_seen_is_not_taken_over(
    chart: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    before = await chart.client.get(KUBEVIRTS, "kubevirt", NAMESPACE)
    await chart.apply(account(NAME))
    async with await chart.acting(NAME, "default") as nobody:
        facts = await look_before(nobody)
        assert await command.carry_out(nobody, facts, dry_run=False, seconds=1) == 3
        assert "cannot read whether" in capsys.readouterr().out
        assert await command.undo(nobody, facts, dry_run=False) == 3
        assert "Nothing to do" not in capsys.readouterr().out
        for work in (adopting.adopt, adopting.disown):
            with pytest.raises(ForbiddenError):
                await work(nobody)
    assert await chart.client.get(KUBEVIRTS, "kubevirt", NAMESPACE) == before
