"""What each account may do, and what it must not be able to: asked of the server, and tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from laneway.api.registry import KINDS
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from support.accounts import (
    AGENT,
    MANAGER,
    NAMESPACE,
    WEBHOOK,
    Installed,
    account,
    ask,
    bound,
    may,
    right,
)

DEVICES = "devices.harvesterhci.io"
OURS = [f"{kind.plural}.{DEVICES}" for kind in KINDS]
OF_VSPHERE = [
    f"{plural}.{DEVICES}" for plural in ("vcenters", "vspherehosts", "vspherereservations")
]
"""What Laneway alone writes, or accounts that may read all Secrets."""
POLICIES, PREPARATIONS = f"hostpolicies.{DEVICES}", f"hostpreparations.{DEVICES}"
OF_HOSTS = (POLICIES, PREPARATIONS)
OF_NODES = [kind for kind in OURS if kind not in (*OF_VSPHERE, POLICIES)]
WRITES = ("create", "update", "patch", "delete", "deletecollection")
OF_OTHERS = (
    "get secrets kube-system/",
    "get configmaps kube-system/",
    "create pods default/",
    "delete pods default/",
    "get pods/log default/",
    *(
        f"{verb} pods/{how} {namespace}/"
        for verb in ("get", "create")
        for how in ("exec", "attach", "portforward", "ephemeralcontainers")
        for namespace in ("default", "kube-system", "harvester-system")
    ),
    "create pods/eviction default/",
    "create serviceaccounts/token harvester-system/laneway-manager",
    "impersonate users",
    "impersonate serviceaccounts default/default",
    "create nodes",
    "update nodes",
    "delete nodes",
    "patch nodes/status",
    "get nodes/proxy",
    "get services/proxy default/",
    "patch daemonsets.apps harvester-system/laneway-agent",
    "patch deployments.apps harvester-system/laneway-manager",
    "create clusterroles.rbac.authorization.k8s.io",
    "bind clusterroles.rbac.authorization.k8s.io cluster-admin",
    "escalate clusterroles.rbac.authorization.k8s.io",
    "create clusterrolebindings.rbac.authorization.k8s.io",
    "create rolebindings.rbac.authorization.k8s.io harvester-system/",
    "create certificatesigningrequests.certificates.k8s.io",
    "create tokenreviews.authentication.k8s.io",
    "delete customresourcedefinitions.apiextensions.k8s.io pcidevices.devices.harvesterhci.io",
    "patch customresourcedefinitions.apiextensions.k8s.io virtualmachines.kubevirt.io",
    "create mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "patch mutatingwebhookconfigurations.admissionregistration.k8s.io another",
    "patch validatingwebhookconfigurations.admissionregistration.k8s.io another",
    "delete validatingwebhookconfigurations.admissionregistration.k8s.io laneway-validator",
    "create virtualmachines.kubevirt.io default/",
    "delete virtualmachines.kubevirt.io default/",
    "update virtualmachines.kubevirt.io default/",
    "patch virtualmachineinstances.kubevirt.io default/",
    "delete virtualmachineinstances.kubevirt.io default/",
    "create kubevirts.kubevirt.io harvester-system/",
    "delete kubevirts.kubevirt.io harvester-system/",
    "get leases.coordination.k8s.io kube-node-lease/node1",
    "patch leases.coordination.k8s.io kube-system/kube-scheduler",
    "patch leases.coordination.k8s.io harvester-system/another",
    "delete leases.coordination.k8s.io harvester-system/laneway-manager",
    *(f"administer {claims}.{DEVICES}" for claims in ("pcideviceclaims", "usbdeviceclaims")),
    *(f"use {claims}.{DEVICES}" for claims in ("pcideviceclaims", "usbdeviceclaims")),
    *(f"deletecollection {kind}" for kind in OURS),
    *(f"update {kind}" for kind in OURS),
    f"create vgpulayouts.{DEVICES}",
    f"patch vgpulayouts.{DEVICES}",
    f"delete vgpulayouts.{DEVICES}",
    f"create usbdeviceclaims.{DEVICES}",
)
"""What none of the parts may do."""

FORBIDDEN: dict[str, Sequence[str]] = {
    AGENT: (
        *OF_OTHERS,
        *(f"{verb} secrets harvester-system/" for verb in ("get", "list", "watch", *WRITES)),
        "get secrets harvester-system/laneway-webhook-tls",
        "get customresourcedefinitions.apiextensions.k8s.io",
        "create customresourcedefinitions.apiextensions.k8s.io",
        "patch customresourcedefinitions.apiextensions.k8s.io pcidevices.devices.harvesterhci.io",
        "patch mutatingwebhookconfigurations.admissionregistration.k8s.io laneway-mutator",
        "patch validatingwebhookconfigurations.admissionregistration.k8s.io laneway-validator",
        "list virtualmachines.kubevirt.io",
        "patch virtualmachines.kubevirt.io default/",
        "patch kubevirts.kubevirt.io harvester-system/",
        "get leases.coordination.k8s.io harvester-system/laneway-manager",
        "create leases.coordination.k8s.io harvester-system/",
        "create events harvester-system/",
        "list events default/",
        "create resourceslices.resource.k8s.io",
        "patch resourceclaims.resource.k8s.io/status default/",
        f"delete usbdeviceclaims.{DEVICES}",
    ),
    MANAGER: (
        *OF_OTHERS,
        "list secrets harvester-system/",
        "get secrets harvester-system/another",
        "patch secrets harvester-system/another",
        "delete secrets harvester-system/laneway-webhook-tls",
        "create secrets default/",
        "get secrets default/laneway-webhook-tls",
        "create leases.coordination.k8s.io default/",
        "list customresourcedefinitions.apiextensions.k8s.io",
        "get customresourcedefinitions.apiextensions.k8s.io virtualmachines.kubevirt.io",
        "list resourceslices.resource.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
        *(f"create {kind}" for kind in OURS if kind not in OF_HOSTS),
        *(f"patch {kind}" for kind in OURS if "claims" not in kind and kind not in OF_HOSTS),
        f"delete {POLICIES}",
        f"patch {PREPARATIONS.replace('.', '/status.', 1)}",
        "patch settings.harvesterhci.io another",
        f"patch vgpudevices/status.{DEVICES}",
        f"patch pcidevices/status.{DEVICES}",
    ),
    WEBHOOK: (
        *OF_OTHERS,
        *(f"{verb} {kind}" for verb in WRITES for kind in OURS),
        *(f"patch {kind.replace('.', '/status.', 1)}" for kind in OURS),
        *(f"{verb} secrets harvester-system/" for verb in ("get", "list", "watch", *WRITES)),
        "get secrets harvester-system/laneway-webhook-tls",
        *(f"{verb} events default/" for verb in WRITES),
        *(f"{verb} nodes" for verb in WRITES),
        *(f"{verb} virtualmachines.kubevirt.io default/" for verb in WRITES),
        "patch kubevirts.kubevirt.io harvester-system/",
        "create leases.coordination.k8s.io harvester-system/",
        "create customresourcedefinitions.apiextensions.k8s.io",
        "patch customresourcedefinitions.apiextensions.k8s.io pcidevices.devices.harvesterhci.io",
        "patch mutatingwebhookconfigurations.admissionregistration.k8s.io laneway-mutator",
    ),
}

ALLOWED: dict[str, Sequence[str]] = {
    AGENT: (
        "list pods harvester-system/",
        "get daemonsets.apps harvester-system/nvidia-driver-runtime",
        "create events default/",
        "patch nodes",
        # A node without --dra takes away what one with it published; claims keep what they got.
        "delete resourceslices.resource.k8s.io",
        "list resourceclaims.resource.k8s.io",
        "watch resourceclaims.resource.k8s.io",
    ),
    MANAGER: (
        "list secrets harvester-system/laneway-webhook-tls",
        "patch secrets harvester-system/laneway-webhook-tls",
        "create secrets harvester-system/",
        "patch leases.coordination.k8s.io harvester-system/laneway-manager",
        "patch virtualmachines.kubevirt.io default/vm1",
        *(
            f"{verb} customresourcedefinitions.apiextensions.k8s.io {kind}"
            for verb in ("get", "patch")
            for kind in OURS
        ),
        # What a node has left behind is removed, by hand where it is stuck.
        *(
            f"{verb} {kind}"
            for verb in ("list", "delete")
            for kind in OF_NODES
            if "lay" not in kind
        ),
        f"patch pcideviceclaims.{DEVICES}",
        f"patch usbdeviceclaims.{DEVICES}",
        f"patch vgpulayouts/status.{DEVICES}",
        f"create {POLICIES}",
        f"create {PREPARATIONS}",
        "patch settings.harvesterhci.io gpu-enable",
        # A node that Harvester's clean-up holds is released.
        "patch nodes",
    ),
    WEBHOOK: ("create subjectaccessreviews.authorization.k8s.io", "list pods"),
}


@pytest.mark.realapi
async def test_no_account_may_do_more_than_it_must(chart: Installed) -> None:
    await chart.install()
    for who, needs in ALLOWED.items():
        async with await chart.acting(who) as client:
            for need in needs:
                await chart.granted(client, right(need))
            wrong = [one for one in FORBIDDEN[who] if await may(client, right(one))]
            assert not wrong, who


@pytest.mark.realapi
async def test_what_is_forbidden_is_refused(chart: Installed) -> None:
    await chart.install()
    async with await chart.acting(AGENT) as agent, await chart.acting(WEBHOOK) as webhook:
        await chart.granted(agent, right("list pods"))
        await chart.granted(webhook, right("list pods"))
        await refused(agent, "GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")
        for namespace in (NAMESPACE, "default", "kube-system"):
            await refused(agent, "GET", f"/api/v1/namespaces/{namespace}/pods/any/exec")
        crd = {"metadata": {"labels": {"taken": "over"}}}
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await refused(agent, "POST", crds, crd)
        vms = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
        await refused(agent, "POST", vms, {"metadata": {"name": "vm1"}})
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}}
        await refused(webhook, "POST", "/api/v1/nodes", node)
        await refused(webhook, "GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")


async def refused(client: Client, method: str, path: str, body: Any = None) -> None:
    with pytest.raises(ForbiddenError):
        await ask(client, method, path, body)


PEOPLE = {
    "laneway-view": (
        [f"{verb} {kind}" for verb in ("get", "list", "watch") for kind in OURS],
        [
            *(f"{verb} {kind}" for verb in WRITES for kind in OURS),
            f"use pcideviceclaims.{DEVICES}",
        ],
    ),
    "laneway-admin": (
        [
            *(
                f"{verb} {kind}"
                for verb in WRITES
                for kind in OURS
                if kind not in (*OF_VSPHERE, PREPARATIONS)
            ),
            f"patch {PREPARATIONS}",
            *(f"list {kind}" for kind in OURS),
            *(
                f"{verb} {claims}.{DEVICES}"
                for verb in ("administer", "use")
                for claims in ("pcideviceclaims", "usbdeviceclaims")
            ),
        ],
        [
            *(f"patch {kind.replace('.', '/status.', 1)}" for kind in OURS),
            *(f"{verb} {kind}" for verb in WRITES for kind in OF_VSPHERE),
            f"create {PREPARATIONS}",
            f"delete {PREPARATIONS}",
            "get secrets harvester-system/",
            "patch nodes",
        ],
    ),
}


@pytest.mark.realapi
@pytest.mark.parametrize("role", PEOPLE)
async def test_people_get_what_their_role_says(chart: Installed, role: str) -> None:
    await chart.install()
    await chart.apply(account("person"))
    await chart.apply(bound("person", role))
    can, cannot = PEOPLE[role]
    async with await chart.acting("person", "default") as client:
        for one in can:
            await chart.granted(client, right(one))
        assert not [one for one in cannot if await may(client, right(one))]


@pytest.mark.slow
async def test_who_may_view_the_cluster_may_view_devices(chart: Installed) -> None:
    await chart.install()
    await chart.apply(account("person"))
    await chart.apply(bound("person", "view"))
    async with await chart.acting("person", "default") as client:
        await chart.granted(client, right(f"list vgpudevices.{DEVICES}"))
