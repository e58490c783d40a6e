"""The webhook answers while its line to the API server fails, and knows the present afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from laneway.api import PCIDevice, PCIDeviceClaim
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import ForbiddenError
from laneway.kube.resource import served as resource_of
from laneway.simcluster.kubevirt.objects import VMS
from support.examples import first
from support.fast_time import FastTime
from support.fault_proxy import FaultProxy
from support.line_faults import READING, LineFault
from support.reviewed import DATABASE, reviewing, served
from support.reviewing import make_vm

DEVICE = "node1-000004001"
RESOURCE = "intel.com/NIC"
VM = make_vm("desk", {"name": "nic", "deviceName": RESOURCE})
OTHER = make_vm("other", {"name": "x", "deviceName": "none"})
DEVICES, CLAIMS = resource_of(PCIDevice), resource_of(PCIDeviceClaim)


class Reviewed(NamedTuple):
    """A server whose writes are reviewed, and the webhook's line to it."""

    user: Client
    line: FaultProxy

    async def change(self) -> None:
        """A device can be had now; and the webhook still answers."""
        status = {"resourceName": RESOURCE}
        await self.user.patch(CLAIMS, DEVICE, {"status": status}, subresource="status")
        await self.user.patch(DEVICES, DEVICE, {"status": status}, subresource="status")
        with pytest.raises(ForbiddenError, match="No device has the resource 'none'"):
            await self.user.create(VMS, OTHER, "default")


async def _claimed(user: Client) -> None:
    """A device that is claimed, and that no VM can request yet."""
    about = {"apiVersion": CLAIMS.api_version, "metadata": {"name": DEVICE}}
    spec = {"address": "0000:04:00.1", "nodeName": "node1", "userName": "admin"}
    await user.create(DEVICES, about | {"kind": "PCIDevice"})
    await user.create(CLAIMS, about | {"kind": "PCIDeviceClaim", "spec": spec})
    status = {"address": "0000:04:00.1", "nodeName": "node1", "iommuGroup": "8"}
    await user.patch(DEVICES, DEVICE, {"status": status}, subresource="status")


@pytest.fixture
async def reviewed(kubevirt_installed: Path, tmp_path: Path) -> AsyncIterator[Reviewed]:
    shutil.copy(kubevirt_installed / DATABASE, tmp_path)
    async with contextlib.AsyncExitStack() as stack:
        serving = await stack.enter_async_context(served(tmp_path))
        user = await stack.enter_async_context(Client(load(serving.kubeconfig)))
        await _claimed(user)
        line = await stack.enter_async_context(FaultProxy(serving.asking).running())
        through = dataclasses.replace(serving, asking=line.config)
        await stack.enter_async_context(reviewing(through, CollectorRegistry()))
        yield Reviewed(user, line)
        line.cut()


@pytest.mark.parametrize("fault", first(*READING), ids=lambda fault: fault.__name__)
async def test_a_vm_gets_a_device_of_which_the_webhook_heard_late(
    reviewed: Any, fault: LineFault
) -> None:
    with pytest.raises(ForbiddenError, match="No device has the resource"):
        await reviewed.user.create(VMS, VM, "default")
    written = len(reviewed.line.writes)
    time = FastTime(lambda: reviewed.line.busy)
    await fault(reviewed.line, reviewed.change, time)
    await time.passes(5)
    await reviewed.user.create(VMS, VM, "default")
    assert {one.resource for one in reviewed.line.writes[written:]} <= {"subjectaccessreviews"}
