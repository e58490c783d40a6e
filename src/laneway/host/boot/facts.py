"""Reads what is known of a host before it is prepared."""

from __future__ import annotations

from laneway.core.preparation.facts import BootFacts
from laneway.core.preparation.wanted import NOTHING, Wanted
from laneway.host.hardware import Hardware


async def read_facts(hardware: Hardware, wanted: Wanted = NOTHING) -> BootFacts:  # noqa: ARG001 - follows
    """One look at a host. `wanted`: whose drivers to look for. Raises nothing: see `unreadable`."""
    return BootFacts(boot_id=hardware.state.boot)
