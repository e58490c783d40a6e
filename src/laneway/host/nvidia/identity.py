"""Which card sits at which address: the UUID that NVIDIA's driver reports for every GPU it drives.

The driver prints question marks until it has initialised a GPU. What is not certain is not known: a
text that is no UUID, or one that two GPUs show, identifies no card, because the desired states of a
card follow its UUID.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from laneway.core.pci import PciAddress, PciFunction
from laneway.host.attributes import clean
from laneway.host.port import Host

_INFORMATION = "/proc/driver/nvidia/gpus/{}/information"
_UUID = re.compile(
    r"^GPU UUID:[ \t]*(GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[ \t]*$", re.MULTILINE
)
_DRIVER = "nvidia"


def read_identities(host: Host, functions: Iterable[PciFunction]) -> dict[PciAddress, str]:
    """UUIDs of the GPUs that the driver has, in the order of the functions."""
    reported = {
        function.address: uuid
        for function in functions
        if function.is_gpu and function.physfn is None and function.driver == _DRIVER
        if (uuid := _read(host, function.address))
    }
    times = Counter(reported.values())
    return {address: uuid for address, uuid in reported.items() if times[uuid] == 1}


def _read(host: Host, address: PciAddress) -> str:
    try:
        found = _UUID.findall(clean(host.read(_INFORMATION.format(address))))
    except OSError:
        return ""
    return found[0] if len(found) == 1 else ""
