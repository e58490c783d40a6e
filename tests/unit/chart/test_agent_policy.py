"""An agent writes about its own node only: what RBAC cannot say, and a policy does."""

from __future__ import annotations

from typing import Any

import pytest

from support.policies import NODE_NAME, Policy, policies, refusal

AGENT = "system:serviceaccount:harvester-system:laneway-agent"
DEVICES = "devices.harvesterhci.io"


@pytest.fixture(scope="module")
def found() -> list[Policy]:
    return [one for one in policies() if one.name.startswith("laneway-agent-")]


SLICE = "laneway.devices.harvesterhci.io"


def slice_of(node: str, name: str = "", **more: Any) -> Any:
    """A ResourceSlice as an agent makes it."""
    spec = {"driver": SLICE, "nodeName": node, "pool": {"name": node}, **more}
    return {"metadata": {"name": name or f"{node}-{SLICE}-0"}, "spec": spec}


def claim(name: str, user: str = "admin", node: str = "node1", **more: Any) -> Any:
    """The claim of a function."""
    digits = name.rpartition("-")[2]
    address = f"{digits[:4]}:{digits[4:6]}:{digits[6:8]}.{digits[8:]}"
    spec = {"nodeName": node, "address": address, "userName": user, **more}
    return {"metadata": {"name": name}, "spec": spec}


def owned(obj: Any, name: str, kind: str = "PCIDevice", **more: Any) -> Any:
    """The same with an owner."""
    version = "v1" if kind == "Node" else "devices.harvesterhci.io/v1beta1"
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": "1", **more}
    return obj | {"metadata": obj["metadata"] | {"ownerReferences": [owner]}}


def interface(name: str, called: str) -> Any:
    """The object of an SR-IOV interface."""
    labels = {"nodename": "node1"}
    annotations = {"sriov.devices.harvesterhi.io/interface-name": called}
    spec = {"nodeName": "node1", "address": "0000:04:00.0"}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def thing(name: str, *, label: str = "", spec: str = "", status: str = "", **more: Any) -> Any:
    """An object, with the node that its parts name."""
    return {
        "metadata": {"name": name, **({"labels": {"nodename": label}} if label else {})},
        **({"spec": {"nodeName": spec}} if spec else {}),
        **({"status": {"nodeName": status}} if status else {}),
        **more,
    }


def write(resource: str, new: Any, old: Any = None, *, sub: str = "", group: str = DEVICES) -> Any:
    """What the API server would ask about a write by an agent."""
    operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    return {
        "operation": operation,
        "name": (new or old)["metadata"]["name"],
        "resource": {"group": group, "version": "v1", "resource": resource},
        "subResource": sub,
        "userInfo": {"username": AGENT},
        "object": new,
        "oldObject": old,
    }


def changed(resource: str, obj: Any, **how: Any) -> Any:
    return write(resource, obj, obj, **how)


