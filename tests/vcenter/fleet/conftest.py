"""A manager's parts for vSphere, and simulated vCenters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from laneway.vsphere.vcenter import connect
from support.vsphere_site import Site, serving


@pytest.fixture
async def site(stocked: bytes, tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(stocked, tmp_path, connect) as site:
        yield site


@pytest.fixture
def site_of() -> type[Site]:
    """The same with another server."""
    return Site
