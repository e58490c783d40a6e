"""vCenters in memory, and an API server with all kinds of vSphere and Cluster API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.memory_vcenter import MemoryVCenter, connect
from support.vsphere_site import Site, serving
from support.vsphere_works import Works, stock, working

pytest.register_assert_rewrite("support.port_contract")


@pytest.fixture(scope="session")
def stocked() -> bytes:
    return stock()


@pytest.fixture
def start_vcenter() -> Iterator[Callable[..., MemoryVCenter]]:
    """Starts a vCenter with the arguments of `MemoryVCenter`; each ends with the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(MemoryVCenter(*args, **kwargs))


@pytest.fixture
def vcenter(start_vcenter: Callable[..., MemoryVCenter]) -> MemoryVCenter:
    """One with the sample inventory."""
    return start_vcenter()


@pytest.fixture
async def works(stocked: bytes, tmp_path: Path) -> AsyncIterator[Works]:
    """Laneway in CAPV's place."""
    async with working(stocked, tmp_path, connect) as works:
        yield works


@pytest.fixture
async def site(stocked: bytes, tmp_path: Path) -> AsyncIterator[Site]:
    """A manager's parts for vSphere; the test plays CAPV."""
    async with serving(stocked, tmp_path, connect) as site:
        yield site


@pytest.fixture
def make_pool() -> Callable[[MemoryVCenter, str, str], str]:
    """Makes a resource pool: of a vCenter, in a cluster, by a name; its ref."""

    def make(vcenter: MemoryVCenter, cluster: str, name: str) -> str:
        return vcenter.inventory.add_pool(vcenter.clusters[cluster].ref, name)

    return make
