"""What names and paths mean, in an inventory with names that look alike."""

from __future__ import annotations

import pytest

from laneway.vsphere.port import NotFoundInVCenterError
from laneway.vsphere.vcenter.inventory_paths import Names
from laneway.vsphere.vcenter.lookup import named_pool
from laneway.vsphere.vcenter.pyvmomi import vim

THERE = [
    ("group-d1", vim.Folder, "Datacenters", ""),
    ("datacenter-1", vim.Datacenter, "east", "group-d1"),
    ("datacenter-2", vim.Datacenter, "we%2fst", "group-d1"),
    ("group-v1", vim.Folder, "vm", "datacenter-1"),
    ("group-v2", vim.Folder, "vm", "datacenter-2"),
    ("group-v3", vim.Folder, "nodes", "group-v1"),
    ("group-v4", vim.Folder, "nodes", "group-v3"),
    ("group-v5", vim.Folder, "a%2fb", "group-v1"),
    ("group-v6", vim.Folder, "100%25", "group-v1"),
    ("group-v7", vim.Folder, "red", "group-v3"),
    ("group-v8", vim.Folder, "blue", "group-v3"),
    ("group-v9", vim.Folder, "leaf", "group-v7"),
    ("group-v10", vim.Folder, "leaf", "group-v8"),
]


def names(seen: list[tuple[str, object, str, str]] = THERE[1:]) -> Names:
    """The root folder is not among what a view of it shows."""
    kinds = {ref: kind for ref, kind, _, _ in (*THERE, *POOLS)}
    pools = {parent: vim.ResourcePool(ref) for ref, _, name, parent in seen if name == "Resources"}
    return Names(
        {
            ref: {
                "": kind(ref),
                "name": name,
                "parent": kinds.get(parent, vim.Folder)(parent),
                "resourcePool": pools.get(ref),
            }
            for ref, kind, name, parent in seen
        }
    )


@pytest.mark.parametrize(
    ("desired", "ref"),
    [
        ("/east/vm", "group-v1"),
        ("nodes", "group-v3"),
        ("nodes/nodes", "group-v4"),
        ("/east/vm/nodes", "group-v3"),
        ("east/vm/nodes/nodes", "group-v4"),
        ("a/b", "group-v5"),
        ("a%2Fb", "group-v5"),
        ("/east/vm/a%2fb", "group-v5"),
        ("100%", "group-v6"),
        ("red/leaf", "group-v9"),
        ("group-v10", "group-v10"),
    ],
)
def test_requests_that_mean_one_folder(desired: str, ref: str) -> None:
    assert names().find(vim.Folder, desired, called="folder", under="datacenter-1").ref == ref


POOLS = [
    ("datacenter-1", vim.Datacenter, "east", "group-d1"),
    ("group-h1", vim.Folder, "host", "datacenter-1"),
    ("domain-c1", vim.ClusterComputeResource, "gpu-1", "group-h1"),
    ("domain-c2", vim.ClusterComputeResource, "cpu*", "group-h1"),
    ("resgroup-1", vim.ResourcePool, "Resources", "domain-c1"),
    ("resgroup-2", vim.ResourcePool, "Resources", "domain-c2"),
    ("resgroup-3", vim.ResourcePool, "team [a]", "resgroup-1"),
    ("resgroup-4", vim.ResourcePool, "team a", "resgroup-2"),
    ("resgroup-5", vim.ResourcePool, "a%2fb", "resgroup-2"),
]


@pytest.mark.parametrize(
    ("desired", "ref"),
    [
        ("gpu*/Resources", "resgroup-1"),
        ("/east/host/gpu-?/Resources", "resgroup-1"),
        ("*/*/gpu-1/Resources", "resgroup-1"),
        ("cpu*/Resources", "resgroup-2"),  # it is called just so
        ("* [a]", "resgroup-3"),
        ("*/Resources/team a", "resgroup-4"),
        ("a*b", "resgroup-5"),
        ("Resources/?/b", None),
        ("*/gpu-1", None),
        ("/*/Resources", None),
    ],
)
def test_a_star_is_any_name_of_a_path(desired: str, ref: str | None) -> None:
    if ref is None:
        with pytest.raises(NotFoundInVCenterError, match="there is no pool"):
            names(POOLS).find(vim.ResourcePool, desired, called="pool")
    else:
        assert names(POOLS).find(vim.ResourcePool, desired, called="pool").ref == ref