OWN = {
    "device made": write("pcidevices", thing("node1-000008000", label="node1")),
    "device reported": changed("pcidevices", thing("node1-000008000", status="node1")),
    "device gone": write("pcidevices", None, thing("node1-000008000", label="node1")),
    "vGPU": changed("vgpudevices", thing("node1-000008004", label="node1", spec="node1")),
    "vGPU status": changed("vgpudevices", thing("node1-000008004", spec="node1"), sub="status"),
    "claim made": write(
        "pcideviceclaims", owned(claim("node1-000008004"), "node1-000008004", controller=True)
    ),
    "claim held": write(
        "pcideviceclaims", claim("any", "somebody") | {"x": 1}, claim("any", "somebody")
    ),
    "interface": write("sriovnetworkdevices", interface("node1-eno1", "eno1")),
    "interface of an odd name": write(
        "sriovnetworkdevices", interface("node1-eth-0-1a2b3c4d", "Eth_0")
    ),
    "USB device": write("usbdevices", thing("node1-046d-c52b-003011", label="node1")),
    "function of a far domain": write("pcidevices", thing("node1-10000e1000", label="node1")),
    "instances of a GPU": write(
        "migconfigurations",
        owned(
            {
                "metadata": {"name": "node1-000008000"},
                "spec": {"nodeName": "node1", "gpuAddress": "0000:08:00.0"},
            },
            "node1-000008000",
            "SRIOVGPUDevice",
        ),
    ),
    "owner that somebody else named": changed(
        "vgpudevices", owned(thing("node1-000008004", spec="node1"), "x", "Other")
    ),
    "claim under a name that is wrong": changed(
        "pcideviceclaims", thing("some-name", spec="node1"), sub="status"
    ),
    "label of a node put on": write(
        "migconfigurations",
        thing("any", spec="node1", label="node1"),
        thing("any", spec="node1"),
    ),
    "USB claim not answered yet": changed("usbdeviceclaims", thing("node1-046d-c52b-003011")),
    "USB claim answered": write(
        "usbdeviceclaims",
        thing("node1-046d-c52b-003011", status="node1"),
        thing("node1-046d-c52b-003011", status=""),
        sub="status",
    ),
    "its own object": write("nodes", thing("node1")),
    "fields that are null": changed(
        "vgpudevices", thing("node1-000008004", spec="node1") | {"status": {"nodeName": None}}
    ),
    "slice": write(
        "resourceslices", owned(slice_of("node1"), "node1", "Node"), group="resource.k8s.io"
    ),
    "slice tried": write(
        "resourceslices", slice_of("node1", f"node1-{SLICE}-trial-1"), group="resource.k8s.io"
    ),
}
OTHERS = {
    "device made": write("pcidevices", thing("node2-000008000", label="node2")),
    "device made as if its own": write(
        "pcidevices", thing("node2-000008000", label="node1", spec="node2")
    ),
    "device reported": changed("pcidevices", thing("node2-000008000", status="node2")),
    "device gone": write("pcidevices", None, thing("node2-000008000", label="node2")),
    "vGPU": changed("vgpudevices", thing("node2-000008004", label="node2", spec="node2")),
    "vGPU status": changed("vgpudevices", thing("node2-000008004", spec="node2"), sub="status"),
    "claim made": write("pcideviceclaims", thing("node2-000008004", spec="node2")),
    "taken": write(
        "vgpudevices",
        thing("node2-000008004", spec="node1"),
        thing("node2-000008004", spec="node2"),
    ),
    "given away": write(
        "vgpudevices",
        thing("node1-000008004", spec="node2"),
        thing("node1-000008004", spec="node1"),
    ),
    "one part names another": changed(
        "vgpudevices", thing("node1-000008004", label="node1", spec="node2")
    ),
    "USB claim": changed("usbdeviceclaims", thing("node2-046d-c52b-003011")),
    "USB claim of a node whose name begins alike": changed(
        "usbdeviceclaims", thing("node1-a-046d-c52b-003011")
    ),
    "USB claim of a node that is named as a device is": changed(
        "usbdeviceclaims", thing("node1-046d-c52b-003011-046d-c52b-003011")
    ),
    "of nobody, named as if its own": changed("pcidevices", thing("node1-000008000")),
    "USB claim answered elsewhere": changed(
        "usbdeviceclaims", thing("node1-046d-c52b-003011", status="node2")
    ),
    "its object": write("nodes", thing("node2")),
    "of nobody": changed("migconfigurations", thing("some-name")),
    "a node whose name begins alike": changed("nodes", thing("node10")),
    "slice": write("resourceslices", thing("node2-0", spec="node2"), group="resource.k8s.io"),
    "slice deleted": write(
        "resourceslices", None, thing("node2-0", spec="node2"), group="resource.k8s.io"
    ),
}


def squats(resource: str, obj: Any, **more: Any) -> Any:
    return write(resource, obj, **more), "makes no object of this name"


def sliced(obj: Any) -> Any:
    request = write("resourceslices", obj, group="resource.k8s.io")
    return request, "of Laneway's driver for its own node only"


