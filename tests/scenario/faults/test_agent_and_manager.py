"""Agent and manager come back by themselves from what goes wrong between them and the API server.

Each fault begins before or while a user changes something. The desired state is reached all the
same, the hardware is written to exactly as often as without a fault, and no object twice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support.examples import first
from support.line_faults import ALL, LineFault, check_writes

HARDWARE = {
    ("/sys/bus/pci/devices/0000:08:00.4/nvidia/current_vgpu_type", "747"): 1,
    ("/sys/bus/pci/drivers/igb/unbind", "0000:04:00.1"): 1,
    ("/sys/bus/pci/devices/0000:04:00.1/driver_override", "vfio-pci\n"): 1,
    ("/sys/bus/pci/drivers/vfio-pci/bind", "0000:04:00.1"): 1,
}


@pytest.mark.parametrize("role", ["agent", "manager"])
@pytest.mark.parametrize("fault", first(*ALL), ids=lambda fault: fault.__name__)
async def test_the_desired_state_is_reached_and_nothing_written_twice(
    site: Any, fault: LineFault, role: str
) -> None:
    await fault(getattr(site, role), site.change, site.time)

    await site.reached()
    await site.rest()
    assert Counter((one.path, one.data) for one in site.hardware) == HARDWARE
    check_writes(site.agent)
    check_writes(site.manager)
    written = len(site.writes)
    await site.rest()
    assert len(site.writes) == written, "at rest nothing is written"