def test_a_star_that_fits_several_is_said() -> None:
    with pytest.raises(NotFoundInVCenterError) as unclear:
        names(POOLS).find(vim.ResourcePool, "*/Resources", called="pool")
    assert str(unclear.value) == (
        "pool '*/Resources' is not unique: it may be /east/host/cpu*/Resources, "
        "/east/host/gpu-1/Resources; give the whole path"
    )
    # Where one cluster has it, that is meant.
    found = names(POOLS[:-4] + POOLS[-3:-2]).find(vim.ResourcePool, "*/Resources", called="pool")
    assert found.ref == "resgroup-1"


@pytest.mark.parametrize(
    ("desired", "under", "ref"),
    [
        ("/east/host/gpu-1", "", "resgroup-1"),  # a cluster means all of it, as for CAPV
        ("/east/host/gpu*", "", "resgroup-1"),
        ("gpu-1", "datacenter-1", "resgroup-1"),
        ("gpu-1", "domain-c1", "resgroup-1"),
        ("cpu*", "", "resgroup-2"),
        ("team a", "", "resgroup-4"),
        ("gpu-1", "domain-c2", None),
        ("no-such", "", None),
    ],
)
def test_a_resource_pool_may_be_given_as_its_cluster(
    desired: str, under: str, ref: str | None
) -> None:
    if ref is None:
        with pytest.raises(NotFoundInVCenterError, match=r"there is no resource pool.*/Resources"):
            named_pool(names(POOLS), desired, under)
    else:
        assert named_pool(names(POOLS), desired, under).ref == ref


def test_a_resource_pool_that_may_be_several_clusters_is_said() -> None:
    clusters = "it may be /east/host/cpu\\*, /east/host/gpu-1; give the whole path"
    with pytest.raises(NotFoundInVCenterError, match=rf"'/east/host/\*' is not unique: {clusters}"):
        named_pool(names(POOLS), "/east/host/*", "")
    # Where pools fit, no cluster is meant.
    twins = [*POOLS, ("resgroup-6", vim.ResourcePool, "gpu-1", "resgroup-1")]
    assert named_pool(names(twins), "gpu-1", "").ref == "resgroup-6"
    twins.append(("resgroup-7", vim.ResourcePool, "gpu-1", "resgroup-2"))
    with pytest.raises(NotFoundInVCenterError, match=r"not unique: it may be .*/Resources/gpu-1"):
        named_pool(names(twins), "gpu-1", "")


@pytest.mark.parametrize("desired", ["/nodes", "no", "vm/red", "", "/", "../vm", "a", "we/st"])
def test_requests_that_mean_none(desired: str) -> None:
    with pytest.raises(NotFoundInVCenterError, match="there is no folder"):
        names().find(vim.Folder, desired, called="folder", under="datacenter-1")


def test_an_ambiguous_name_is_not_guessed() -> None:
    with pytest.raises(NotFoundInVCenterError) as unclear:
        names().find(vim.Folder, "leaf", called="folder")
    assert "not unique" in str(unclear.value)
    assert "/east/vm/nodes/red/leaf" in str(unclear.value)
    with pytest.raises(NotFoundInVCenterError, match="not unique"):
        names().find(vim.Folder, "vm", called="folder")


def test_existing_names_are_listed_as_people_write_them_and_not_at_length() -> None:
    with pytest.raises(NotFoundInVCenterError) as missing:
        names().find(vim.Datacenter, "north", called="datacenter")
    assert str(missing.value) == "there is no datacenter 'north'; there is /east, /we/st"
    with pytest.raises(NotFoundInVCenterError, match="and 5 more"):
        names().find(vim.Folder, "north", called="folder")


def test_folders_that_contain_each_other_are_no_trap() -> None:
    ring = [
        ("group-v1", vim.Folder, "one", "group-v2"),
        ("group-v2", vim.Folder, "two", "group-v1"),
    ]
    with pytest.raises(NotFoundInVCenterError):
        names(ring).find(vim.Folder, "x", called="folder")
