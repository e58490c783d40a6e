"""What a server refuses and fills in of objects of its own kinds."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.whole_kubernetes


def pod(kube: Any, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = kube.of("pods").new(
        "x", spec={"containers": [{"name": "a", "image": "x:1", **(container or {})}], **spec}
    )
    return made


@pytest.mark.parametrize(
    ("limits", "field", "text"),
    [
        ({"nvidia.com/x": "500m"}, ".limits[nvidia.com/x]", "must be an integer"),
        ({"foo": "1"}, ".limits[foo]", "must be a standard resource for containers"),
        ({"hugepages-2Mi": "2Mi"}, "", "HugePages require cpu or memory"),
        ({"requests.a.b/c": "1"}, ".limits[requests.a.b/c]", "doesn't follow extended resource"),
    ],
    ids=["parts of a device", "no domain", "huge pages alone", "a quota"],
)
async def test_resources_that_no_node_could_give(
    kube: Any, limits: dict[str, str], field: str, text: str
) -> None:
    answer = await kube.post(kube.of("pods").path(), pod(kube, {"resources": {"limits": limits}}))
    assert answer.status == 422
    where = f"spec.containers[0].resources{field}"
    assert any(one[0] == where and text in one[2] for one in answer.causes), answer.causes


async def test_a_pod_has_the_priority_of_its_class(kube: Any) -> None:
    pods = kube.of("pods").path()
    refusal = (await kube.post(pods, pod(kube, priorityClassName="nope"))).refusal
    assert refusal[:2] == (403, "Forbidden")
    assert refusal[2].endswith("is forbidden: no PriorityClass with name nope was found")

    made = (
        await kube.post(pods, pod(kube, priorityClassName="system-node-critical"), dryRun="All")
    ).ok
    assert made["spec"]["priority"] == 2_000_001_000
    other = pod(kube, priorityClassName="system-node-critical", priority=1)
    assert (await kube.post(pods, other)).status == 403
    assert (await kube.post(pods, pod(kube), dryRun="All")).ok["spec"]["priority"] == 0


async def test_a_finalizer_of_a_kind_of_the_server_names_a_domain(kube: Any) -> None:
    maps = kube.of("configmaps")
    obj = maps.new("x")
    obj["metadata"]["finalizers"] = ["noslash"]
    answer = await kube.post(maps.path(), obj)
    assert answer.status == 422
    [(field, _, text)] = answer.causes
    assert field in ("metadata.finalizers[0]", "metadata.finalizers")
    assert text.endswith("name is neither a standard finalizer name nor is it fully qualified")


async def test_a_reference_to_a_role_gets_its_group(kube: Any) -> None:
    bindings = kube.custom("rbac.authorization.k8s.io", "rolebindings", "RoleBinding")
    reference = {"kind": "ClusterRole", "name": "view"}
    people = [{"kind": "User", "name": "u"}]
    obj = bindings.new("x", roleRef=reference, subjects=people)
    made = (await kube.post(bindings.path(), obj)).ok
    group = "rbac.authorization.k8s.io"
    assert made["roleRef"]["apiGroup"] == group
    assert made["subjects"][0]["apiGroup"] == group


async def test_a_lease_tells_times_to_the_microsecond(kube: Any) -> None:
    leases = kube.custom("coordination.k8s.io", "leases", "Lease")
    answer = await kube.post(
        leases.path(), leases.new("x", spec={"renewTime": "2026-01-01T00:00:00Z"})
    )
    assert answer.refusal[:2] == (400, "BadRequest")
    when = "2026-01-01T00:00:00.000001Z"
    made = (await kube.post(leases.path(), leases.new("x", spec={"renewTime": when}))).ok
    assert made["spec"]["renewTime"] == when


async def test_who_applies_texts_of_a_secret_owns_its_data(kube: Any) -> None:
    if kube.minor == 20:
        pytest.skip("there the manager owns stringData; on 1.36 it owns data")
    secrets = kube.of("secrets")
    made = (await kube.apply(secrets, secrets.new("x", stringData={"a": "b"}), "one")).ok
    assert made["data"] == {"a": "Yg=="}
    [entry] = made["metadata"]["managedFields"]
    assert entry["fieldsV1"]["f:data"] == {"f:a": {}}

    answer = await kube.apply(secrets, secrets.new("x", data={"a": "eHg="}), "two")
    assert answer.status == 409
