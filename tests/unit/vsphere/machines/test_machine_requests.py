"""What a machine costs the API server: nothing is written twice, or in two requests."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from laneway.api import find_condition
from laneway.kube import capv
from laneway.kube.resource import Resource
from support.memory_vcenter import MemoryVCenter

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
KINDS = (capv.VSPHERE_VMS, capv.VSPHERE_MACHINES)
DEVICES = "pciDevices"
SECONDS = 60.0


class Definition(msgspec.Struct):
    """A definition as it is written."""

    metadata: Any
    spec: dict[str, Any]


DEFINITIONS: Resource[Any] = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, Definition
)


@contextlib.asynccontextmanager
async def changes(works: Any, resource: Resource[Any], name: str) -> AsyncIterator[list[Any]]:
    """Every state of an object from its creation on."""
    seen: list[Any] = []
    page = await anext(works.client.list(resource))

    async def follow() -> None:
        watch = works.client.watch(resource, "default", resource_version=page.resource_version)
        async for event in watch:
            if event.type in {"ADDED", "MODIFIED"}:
                obj = msgspec.json.decode(event.object)
                if obj["metadata"]["name"] == name:
                    seen.append(obj)

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        task.cancel()


def asked(works: Any, method: str, path: str) -> list[str]:
    """Where the manager asked with success."""
    return [where for verb, where in works.line.done if verb == method and where.startswith(path)]


def reported(obj: Any) -> Any:
    """All that an object says, but for its devices."""
    meta = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in {"resourceVersion", "managedFields"}
    }
    status = {key: value for key, value in obj.get("status", {}).items() if key != DEVICES}
    return meta, obj["spec"], status


@pytest.mark.parametrize("resource", KINDS, ids=str)
async def test_every_write_changes_something_and_none_only_the_devices(
    works: Any, vcenter: MemoryVCenter, resource: Resource[Any]
) -> None:
    await works.cluster(vcenter)
    async with changes(works, resource, "one") as seen:
        await works.lead()
        await works.machine("one", T4)
        await works.until_ready("one")
        path = resource.path("default", "one")
        async with asyncio.timeout(SECONDS):
            while len(seen) - 1 != len(asked(works, "PATCH", path)):  # noqa: ASYNC110 - a watch
                await asyncio.sleep(0.02)
    assert DEVICES in seen[-1]["status"]
    for before, after in itertools.pairwise(seen):
        assert reported(before) != reported(after)


@pytest.mark.parametrize("resource", KINDS, ids=str)
async def test_an_object_is_read_when_it_is_met_and_then_followed(
    works: Any, vcenter: MemoryVCenter, resource: Resource[Any]
) -> None:
    await works.cluster(vcenter)
    await works.lead()
    await works.machine("one", T4)
    await works.until_ready("one")
    path = resource.path("default", "one")
    # Once more where all of it is needed to make its VSphereVM. And each time that the cache is
    # behind: then a VSphereVM is made again or what is old is written, and the server refuses it.
    ours = tuple(kind.path("default") for kind in KINDS)
    behind = [
        where
        for verb, where in works.line.refused
        if verb in {"POST", "PATCH"} and where.startswith(ours)
    ]
    assert len(asked(works, "GET", path)) <= 2 + len(behind)


async def test_a_vm_that_is_known_is_not_searched_for(works: Any, vcenter: MemoryVCenter) -> None:
    await works.cluster(vcenter)
    await works.lead()
    await works.machine("one", T4)
    await works.until_ready("one")
    searched, looked = vcenter.requests("FindByUuid"), vcenter.requests("RetrievePropertiesEx")
    async with asyncio.timeout(SECONDS):
        while vcenter.requests("RetrievePropertiesEx") < looked + 2:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)
    assert vcenter.requests("FindByUuid") == searched


async def test_a_written_ref_gives_no_machine_the_vm_of_another(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.lead()
    refs = []
    for name in ("one", "two"):
        await works.machine(name, T4)
        await works.until_ready(name)
        refs.append((await works.get(capv.VSPHERE_VMS, name)).status.vm_ref)
    body = {"status": {"vmRef": refs[1]}}
    await works.client.patch(capv.VSPHERE_VMS, "one", body, "default", subresource="status")
    await works.until(capv.VSPHERE_VMS, "one", lambda vm: vm.status.vm_ref == refs[0])
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")
    assert "one" not in vcenter.vms()
    assert vcenter.vms()["two"]["on"]


async def without_devices(works: Any, resource: Resource[Any]) -> None:
    """Have a kind defined as CAPV defines it."""
    found = await works.get(DEFINITIONS, str(resource))
    for version in found.spec["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        status.pop(DEVICES, None)
    await works.patch(
        DEFINITIONS, found.metadata["name"], {"spec": {"versions": found.spec["versions"]}}
    )


async def test_capvs_own_definitions_do_without_the_list_of_devices(
    works: Any, vcenter: MemoryVCenter
) -> None:
    for resource in KINDS:
        await without_devices(works, resource)
    await works.cluster(vcenter)
    await works.lead()
    await works.machine("one", T4)
    machine = await works.until_ready("one")
    said = find_condition(machine.status.conditions, "PCIDevicesReady")
    assert said is not None
    assert (said.status, said.reason) == ("True", "InUse")
    assert DEVICES not in (await works.raw(capv.VSPHERE_VMS, "one"))["status"]
    path = capv.VSPHERE_VMS.path("default", "one", "status")
    assert works.line.refused.count(("PATCH", path)) == 1