def owner(obj: Any, name: str, kind: str = "PCIDevice", **more: Any) -> Any:
    request = write("vgpudevices", owned(obj, name, kind, **more), obj)
    return request, "names objects of its own node as owners only"


MINE_BY_SPEC = thing("node1-000008004", spec="node1")
CROSSING = {
    "device named for another": squats("pcidevices", thing("node2-000008000", label="node1")),
    "vGPU named for another": squats("vgpudevices", thing("node2-000008004", spec="node1")),
    "node named for another": squats("nodes", thing("node2", label="node1", status="node1")),
    "claim named for another": squats("pcideviceclaims", claim("node2-000008004")),
    "device of a node whose name begins alike": squats(
        "pcidevices", thing("node1-a-000008000", label="node1")
    ),
    "device of a node that is named as a device is": squats(
        "pcidevices", thing("node1-000008000-000009000", label="node1")
    ),
    "vGPU at another address": squats(
        "vgpudevices", claim("node1-000008004", address="0000:08:00.5")
    ),
    "instances at another address": squats(
        "migconfigurations",
        thing("node1-000008000", spec="node1")
        | {"spec": {"nodeName": "node1", "gpuAddress": "0000:09:00.0"}},
    ),
    "interface of another": squats("sriovnetworkdevices", interface("node2-eno1", "eno1")),
    "interface of another name": squats("sriovnetworkdevices", interface("node1-eno2", "eno1")),
    "interface that says it is odd": squats(
        "sriovnetworkdevices", interface("node1-b-eno1-1a2b3c4d", "eno1")
    ),
    "USB device": squats("usbdevices", thing("node1-a-046d-c52b-003011", label="node1")),
    "slice by another name": (
        write("resourceslices", slice_of("node1", f"node2-{SLICE}-0"), group="resource.k8s.io"),
        "makes no object of this name",
    ),
    "slice for all nodes": sliced(slice_of("node1", allNodes=True)),
    "slice for nodes of its choice": sliced(slice_of("node1", nodeSelector={})),
    "slice with devices on nodes of its choice": sliced(
        slice_of("node1", perDeviceNodeSelection=True)
    ),
    "slice of another driver": sliced(slice_of("node1", driver="gpu.nvidia.com")),
    "slice in the pool of another": sliced(slice_of("node1", pool={"name": "node2"})),
    "slice of another driver deleted": (
        write(
            "resourceslices",
            None,
            slice_of("node1", driver="gpu.nvidia.com"),
            group="resource.k8s.io",
        ),
        "of Laneway's driver for its own node only",
    ),
    "claim in another's name": (
        write("pcideviceclaims", claim("node1-000008004", "somebody")),
        "claims vGPUs only, as admin",
    ),
    "claim given to another": (
        write("pcideviceclaims", claim("node1-000008004", "mallory"), claim("node1-000008004")),
        "changes no claim",
    ),
    "owner on another node": owner(MINE_BY_SPEC, "node2-000008004"),
    "owner of another kind": owner(MINE_BY_SPEC, "node1", "Node"),
    "owner that is to wait": owner(MINE_BY_SPEC, "node1-000008004", blockOwnerDeletion=True),
}


@pytest.mark.parametrize("case", CROSSING)
def test_what_speaks_of_its_node_reaches_no_other_either(found: list[Policy], case: str) -> None:
    request, words = CROSSING[case]

    assert words in refusal(found, request, "node1")
    assert refusal(found, request | {"userInfo": {"username": "admin"}}, "node1") == ""


def test_a_cluster_takes_the_policies(found: list[Policy]) -> None:
    assert {one.name for one in found} >= {"laneway-agent-devices", "laneway-agent-nodes"}
    for one in found:
        one.check()


@pytest.mark.parametrize("case", OWN)
def test_an_agent_writes_what_is_of_its_node(found: list[Policy], case: str) -> None:
    assert refusal(found, OWN[case], "node1") == ""


