"""A look at some functions of a node, which finds what a scan of the whole node would find.

A kernel event concerns one device, and to read all of a server's functions costs many times what
reading the few does that can have changed with it. Those take the place of what was known of them.
What is no PCI function (interfaces, USB devices, mounts, routes) is read every time. A function
that came or went unannounced is noticed, because the list of functions is read as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from laneway.core.inventory import DeviceError, Inventory
from laneway.core.pci import PciAddress, PciFunction
from laneway.host.pci import PciDevice, list_functions, read_function
from laneway.host.port import Host
from laneway.host.scan import Errors, assemble, scan
from laneway.host.scope import dependents, siblings
from laneway.host.vgpu import card_of, read_vgpus


def look(host: Host, known: Inventory, changed: Collection[PciAddress]) -> Inventory:
    """The inventory after events about some functions.

    A whole scan where functions cannot be listed. Blocks on files only, as `scan` does.
    """
    odd_names: list[DeviceError] = []
    try:
        listed = list_functions(host, odd_names)
    except OSError:
        return scan(host)
    before = known.by_address()
    changed = {*changed, *before.keys() ^ set(listed)}
    scope = _Scope(host, listed)
    scope.read(dependents(known.functions, changed))
    # What has come names further ones: its PF, the bridge above.
    scope.read(dependents(scope.functions(), changed))
    cards = {
        card
        for one in (*scope.functions(), *(before[at] for at in scope.seen if at in before))
        if (card := card_of(one))
    }
    scope.read(siblings([*known.functions, *scope.functions()], cards))

    devices = [device for at in sorted(scope.seen) if (device := scope.seen[at]) is not None]
    vgpus = read_vgpus(device for device in devices if card_of(device.function) in cards)
    kept = [one for one in known.functions if one.address not in scope.seen]
    functions = sorted(
        [*kept, *(device.function for device in devices)], key=lambda one: one.address
    )
    errors = _by_device(known.errors, kept)
    for device in devices:
        if device.attributes.errors:
            errors[str(device.function.address)] = device.attributes.errors
    left_out = [error for at in sorted(scope.errors) for error in scope.errors[at]]
    return assemble(
        host,
        functions,
        [*(vgpu for vgpu in known.vgpus if vgpu.parent not in cards), *vgpus],
        Errors(
            [*odd_names, *left_out],
            _in_order(errors, functions),
        ),
    )


class _Scope:
    """What has been read again."""

    def __init__(self, host: Host, listed: Collection[PciAddress]) -> None:
        self._host = host
        self._listed = frozenset(listed)
        self.seen: dict[PciAddress, PciDevice | None] = {}
        """None for what is not there, or says too little."""
        self.errors: dict[PciAddress, list[DeviceError]] = {}

    def read(self, addresses: set[PciAddress]) -> None:
        """Read those that have not been read yet."""
        for address in addresses - self.seen.keys():
            errors = self.errors[address] = []
            listed = address in self._listed
            self.seen[address] = read_function(self._host, address, errors) if listed else None

    def functions(self) -> list[PciFunction]:
        return [device.function for device in self.seen.values() if device is not None]


def _by_device(
    errors: Collection[DeviceError], functions: Collection[PciFunction]
) -> dict[str, list[DeviceError]]:
    """Those about these functions, by address. There nearly always are none."""
    found: dict[str, list[DeviceError]] = {}
    if errors:
        devices = {str(one.address) for one in functions}
        for error in errors:
            if error.device in devices:
                found.setdefault(error.device, []).append(error)
    return found


def _in_order(
    errors: Mapping[str, Sequence[DeviceError]], functions: Iterable[PciFunction]
) -> list[DeviceError]:
    if not errors:
        return []
    return [error for one in functions for error in errors.get(str(one.address), ())]
