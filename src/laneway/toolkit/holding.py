"""What would lose its GPU if the driver were unloaded now.

Looked at immediately before: vGPUs that exist, whether or not a VM uses them, functions of NVIDIA
that a process or a VM has open, passed through or not, and the driver's own nodes in /dev. Where
not all processes can be seen, nothing counts as free.
"""

from __future__ import annotations

from collections.abc import Collection

from laneway.core.driver_toolkit import failure
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.inventory import Inventory
from laneway.core.pci import NVIDIA
from laneway.host.attributes import describe
from laneway.host.holders import node_users, read_holders, visibility_error
from laneway.host.paths import as_address
from laneway.host.pci import DEVICES
from laneway.host.port import Host
from laneway.host.scan import scan


def read_holding(host: Host, own: Collection[int] = ()) -> list[str]:
    """The holders in words; `own`: our processes, which end first. Raises ToolkitError."""
    if hidden := visibility_error(host):
        raise ToolkitError(failure.use_unknown(hidden))
    inventory = scan(host)
    if unread := _unread(inventory):
        raise ToolkitError(failure.use_unknown(unread))
    found = [
        f"vGPU {vgpu.configured.type_name or vgpu.configured.type_id} exists on {vgpu.address}"
        for vgpu in inventory.vgpus
        if vgpu.configured
    ]
    gpus = [one.address for one in inventory.functions if one.vendor == NVIDIA]
    for address, holders in read_holders(host, gpus).items():
        found += [f"{address}: {one.text}" for one in holders if one.pid not in own]
    for node, users in node_users(host, _nodes(host)).items():
        ours = {f"process {pid} " for pid in own}
        found += [
            f"{user} has {node} open"
            for user in users
            if not any(user.startswith(start) for start in ours)
        ]
    return list(dict.fromkeys(found))


def _unread(inventory: Inventory) -> str:
    """What cannot be read of functions that are or may be NVIDIA's, as vGPUs may exist there."""
    others = {str(one.address) for one in inventory.functions if one.vendor != NVIDIA}
    for error in inventory.errors:
        name = error.device
        if name == DEVICES or (as_address(name) and name not in others):
            return f"{name}: {error.message}"
    return ""


def _nodes(host: Host) -> set[str]:
    try:
        names = host.names("/dev")
    except OSError as error:
        raise ToolkitError(failure.use_unknown(f"/dev: {describe(error)}")) from None
    return {f"/dev/{name}" for name in names if name.startswith("nvidia")}
