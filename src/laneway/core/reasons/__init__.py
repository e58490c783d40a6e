"""Every public reason of conditions, events and refusals, with what it means and what to do.

This is the golden list: clients compare reasons, so one that is added, renamed or dropped is
changed here on purpose, and `tests/unit/core/reasons` finds all that the program uses.
`docs/reference/reasons.md` is made from it.
"""

from __future__ import annotations

from laneway.core.reasons import (
    claims,
    devices,
    drivers,
    events,
    gpus,
    machine_pools,
    preparation,
    vms,
    vsphere,
)
from laneway.core.reasons.text import ReasonText

REASONS: tuple[ReasonText, ...] = (
    *devices.REASONS,
    *gpus.REASONS,
    *claims.REASONS,
    *vms.REASONS,
    *vsphere.REASONS,
    *machine_pools.REASONS,
    *preparation.REASONS,
    *drivers.REASONS,
    *events.REASONS,
)

__all__ = ["REASONS", "ReasonText"]
