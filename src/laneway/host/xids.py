"""What the kernel's log says of GPUs: errors of NVIDIA's driver, and resets.

A reset leaves no trace in the log by itself. Laneway writes one when it has reset a function, so
that a reader of the log from its beginning, such as an agent that starts again, sees which errors
came before it; a person who reset a GPU by other means can write the same line.
"""

from __future__ import annotations

import re

from laneway.core.kernel.xids import Xid
from laneway.core.pci import PciAddress

KERNEL_LOG = "/dev/kmsg"

_XID = re.compile(
    r"\bNVRM: Xid \((?:PCI:)?(?P<slot>[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f])(?:\.[0-7])?\)"
    r": (?P<code>\d{1,5})\b(?P<text>.*)",
    re.IGNORECASE,
)
_PROCESS = re.compile(r"^[, ]*(?:(?:pid|name)=(?:'[^']*'|[^,]*)(?:, *|$))*")
_RESET = re.compile(r"laneway: (\S{1,20}) has been reset")


def reset_message(function: PciAddress) -> str:
    """The line that says that a function has been reset."""
    return f"laneway: {function} has been reset"


def parse_xid(message: str) -> Xid | None:
    """Read `NVRM: Xid (PCI:0000:08:00): 79, pid=4711, name=python3, what happened`."""
    match = _XID.search(message)
    if match is None:
        return None
    card = _address(f"{match['slot'].lower()}.0")
    return card and Xid(card, int(match["code"]), _PROCESS.sub("", match["text"]))


def parse_reset(message: str) -> PciAddress | None:
    """Read the line that says that a function has been reset."""
    match = _RESET.fullmatch(message)
    return match and _address(match[1])


def _address(text: str) -> PciAddress | None:
    domain, _, rest = text.partition(":")
    try:
        return PciAddress.parse(f"{int(domain, 16):04x}:{rest}")
    except ValueError:
        return None
