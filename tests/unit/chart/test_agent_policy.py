"""An agent writes about its own node only: what RBAC cannot say, and a policy does."""

from __future__ import annotations

from typing import Any

import pytest

from support.policies import NODE_NAME, Policy, policies, refusal

AGENT = "system:serviceaccount:harvester-system:laneway-agent"
DEVICES = "devices.harvesterhci.io"


@pytest.fixture(scope="module")
def found() -> list[Policy]:
    return policies()


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
    "claim made": write("pcideviceclaims", thing("node1-000008004", spec="node1")),
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
    "slice": write("resourceslices", thing("node1-0", spec="node1"), group="resource.k8s.io"),
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
def test_of_a_node_an_agent_changes_one_label(
    found: list[Policy], before: Any, after: Any, allowed: bool
) -> None:
    request = write("nodes", after, before, group="")

    assert (refusal(found, request, "node1") == "") is allowed


def test_a_node_keeps_what_others_wrote_on_it(found: list[Policy]) -> None:
    for key, value in (("annotations", {"a": "b"}), ("finalizers", ["somebody/else"])):
        before, after = node(), node()
        before["metadata"][key] = value
        assert refusal(found, write("nodes", after, before, group=""), "node1")
        assert refusal(found, write("nodes", before, after, group=""), "node1")
        assert not refusal(found, write("nodes", before, before, group=""), "node1")


def test_no_policy_where_it_is_not_wished() -> None:
    left = policies({"agent": {"ownNodeOnly": False}})

    assert not [one.name for one in left if "agent" in one.name]
