"""What the webhook for machine pools may do in each cluster, and what its accounts must not."""

from __future__ import annotations

import contextlib

import pytest

from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from support.accounts import Installed, ask, may, right
from support.pool_guard import READER, WEBHOOK, Guard

pytestmark = pytest.mark.realapi
DEVICES = "devices.harvesterhci.io"
WRITES = ("create", "update", "patch", "delete", "deletecollection")
OWN_NAMESPACE = "harvester-system"
ANYWHERE = (
    *(f"{verb} secrets" for verb in ("get", "list", "watch", *WRITES)),
    # Kubeconfigs and certificates are mounted by the kubelet; cloud credentials are read by no one.
    f"get secrets {OWN_NAMESPACE}/laneway-harvester",
    f"get secrets {OWN_NAMESPACE}/laneway-pools-webhook-tls",
    f"get secrets {OWN_NAMESPACE}/laneway-pools-reader",
    "get secrets cattle-global-data/cc-abcde",
    "list configmaps",
    "get pods/log default/",
    "get pods/exec default/",
    "create pods/exec default/",
    "create pods default/",
    "get nodes/proxy",
    "get services/proxy default/",
    "create serviceaccounts/token harvester-system/laneway-manager",
    "impersonate users",
    "create events default/",
    "create leases.coordination.k8s.io harvester-system/",
    "create clusterrolebindings.rbac.authorization.k8s.io",
    "escalate clusterroles.rbac.authorization.k8s.io",
    "patch validatingwebhookconfigurations.admissionregistration.k8s.io laneway-pools-webhook",
    "create mutatingwebhookconfigurations.admissionregistration.k8s.io",
)
MANAGED = (
    "clusters.provisioning.cattle.io",
    "harvesterconfigs.rke-machine-config.cattle.io",
    "lanewayconfigs.rke-machine-config.cattle.io",
    "machines.cluster.x-k8s.io",
)
SUPPLY = (
    f"pcideviceclaims.{DEVICES}",
    f"usbdeviceclaims.{DEVICES}",
    f"vgpudevices.{DEVICES}",
    "nodes",
    "pods",
    "virtualmachines.kubevirt.io",
    "virtualmachineinstances.kubevirt.io",
)
FORBIDDEN = {
    WEBHOOK: (
        *ANYWHERE,
        *(f"{verb} {kind}" for verb in WRITES for kind in MANAGED),
        "patch clusters/status.provisioning.cattle.io",
        "list clusters.management.cattle.io",
        "list clusters.cluster.x-k8s.io",
        "list nodes",
        "list pods",
        "list namespaces",
    ),
    READER: (
        *ANYWHERE,
        *(f"{verb} {kind}" for verb in WRITES for kind in SUPPLY),
        *(f"patch {kind.replace('.', '/status.', 1)}" for kind in SUPPLY if "." in kind),
        "use pcideviceclaims.devices.harvesterhci.io",
        "create subjectaccessreviews.authorization.k8s.io",
        "list settings.harvesterhci.io",
        "patch settings.harvesterhci.io overcommit-config",
        "get settings.harvesterhci.io overcommit-config",
        "list kubevirts.kubevirt.io",
        "list namespaces",
    ),
}
ALLOWED = {
    WEBHOOK: [
        *(f"{verb} {kind}" for verb in ("list", "watch") for kind in MANAGED),
        "create subjectaccessreviews.authorization.k8s.io",
    ],
    READER: [
        *(f"{verb} {kind}" for verb in ("list", "watch") for kind in SUPPLY),
        "watch settings.harvesterhci.io overcommit-config",
    ],
}


async def test_each_account_may_read_what_decides_and_nothing_else(clusters: Guard) -> None:
    for chart, account in ((clusters.management, WEBHOOK), (clusters.reader, READER)):
        async with await chart.acting(account) as client:
            for need in ALLOWED[account]:
                await chart.granted(client, right(need))
            wrong = [one for one in FORBIDDEN[account] if await may(client, right(one))]
            assert not wrong, account


async def test_what_is_forbidden_is_refused(clusters: Guard) -> None:
    async with contextlib.AsyncExitStack() as stack:

        async def acting(chart: Installed, account: str) -> Client:
            return await stack.enter_async_context(await chart.acting(account))

        webhook = await acting(clusters.management, WEBHOOK)
        reader = await acting(clusters.reader, READER)
        secrets = f"/api/v1/namespaces/{OWN_NAMESPACE}/secrets"
        group = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        for client, method, path in (
            (webhook, "GET", secrets),
            (webhook, "GET", f"{secrets}/laneway-pools-webhook-tls"),
            (webhook, "DELETE", f"{group}/laneway-pools-webhook"),
            (
                webhook,
                "DELETE",
                "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters",
            ),
            (webhook, "GET", "/api/v1/pods"),
            (reader, "GET", secrets),
            (reader, "GET", "/apis/harvesterhci.io/v1beta1/settings"),
            (reader, "DELETE", "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"),
            (reader, "DELETE", f"/apis/{DEVICES}/v1beta1/vgpudevices"),
        ):
            with pytest.raises(ForbiddenError):
                await ask(client, method, path)