@pytest.mark.parametrize("case", OTHERS)
def test_it_writes_nothing_of_another(found: list[Policy], case: str) -> None:
    words = "the agent of node node1 writes objects of its own node only"
    assert refusal(found, OTHERS[case], "node1") == words


@pytest.mark.parametrize("case", OTHERS)
def test_people_are_not_concerned(found: list[Policy], case: str) -> None:
    request = OTHERS[case] | {"userInfo": {"username": "admin"}}
    assert refusal(found, request, "node1") == ""


@pytest.mark.parametrize("extra", [None, {}, {NODE_NAME: []}, {NODE_NAME: ["node1", "node2"]}])
def test_a_token_that_names_no_node_writes_nothing(found: list[Policy], extra: Any) -> None:
    user = {"username": AGENT} | ({} if extra is None else {"extra": extra})
    [policy] = [one for one in found if one.name == "laneway-agent-devices"]

    said = policy.verdict(OWN["device made"] | {"userInfo": user})

    assert said == "the token of this agent does not say on which node it is"


def layout(*gpus: tuple[str, str], **more: Any) -> Any:
    entries = [{"name": gpu, "nodeName": node, "phase": "x"} for gpu, node in gpus]
    return {"metadata": {"name": "layout"}, "status": {"gpus": entries, **more}}


MINE, THEIRS = ("node1-000008000", "node1"), ("node2-000008000", "node2")


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        (layout(), layout(MINE), True),
        (layout(THEIRS), layout(THEIRS, MINE), True),
        (layout(MINE, THEIRS), layout(THEIRS), True),
        (layout(THEIRS), layout(THEIRS, summary="all is well"), True),
        ({"metadata": {"name": "layout"}}, layout(MINE), True),
        ({"metadata": {"name": "layout"}, "status": {"gpus": None}}, layout(MINE), True),
        (layout(THEIRS), layout(), False),
        (layout(), layout(THEIRS), False),
        (layout(THEIRS), layout(("node2-000009000", "node2")), False),
    ],
)
def test_of_a_layout_an_agent_writes_its_own_entries(
    found: list[Policy], before: Any, after: Any, allowed: bool
) -> None:
    request = write("vgpulayouts", after, before, sub="status")

    said = refusal(found, request, "node1")

    assert said == (
        "" if allowed else "the agent of node node1 writes entries of its own node only"
    )


def says(*conditions: tuple[str, str], state: str = "Done") -> Any:
    """A layout with conditions; the other node's GPU is in this state."""
    reported = [{"type": kind, "status": status} for kind, status in conditions]
    found = layout(MINE, THEIRS, conditions=reported)
    for entry, one in zip(found["status"]["gpus"], ("Done", state), strict=True):
        entry["state"] = one
    return found


REFUSED = "of a layout's conditions an agent writes Ready only, as the entries are"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (says(), says(("Ready", "True")), ""),
        (says(state="Refused"), says(("Ready", "False"), state="Refused"), ""),
        (says(state="Refused"), says(("Ready", "True"), state="Refused"), REFUSED),
        (says(("Mine", "False")), says(("Mine", "True")), REFUSED),
        (says(("Mine", "False")), says(), REFUSED),
    ],
)
def test_of_a_layouts_conditions_an_agent_writes_the_sum(
    found: list[Policy], before: Any, after: Any, said: str
) -> None:
    assert refusal(found, write("vgpulayouts", after, before, sub="status"), "node1") == said


def test_an_entry_changes_before_the_sum_does(found: list[Policy]) -> None:
    before = says(("Ready", "True"))
    after = says(("Ready", "True"))
    after["status"]["gpus"][0]["state"] = "InProgress"

    assert refusal(found, write("vgpulayouts", after, before, sub="status"), "node1") == ""


def test_an_entry_is_not_named_for_a_gpu_of_another_node(found: list[Policy]) -> None:
    after = layout(("node2-000008000", "node1"))

    assert refusal(found, write("vgpulayouts", after, layout(), sub="status"), "node1")


