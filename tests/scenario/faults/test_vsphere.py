"""A manager makes one VM at a vCenter for each machine, whatever happens to its line to the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.examples import first
from support.fast_time import FastTime
from support.fault_proxy import FaultProxy
from support.line_faults import ALL, LineFault, check_writes
from support.memory_vcenter import MemoryVCenter, connect
from support.vsphere_works import Works, stock, working

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}


@pytest.fixture(scope="session")
def stocked() -> bytes:
    return stock()


@pytest.fixture
def vcenter() -> Iterator[MemoryVCenter]:
    with MemoryVCenter() as vcenter:
        yield vcenter


@pytest.fixture
async def line(works: Works) -> AsyncIterator[FaultProxy]:
    """That of a manager that is yet to lead."""
    async with FaultProxy(works.config).running() as line:
        works.config = line.config
        yield line
        await works.kill()


@pytest.fixture
async def works(stocked: bytes, tmp_path: Path) -> AsyncIterator[Works]:
    async with working(stocked, tmp_path, connect) as works:
        yield works


@pytest.mark.parametrize("fault", first(*ALL), ids=lambda fault: fault.__name__)
async def test_a_machine_becomes_one_vm(
    works: Any, vcenter: MemoryVCenter, line: FaultProxy, fault: LineFault
) -> None:
    await works.cluster(vcenter)
    await works.lead()
    await works.machine("first", T4)
    await works.until_ready("first")

    await fault(line, lambda: works.machine("one", T4), FastTime(lambda: line.busy))

    await works.until_ready("one")
    done = Counter(task["method"] for task in vcenter.tasks())
    assert {done["CloneVM_Task"], done["PowerOnVM_Task"]} == {2}
    check_writes(line)
