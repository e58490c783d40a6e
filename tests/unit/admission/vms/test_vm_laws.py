"""What holds for any VM: no answer fails, and nothing of a user's is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from laneway.admission.request import Operation, Request, Requester
from laneway.admission.vms.displays import has_ramfb
from laneway.api import DecodeError, decode
from laneway.kube.kubevirt import ANNOTATION_ADMITTED, Features
from support.examples import many

GIB = 1 << 30
VENDOR = "nvidia.com/NVIDIA_A2-2Q"
MEDIATED = "nvidia.com/NVIDIA_A16-4Q"


@pytest.fixture
def full(cluster: Any) -> Any:
    """Two nodes with some of everything, all of it alice's or everybody's."""
    for node in ("n1", "n2"):
        for bus in (1, 2):
            for number, resource in enumerate(("nvidia.com/GPU", "nvidia.com/AUDIO")):
                bars = [128 * GIB] if number == 0 else []
                address = f"0000:0{bus}:00.{number}"
                cluster.pci(node, address, resource, group=str(bus), bars=bars)
        cluster.pci(node, "0000:03:00.0", "intel.com/NIC")
        for number in range(3):
            cluster.vgpu(node, f"0000:04:00.{number}")
            cluster.vgpu(node, f"0000:05:00.{number}", "NVIDIA A16-4Q", framework="mdev")
        cluster.usb(node, 11)
    return cluster


NAMES = [
    f"{node}-{address}"
    for node in ("n1", "n2")
    for address in (
        *(f"00000{bus}00{number}" for bus in (1, 2) for number in (0, 1)),
        "000003000",
        *(f"00000{bus}00{number}" for bus in (4, 5) for number in (0, 1, 2)),
        "046d-c52b-003011",
    )
]

displays = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(),
        "ramFB": st.fixed_dictionaries({}, optional={"enabled": st.booleans()}),
    },
)
extras = st.fixed_dictionaries({}, optional={"tag": st.sampled_from(["", "one"])})
options = st.fixed_dictionaries(
    {},
    optional={
        "tag": st.sampled_from(["", "one"]),
        "virtualGPUOptions": st.fixed_dictionaries({}, optional={"display": displays}),
    },
)
free = st.sampled_from([("any", VENDOR), ("all", VENDOR), ("one", MEDIATED), ("two", MEDIATED)])
chosen = st.lists(st.sampled_from(NAMES) | free, max_size=7, unique=True)
memories = st.fixed_dictionaries(
    {},
    optional={
        "guest": st.just("8Gi"),
        "reservedOverhead": st.fixed_dictionaries(
            {}, optional={"addedOverhead": st.just("5Mi"), "memLock": st.just("Required")}
        ),
    },
)


@st.composite
def vms(draw: st.DrawFn) -> dict[str, Any]:
    """A VM with some of these devices; `resource` is filled in by the test."""
    hosts: list[dict[str, Any]] = []
    gpus: list[dict[str, Any]] = []
    for one in draw(chosen):
        name, resource = (one, "") if isinstance(one, str) else one
        entry = {"name": name, "deviceName": resource}
        if draw(st.booleans()):
            hosts.append({**entry, **draw(extras)})
        else:
            gpus.append({**entry, **draw(options)})
    lists: dict[str, Any] = {}
    if hosts or draw(st.booleans()):
        lists["hostDevices"] = hosts
    if gpus or draw(st.booleans()):
        lists["gpus"] = gpus
    domain: dict[str, Any] = {"devices": {**lists, "disks": [{"name": "root"}]}}
    if draw(st.booleans()):
        domain["memory"] = draw(memories)
    meta: dict[str, Any] = {"name": "vm", "namespace": "default"}
    if draw(st.booleans()):
        meta["annotations"] = draw(
            st.dictionaries(st.sampled_from(["mine", ANNOTATION_ADMITTED]), st.just("x"))
        )
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": meta,
        "spec": {
            "runStrategy": draw(st.sampled_from(["Always", "Halted", "Manual"])),
            "template": {"spec": {"domain": domain, "terminationGracePeriodSeconds": 0}},
        },
    }


def filled(cluster: Any, raw: dict[str, Any]) -> dict[str, Any]:
    for part in ("hostDevices", "gpus"):
        for entry in cluster.devices(raw, part):
            if not entry["deviceName"]:
                entry["deviceName"] = cluster.entry(entry["name"])["deviceName"]
    return raw


def rest_of(raw: dict[str, Any]) -> dict[str, Any]:
    """Everything that mutation has nothing to do with."""
    left = copy.deepcopy(raw)
    domain = left["spec"]["template"]["spec"]["domain"]
    domain["devices"].pop("hostDevices", None)
    domain["devices"].pop("gpus", None)
    reserved = domain.get("memory", {}).get("reservedOverhead", {})
    reserved.pop("addedOverhead", None)
    if not reserved:
        domain.get("memory", {}).pop("reservedOverhead", None)
    if not domain.get("memory"):
        domain.pop("memory", None)
    left["metadata"].get("annotations", {}).pop(ANNOTATION_ADMITTED, None)
    if not left["metadata"].get("annotations"):
        left["metadata"].pop("annotations", None)
    return left


# The fixture is only read; what an example does not change need not be made again for each.
examined = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
features = st.sampled_from([Features(), Features(reserved_overhead=True)])


@examined
@given(vms(), features)
def test_a_mutated_vm_mutates_no_further(full: Any, raw: dict[str, Any], offered: Features) -> None:
    filled(full, raw)
    after = full.mutated(raw, None, offered)
    assert full.mutate(after, None, offered).operations == ()
    assert full.mutate(after, after, offered).operations == ()
    over = full.mutated(after, raw, offered)  # without a mark of what was never looked at
    assert full.mutate(over, raw, offered).operations == ()


@examined
@given(vms(), vms(), features)
def test_a_mutated_edit_mutates_no_further(
    full: Any, raw: dict[str, Any], edit: dict[str, Any], offered: Features
) -> None:
    old = full.mutated(filled(full, raw), None, offered)
    after = full.mutated(filled(full, edit), old, offered)
    assert full.mutate(after, old, offered).operations == ()


@examined
@given(vms(), features)
def test_the_same_file_applied_again_changes_nothing(
    full: Any, raw: dict[str, Any], offered: Features
) -> None:
    """Of what a file holds kubectl writes the lists as wholes, and leaves the others as stored."""
    stored = full.mutated(filled(full, raw), None, offered)
    again = copy.deepcopy(stored)
    lists = raw["spec"]["template"]["spec"]["domain"]["devices"]
    again["spec"]["template"]["spec"]["domain"]["devices"] |= copy.deepcopy(lists)
    after = full.mutated(again, stored, offered)
    for part in ("hostDevices", "gpus"):
        assert full.devices(after, part) == full.devices(stored, part)
    assert rest_of(after) == rest_of(stored)


@examined
@given(vms())
def test_a_vm_that_is_right_is_right_when_mutated(full: Any, raw: dict[str, Any]) -> None:
    filled(full, raw)
    assume(full.judge(raw).allowed)
    after = full.mutated(raw)
    assert full.judge(after).refusals == ()


@examined
@given(vms(), features)
def test_nothing_of_the_users_is_lost_or_moved(
    full: Any, raw: dict[str, Any], offered: Features
) -> None:
    filled(full, raw)
    after = full.mutated(raw, None, offered)
    assert rest_of(after) == rest_of(raw)
    asked = [*full.devices(raw), *full.devices(raw, "gpus")]
    now = [*full.devices(after), *full.devices(after, "gpus")]
    members = [one for one in now if one["name"] not in [mine["name"] for mine in asked]]
    assert len(now) == len(asked) + len(members)
    for one in asked:
        found = next(entry for entry in now if entry["name"] == one["name"])
        said = one.get("virtualGPUOptions", {})
        assert found | {"virtualGPUOptions": said} == one | {"virtualGPUOptions": said}
        assert said.items() <= found.get("virtualGPUOptions", {}).items()
    for part in ("hostDevices", "gpus"):
        names, there = ([one["name"] for one in full.devices(obj, part)] for obj in (raw, after))
        stayed = [one for one in names if one in there]
        assert [one for one in there if one in names] == stayed


@settings(examined, max_examples=many(40))  # the definition of KubeVirt's is large
@given(vms())
def test_kubevirts_own_definition_takes_what_comes_out(
    full: Any, kubevirt_complains: Any, raw: dict[str, Any]
) -> None:
    filled(full, raw)
    assert kubevirt_complains(raw) == []
    assert kubevirt_complains(full.mutated(raw)) == []


@examined
@given(vms())
def test_at_most_one_vgpu_has_a_display_by_our_doing(full: Any, raw: dict[str, Any]) -> None:
    filled(full, raw)
    before = [
        one for one in full.devices(raw, "gpus") if "display" in one.get("virtualGPUOptions", {})
    ]
    after = full.devices(full.mutated(raw), "gpus")
    ours = [
        one
        for one in after
        if one.get("virtualGPUOptions", {}).get("display", {}).get("enabled") is True
        and one["name"] not in [said["name"] for said in before]
    ]
    shown = [one for one in before if has_ramfb(one["virtualGPUOptions"]["display"])]
    assert len(ours) <= (0 if shown else 1)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "deviceName", "claimName", "x", "display", "enabled"]), inner
        )
    ),
    max_leaves=12,
)
PATHS = [
    ("metadata",),
    ("metadata", "annotations"),
    ("metadata", "deletionTimestamp"),
    ("metadata", "ownerReferences"),
    ("spec",),
    ("spec", "running"),
    ("spec", "runStrategy"),
    ("spec", "template"),
    ("spec", "template", "spec", "nodeSelector"),
    ("spec", "template", "spec", "evictionStrategy"),
    ("spec", "template", "spec", "domain"),
    ("spec", "template", "spec", "domain", "memory"),
    ("spec", "template", "spec", "domain", "memory", "guest"),
    ("spec", "template", "spec", "domain", "memory", "reservedOverhead"),
    ("spec", "template", "spec", "domain", "resources", "requests"),
    ("spec", "template", "spec", "domain", "devices"),
    ("spec", "template", "spec", "domain", "devices", "hostDevices"),
    ("spec", "template", "spec", "domain", "devices", "gpus"),
    ("spec", "template", "spec", "domain", "devices", "gpus", "0"),
    ("spec", "template", "spec", "domain", "devices", "gpus", "0", "virtualGPUOptions"),
    ("spec", "template", "spec", "domain", "devices", "hostDevices", "0", "deviceName"),
]


def spoil(raw: Any, path: tuple[str, ...], value: Any) -> None:
    """Put something where it does not belong, if the way there still exists."""
    here = raw
    for key in path[:-1]:
        if isinstance(here, dict):
            here = here.setdefault(key, {})
        elif isinstance(here, list) and here and key == "0":
            here = here[0]
        else:
            return
    if isinstance(here, dict):
        here[path[-1]] = value
    elif isinstance(here, list) and here:
        here[0] = value


@settings(examined, max_examples=many(300))
@given(
    vms(),
    st.lists(st.tuples(st.sampled_from(PATHS), json), min_size=1, max_size=4),
    st.none() | vms(),
    st.sampled_from(list(Operation)),
)
def test_no_answer_fails(
    full: Any,
    raw: dict[str, Any],
    spoilt: list[tuple[tuple[str, ...], Any]],
    old: dict[str, Any] | None,
    operation: Operation,
) -> None:
    for path, value in spoilt:
        spoil(raw, path, copy.deepcopy(value))
    after = full.mutated(raw, old)
    assert full.mutate(after, old).operations == ()
    for one in (raw, {"spec": {**({"virtualMachineTemplate": raw} | {"template": raw})}}):
        for kind, judge, asks in full.kinds.values():
            try:
                new = decode(kind, one)
                was = None if old is None else decode(kind, old)
            except DecodeError:
                continue
            request: Request[Any] = Request(
                operation, "vm", "default", Requester("alice"), old=was, new=new
            )
            wanted = frozenset(asks(request, full.world))
            judge(request, full.world, wanted)


@examined
@given(json)
def test_what_is_no_vm_is_left_alone(full: Any, raw: Any) -> None:
    full.mutate(raw)