@pytest.mark.parametrize(
    "request_",
    [
        changed("vgpulayouts", layout(MINE)),
        write("vgpulayouts", layout(MINE)),
        write("vgpulayouts", None, layout(MINE)),
    ],
)
def test_of_a_layout_it_writes_nothing_else(found: list[Policy], request_: Any) -> None:
    assert refusal(found, request_, "node1")


def node(name: str = "node1", *, spec: Any = None, **labels: str) -> Any:
    named = {key.replace("_", "/"): value for key, value in labels.items()}
    return {"metadata": {"name": name, "labels": named}, "spec": spec or {}}


NEEDED = {"sriovgpu.harvesterhci.io_driver-needed": "true"}


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        (node(zone="a"), node(zone="a", **NEEDED), True),
        (node(zone="a", **NEEDED), node(zone="a"), True),
        ({"metadata": {"name": "node1"}, "spec": {}}, node(**NEEDED), True),
        (node(zone="a"), node(zone="b"), False),
        (node(zone="a"), node(), False),
        (node(), node(zone="a"), False),
        (node(), node(spec={"unschedulable": True}), False),
        (node("node2"), node("node2", **NEEDED), False),
    ],
)
def test_of_a_node_an_agent_changes_labels_of_its_own(
    found: list[Policy], before: Any, after: Any, allowed: bool
) -> None:
    request = write("nodes", after, before, group="")

    assert (refusal(found, request, "node1") == "") is allowed


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("laneway.io/amd-gpu-containers", True),
        ("laneway.io/nvidia-driver", True),
        ("migration-group.laneway.io/26b9-16a1-ecc-580", True),
        ("migration-group.laneway.io/20b5-noecc-580", True),
        ("migration-group.laneway.io/x", False),
        ("feature.node.kubernetes.io/pci-0302_10de.sriov.capable", True),
        ("feature.node.kubernetes.io/network-sriov.configured", True),
        ("feature.node.kubernetes.io/iommu-enabled", True),
        ("laneway.io/gpu-workload", False),
        ("feature.node.kubernetes.io/cpu-model.id", False),
        ("feature.node.kubernetes.io/pci-0302_10de.presents", False),
        ("x.feature.node.kubernetes.io/iommu-enabled", False),
        ("node-role.kubernetes.io/control-plane", False),
    ],
)
def test_the_labels_of_hardware_are_an_agents(
    found: list[Policy], label: str, allowed: bool
) -> None:
    with_it = {"metadata": {"name": "node1", "labels": {label: "true"}}, "spec": {}}
    for old, new in ((node(), with_it), (with_it, node())):
        request = write("nodes", new, old, group="")
        assert (refusal(found, request, "node1") == "") is allowed


def test_an_agent_notes_which_of_them_it_set(found: list[Policy]) -> None:
    noted = node()
    noted["metadata"]["annotations"] = {"devices.harvesterhci.io/laneway-feature-labels": "a"}
    assert not refusal(found, write("nodes", noted, node(), group=""), "node1")
    assert not refusal(found, write("nodes", node(), noted, group=""), "node1")


def test_a_node_keeps_what_others_wrote_on_it(found: list[Policy]) -> None:
    owners = [{"apiVersion": "v1", "kind": "Node", "name": "node2", "uid": "1"}]
    for key, value in (
        ("annotations", {"a": "b"}),
        ("finalizers", ["somebody/else"]),
        ("ownerReferences", owners),
    ):
        before, after = node(), node()
        before["metadata"][key] = value
        assert refusal(found, write("nodes", after, before, group=""), "node1")
        assert refusal(found, write("nodes", before, after, group=""), "node1")
        assert not refusal(found, write("nodes", before, before, group=""), "node1")


def test_no_policy_where_it_is_not_desired() -> None:
    left = policies({"agent": {"ownNodeOnly": False}})

    assert not [one.name for one in left if "agent" in one.name]
