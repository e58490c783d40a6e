"""What becomes of the object of a GPU's division."""

from __future__ import annotations

import pytest

from laneway.api import MigConfiguration, MigConfigurationSpec, ObjectMeta
from laneway.controllers.devices.mig import keep
from laneway.core.inventory import DeviceError, Inventory
from laneway.core.pci import PciAddress

ADDRESS = PciAddress.parse("0000:08:00.0")
PLAIN = Inventory()
SILENT = Inventory(unasked=frozenset({ADDRESS}))
UNREAD = Inventory(errors=(DeviceError(str(ADDRESS), "EIO"),))


@pytest.mark.parametrize(
    ("enabled", "inventory", "kept"),
    [
        (True, PLAIN, True),
        (False, SILENT, True),
        (False, UNREAD, True),
        (False, PLAIN, False),
    ],
)
def test_what_is_desired_stays_and_what_may_still_be_there(
    enabled: bool, inventory: Inventory, kept: bool
) -> None:
    spec = MigConfigurationSpec(gpu_address=str(ADDRESS), enabled=enabled)
    stored = MigConfiguration(metadata=ObjectMeta(name="node1-000008000"), spec=spec)
    assert keep(stored, inventory) is kept
