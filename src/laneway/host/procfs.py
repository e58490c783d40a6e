"""Files below /proc/PID that describe the node.

Pid 1 lives in the node's own mount and network namespaces, which an agent in a container may not
share; where pid 1 cannot be asked, the answer for ourselves is the nearest. Simulated and recorded
hosts often have no /proc at all, which is an empty answer and never an error.
"""

from __future__ import annotations

import re

from laneway.host.port import Host

_PLACES = ("/proc/1", "/proc/self", "/proc")
_OCTAL = re.compile(r"\\([0-7]{3})")


def lines(host: Host, name: str) -> list[str]:
    """Lines of the first file of that name that can be read."""
    for place in _PLACES:
        try:
            raw = host.read(f"{place}/{name}")
        except OSError:
            continue
        return raw.decode("utf-8", "surrogateescape").splitlines()
    return []


def unescape(field: str) -> str:
    """A path as it is: the kernel writes blanks and backslashes as octal escapes."""
    if "\\" not in field:  # nearly always, and a node with many pods has mounts by the thousand
        return field
    return _OCTAL.sub(lambda match: chr(int(match[1], 8) & 0xFF), field)
