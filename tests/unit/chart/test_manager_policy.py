"""Of what RBAC lets the manager write it writes the fields that it has to, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from support.policies import Policy, policies

MANAGER = "system:serviceaccount:harvester-system:laneway-manager"
OURS, OTHER = "wrangler.cattle.io/node-remove", "somebody/else"
GOING = "2026-11-22T00:00:00Z"


@pytest.fixture(scope="module")
def policy() -> Policy:
    [found] = [one for one in policies() if one.name == "laneway-manager-nodes"]
    return found


def node(*finalizers: str, going: str = GOING, spec: Any = None, **more: Any) -> Any:
    metadata = {"name": "node1", **more}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    if going:
        metadata["deletionTimestamp"] = going
    return {"metadata": metadata, "spec": spec or {}}


def write(before: Any, after: Any, user: str = MANAGER) -> Any:
    return {
        "operation": "DELETE" if after is None else "CREATE" if before is None else "UPDATE",
        "name": "node1",
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "userInfo": {"username": user},
        "object": after,
        "oldObject": before,
    }


@pytest.fixture(scope="module")
def found() -> list[Policy]:
    return [one for one in policies() if one.name.startswith("laneway-manager-")]


def test_a_cluster_takes_them(found: list[Policy]) -> None:
    assert len(found) == 6
    for one in found:
        one.check()


@pytest.mark.parametrize(
    ("before", "after"), [(node(OURS), node()), (node(OTHER, OURS), node(OTHER))]
)
def test_it_releases(policy: Policy, before: Any, after: Any) -> None:
    request = write(before, after)

    assert policy.concerns(request)
    assert policy.verdict(request) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (node(OURS, going=""), node(going="")),
        (node(OURS, OTHER), node()),
        (node(OURS), node(OTHER)),
        (node(OURS), node(spec={"unschedulable": True})),
        (node(OURS), node(labels={"a": "b"})),
        (node(OURS, labels={"a": "b"}), node(labels={"a": "c"})),
        (node(OURS), node(annotations={"a": "b"})),
        (node(OURS), node(ownerReferences=[{"kind": "Node", "name": "gone", "uid": "1"}])),
        (None, node(going="")),
        (node(), None),
    ],
)
def test_it_does_nothing_else(policy: Policy, before: Any, after: Any) -> None:
    said = policy.verdict(write(before, after))

    assert said.startswith("the manager cordons nodes for a reboot, and lets go of those")


UP, CORDONED = node(going=""), node(going="", spec={"unschedulable": True})
TAINTED = node(going="", spec={"unschedulable": True, "taints": [{"key": "a", "effect": "x"}]})


def test_it_cordons_only_where_it_prepares_hosts(policy: Policy) -> None:
    [preparing] = [
        one for one in policies({"hosts": {"prepare": True}}) if one.name == "laneway-manager-nodes"
    ]
    preparing.check()

    assert policy.verdict(write(UP, CORDONED)) != ""
    assert preparing.verdict(write(UP, CORDONED)) == ""
    assert preparing.verdict(write(CORDONED, UP)) == ""
    for more in (TAINTED, node(going="", labels={"a": "b"}), node(OURS, going="")):
        assert preparing.verdict(write(UP, more)) != ""


def test_others_are_not_concerned(policy: Policy) -> None:
    assert not policy.concerns(write(None, node(), "admin"))


def said(
    found: list[Policy], what: str, before: Any, after: Any, *, user: str = MANAGER, sub: str = ""
) -> str:
    """What all policies say against a write; `what` as in `virtualmachines.kubevirt.io`."""
    resource, _, group = what.partition(".")
    request = write(before, after, user) | {
        "name": (after or before)["metadata"]["name"],
        "resource": {"group": group, "version": "v1", "resource": resource},
        "subResource": sub,
    }
    return " ".join(filter(None, (one.verdict(request) for one in found if one.concerns(request))))


def changed(obj: Any, value: Any, *path: str) -> Any:
    """The same with one field changed; None: without it."""
    copy = deepcopy(obj)
    place = copy
    for name in path[:-1]:
        place = place.setdefault(name, {})
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


KUBEVIRTS, VMS = "kubevirts.kubevirt.io", "virtualmachines.kubevirt.io"
PERMITTED = ("spec", "configuration", "permittedHostDevices")
RECORD = "devices.harvesterhci.io/laneway-permitted"
OF_OTHERS = {"pciVendorSelector": "8086:1521", "resourceName": "intel.com/NIC"}
OF_OURS = {
    "pciVendorSelector": "10de:25b6",
    "resourceName": "nvidia.com/A2",
    "externalResourceProvider": True,
}
KUBEVIRT = {
    "metadata": {"name": "kubevirt", "namespace": "harvester-system", "annotations": {"a": "b"}},
    "spec": {
        "configuration": {
            "developerConfiguration": {"featureGates": ["HostDevices"]},
            "permittedHostDevices": {"pciHostDevices": [OF_OTHERS]},
        },
        "imagePullPolicy": "IfNotPresent",
    },
}


@pytest.mark.parametrize(
    "after",
    [
        changed(KUBEVIRT, [OF_OTHERS, OF_OURS], *PERMITTED, "pciHostDevices"),
        changed(KUBEVIRT, [OF_OURS], *PERMITTED, "mediatedDevices"),
        changed(KUBEVIRT, None, *PERMITTED, "pciHostDevices"),
        changed(KUBEVIRT, "[]", "metadata", "annotations", RECORD),
    ],
)
def test_it_permits_devices(found: list[Policy], after: Any) -> None:
    assert said(found, KUBEVIRTS, KUBEVIRT, after) == ""


def test_it_permits_devices_where_nothing_is_configured(found: list[Policy]) -> None:
    bare = {"metadata": {"name": "kubevirt"}, "spec": {}}

    assert said(found, KUBEVIRTS, bare, changed(bare, [OF_OURS], *PERMITTED, "usb")) == ""


@pytest.mark.parametrize(
    "after",
    [
        changed(KUBEVIRT, {"patches": []}, "spec", "customizeComponents"),
        changed(KUBEVIRT, "Always", "spec", "imagePullPolicy"),
        changed(KUBEVIRT, None, "spec", "imagePullPolicy"),
        changed(
            KUBEVIRT, ["Root"], "spec", "configuration", "developerConfiguration", "featureGates"
        ),
        changed(KUBEVIRT, {}, "spec", "configuration", "virtualMachineOptions"),
        changed(KUBEVIRT, None, "spec", "configuration", "developerConfiguration"),
        changed(
            KUBEVIRT,
            [OF_OTHERS, {**OF_OTHERS, "resourceName": "x/y"}],
            *PERMITTED,
            "pciHostDevices",
        ),
        changed(KUBEVIRT, [], *PERMITTED, "others"),
        changed(KUBEVIRT, "c", "metadata", "annotations", "a"),
        changed(KUBEVIRT, None, "metadata", "annotations", "a"),
        changed(KUBEVIRT, {"a": "b"}, "metadata", "labels"),
        changed(KUBEVIRT, ["a/b"], "metadata", "finalizers"),
        None,
    ],
)
def test_nothing_else_of_kubevirts_object_is_changed(found: list[Policy], after: Any) -> None:
    assert said(found, KUBEVIRTS, KUBEVIRT, after)
    assert said(found, KUBEVIRTS, KUBEVIRT, after, user="admin") == ""


def test_kubevirts_status_is_not_its_to_write(found: list[Policy]) -> None:
    assert said(found, KUBEVIRTS, KUBEVIRT, KUBEVIRT, sub="status")


GUEST = ("spec", "template", "spec")
VM = {
    "metadata": {"name": "vm1", "namespace": "default", "labels": {"a": "b"}},
    "spec": {
        "template": {
            "metadata": {"annotations": {"x": "y"}},
            "spec": {
                "volumes": [{"name": "root"}],
                "domain": {"devices": {"disks": [{"name": "root"}], "gpus": [{"name": "g"}]}},
            },
        }
    },
}
ALLOCATION = ("metadata", "annotations", "harvesterhci.io/deviceAllocationDetails")


@pytest.mark.parametrize(
    "after",
    [
        changed(VM, "{}", *ALLOCATION),
        # What webhooks complete on the way.
        changed(changed(VM, "{}", *ALLOCATION), "q35", *GUEST, "domain", "machine"),
        changed(changed(VM, "{}", *ALLOCATION), [], *GUEST, "domain", "devices", "gpus"),
    ],
)
def test_it_records_what_a_machine_has(found: list[Policy], after: Any) -> None:
    assert said(found, VMS, VM, after) == ""
    assert said(found, VMS, after, VM) == ""


@pytest.mark.parametrize(
    "after",
    [
        changed(VM, [{"name": "root", "secret": {"secretName": "x"}}], *GUEST, "volumes"),
        changed(VM, None, *GUEST, "volumes"),
        changed(VM, [{}], *GUEST, "accessCredentials"),
        changed(VM, [{}], "spec", "dataVolumeTemplates"),
        changed(VM, [], *GUEST, "domain", "devices", "disks"),
        changed(VM, [{}], *GUEST, "domain", "devices", "filesystems"),
        changed(VM, {"container": {"image": "x"}}, *GUEST, "domain", "firmware", "kernelBoot"),
        changed(
            VM,
            "[]",
            "spec",
            "template",
            "metadata",
            "annotations",
            "hooks.kubevirt.io/hookSidecars",
        ),
        changed(VM, "c", "metadata", "annotations", "example.org/x"),
        changed(VM, {"a": "c"}, "metadata", "labels"),
        changed(VM, [{"kind": "Node", "name": "x"}], "metadata", "ownerReferences"),
        None,
    ],
)
def test_nothing_else_of_a_machine_is_changed(found: list[Policy], after: Any) -> None:
    assert said(found, VMS, VM, after)
    assert said(found, VMS, VM, after, user="admin") == ""


def test_it_makes_no_machine(found: list[Policy]) -> None:
    assert said(found, VMS, None, VM)


def test_it_releases_claims_only(found: list[Policy]) -> None:
    claims = "pcideviceclaims.devices.harvesterhci.io"
    claim = {"metadata": {"name": "a", "finalizers": ["x"]}, "spec": {"userName": "admin"}}

    assert said(found, claims, claim, changed(claim, None, "metadata", "finalizers")) == ""
    assert said(found, claims, claim, changed(claim, "mallory", "spec", "userName"))


def named(name: str, **more: Any) -> Any:
    return {"metadata": {"name": name}, **more}


SECRETS, LEASES = "secrets", "leases.coordination.k8s.io"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
CRD = "pcidevices.devices.harvesterhci.io"
GROUP = "devices.harvesterhci.io"


@pytest.mark.parametrize(
    ("what", "obj", "allowed"),
    [
        (SECRETS, named("laneway-webhook-tls", type="Opaque"), True),
        (SECRETS, named("another", type="Opaque"), False),
        # Kubernetes would fill it with the token of an account.
        (
            SECRETS,
            named("laneway-webhook-tls", type="kubernetes.io/service-account-token"),
            False,
        ),
        (LEASES, named("laneway-manager"), True),
        (LEASES, named("harvester-controllers"), False),
        (CRDS, named(CRD, spec={"group": GROUP}), True),
        (CRDS, named(CRD, spec={"group": GROUP, "conversion": {"strategy": "None"}}), True),
        (CRDS, named(CRD, spec={"group": GROUP, "conversion": {"strategy": "Webhook"}}), False),
        (CRDS, named("others.devices.harvesterhci.io", spec={"group": GROUP}), False),
        (CRDS, named("nodes.example.org", spec={"group": "example.org"}), False),
    ],
)
def test_what_it_creates_has_the_names_that_it_must(
    found: list[Policy], what: str, obj: Any, allowed: bool
) -> None:
    assert (said(found, what, None, obj) == "") is allowed
    assert said(found, what, None, obj, user="admin") == ""


HOOKS = named(
    "laneway-mutator",
    webhooks=[
        {
            "name": "machines.laneway.harvesterhci.io",
            "rules": [{"resources": ["virtualmachines"]}],
            "failurePolicy": "Ignore",
            "clientConfig": {"service": {"name": "laneway-webhook"}},
        }
    ],
)


def hooked(**how: Any) -> Any:
    copy = deepcopy(HOOKS)
    copy["webhooks"][0] |= how
    return copy


@pytest.mark.parametrize("kind", ["mutating", "validating"])
@pytest.mark.parametrize(
    ("after", "allowed"),
    [
        (hooked(clientConfig={"service": {"name": "laneway-webhook"}, "caBundle": "eA=="}), True),
        (hooked(clientConfig={"url": "https://example.org", "caBundle": "eA=="}), False),
        (hooked(rules=[{"resources": ["secrets"]}]), False),
        (hooked(failurePolicy="Fail"), False),
        (hooked(namespaceSelector={}), False),
        (named("laneway-mutator", webhooks=[]), False),
        (named("laneway-mutator", webhooks=[*HOOKS["webhooks"], *HOOKS["webhooks"]]), False),
    ],
)
def test_of_webhooks_it_changes_whom_they_trust(
    found: list[Policy], kind: str, after: Any, allowed: bool
) -> None:
    what = f"{kind}webhookconfigurations.admissionregistration.k8s.io"

    assert (said(found, what, HOOKS, after) == "") is allowed


def test_it_deletes_driver_pods_of_laneway_only(found: list[Policy]) -> None:
    ours = {"app": "nvidia-driver-daemonset", "app.kubernetes.io/part-of": "laneway"}
    driver = {"metadata": {"name": "driver-1", "labels": ours}}

    assert said(found, "pods", driver, None) == ""
    for labels in ({}, {"app": "web"}, {"app": "nvidia-driver-daemonset"}, {"app": "laneway"}):
        other = {"metadata": {"name": "other", "labels": labels}}
        assert "deletes pods of Laneway's driver toolkit only" in said(found, "pods", other, None)
    assert said(found, "pods", {"metadata": {"name": "bare"}}, None) != ""
    assert said(found, "pods", None, driver) != ""


def machine_set(**annotations: str) -> Any:
    return {
        "metadata": {"name": "gpu", "annotations": annotations, "labels": {"a": "b"}},
        "spec": {"replicas": 0, "clusterName": "c"},
    }


CAPACITY = {
    "capacity.cluster-autoscaler.kubernetes.io/gpu-count": "1",
    "devices.harvesterhci.io/laneway-capacity": "{}",
}


@pytest.mark.parametrize("plural", ["machinedeployments", "machinesets"])
@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        (machine_set(), machine_set(**CAPACITY), True),
        (machine_set(**CAPACITY), machine_set(), True),
        (machine_set(), machine_set(other="x"), False),
        (machine_set(other="x"), machine_set(**CAPACITY), False),
        (machine_set(other="x"), machine_set(other="y"), False),
        (machine_set(), changed(machine_set(**CAPACITY), 9, "spec", "replicas"), False),
        (machine_set(), changed(machine_set(), {"a": "c"}, "metadata", "labels"), False),
        (machine_set(), changed(machine_set(), ["x"], "metadata", "finalizers"), False),
        (None, machine_set(), False),
        (machine_set(), None, False),
    ],
)
def test_of_sets_of_machines_it_changes_what_the_autoscaler_reads(
    plural: str, before: Any, after: Any, allowed: bool
) -> None:
    found = policies({"manager": {"kubevirtMachines": {"capacity": True}}})
    [one] = [one for one in found if one.name == "laneway-manager-machine-sets"]
    one.check()
    what = f"{plural}.cluster.x-k8s.io"

    assert (said([one], what, before, after) == "") is allowed
    assert said([one], what, before, after, user="admin") == ""
    assert said([one], what, machine_set(), machine_set(), sub="scale") != ""
