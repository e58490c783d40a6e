"""Laneway in CAPV's place, with simulated vCenters. The tests play Cluster API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from laneway.vsphere.vcenter import connect
from support.vsphere_works import Works, working


@pytest.fixture
async def works(stocked: bytes, tmp_path: Path) -> AsyncIterator[Works]:
    async with working(stocked, tmp_path, connect) as works:
        yield works
