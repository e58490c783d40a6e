"""Whether a host would boot as it is configured now: asked right before every reboot."""

from __future__ import annotations

from laneway.core.preparation.decide import unfit
from laneway.core.preparation.wanted import Wanted
from laneway.host.boot.facts import read_facts
from laneway.host.hardware import Hardware
from laneway.host.plans.files import StateError


async def verify(hardware: Hardware, wanted: Wanted) -> tuple[str, ...]:
    """Why the host must not be rebooted, in words; nothing when it may.

    Kernels and initial RAM disks are there, the configuration is whole and has what is wanted.
    """
    try:
        interrupted = hardware.state.interrupted()
    except StateError as error:
        return (str(error),)
    if interrupted:
        return ("a plan that changes this host is under way, or was interrupted",)
    return unfit(wanted, await read_facts(hardware, wanted))
