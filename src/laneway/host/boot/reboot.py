"""Reboots a host."""

from __future__ import annotations

from laneway.core.programs import SYSTEMCTL
from laneway.host.command import run
from laneway.host.hardware import Hardware

_SECONDS = 60.0


async def reboot(hardware: Hardware) -> None:
    """Have the host shut down its services and boot again. Raises OSError when it does not begin.

    Ask `verify` right before.
    """
    ended = await run(hardware.executor, (SYSTEMCTL, "reboot"), _SECONDS)
    if ended.status != 0:
        raise ended.error()
