"""What tests against the vCenter simulator share; `make test-vcenter` runs them.

Where the simulator cannot be built they are skipped, saying why, unless the tier runs them
(`LANEWAY_VCENTER`), which has seen to it that it can.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

from support.vcenter import NoSimulatorError, Simulator, program
from support.vsphere_works import stock

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vcenter)


@pytest.fixture(scope="session")
def vcenter_program() -> str:
    try:
        return program()
    except NoSimulatorError as error:
        if os.environ.get("LANEWAY_VCENTER"):
            raise
        pytest.skip(f"no vCenter simulator: {error}")


@pytest.fixture(scope="session")
def stocked() -> bytes:
    return stock()


@pytest.fixture
def start_vcenter(vcenter_program: str) -> Iterator[Callable[..., Simulator]]:
    """Starts a simulator with the arguments of `Simulator`; each ends with the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(Simulator(*args, **kwargs))


@pytest.fixture
def vcenter(start_vcenter: Callable[..., Simulator]) -> Simulator:
    """A simulator with the sample inventory."""
    return start_vcenter()


@pytest.fixture
def log_in() -> Iterator[Callable[[Simulator], vim.ServiceInstance]]:
    """Plain pyVmomi connections, for looking at a simulator from outside."""
    with ExitStack() as stack:

        def connect(simulator: Simulator, **more: Any) -> vim.ServiceInstance:
            arguments = {"user": simulator.user, "pwd": simulator.password} | more
            instance = SmartConnect(
                host=simulator.host,
                port=simulator.port,
                disableSslCertValidation=True,
                **arguments,
            )
            stack.callback(instance._stub.DropConnections)  # which a log-out leaves open
            stack.callback(Disconnect, instance)
            return instance

        yield connect


@pytest.fixture
def make_pool(
    log_in: Callable[[Simulator], vim.ServiceInstance],
) -> Callable[[Simulator, str, str], vim.ResourcePool]:
    """Makes a resource pool: of a simulator, in a cluster, by a name."""
    share = vim.ResourceAllocationInfo(
        reservation=0,
        limit=-1,
        expandableReservation=True,
        shares=vim.SharesInfo(level="normal", shares=0),
    )

    def make(simulator: Simulator, cluster: str, name: str) -> vim.ResourcePool:
        search = log_in(simulator).content.searchIndex
        whole = search.FindByInventoryPath(f"/DC0/host/{cluster}/Resources")
        desired = vim.ResourceConfigSpec(cpuAllocation=share, memoryAllocation=share)
        return whole.CreateResourcePool(name, desired)

    return make
