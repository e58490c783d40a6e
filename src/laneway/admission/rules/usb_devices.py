"""USBDevices, which their agents make and delete: the object of one in use is not taken away."""

from __future__ import annotations

from laneway.admission.rules.common import Case, Findings, Parts, rules
from laneway.admission.world import World
from laneway.api import USB_ORPHANED, USBDevice
from laneway.core.refusals import UsbDeviceClaimed


def _node_of(device: USBDevice, _world: World) -> str:
    return device.status.node_name


def _delete(case: Case[USBDevice], old: USBDevice) -> Findings:
    known = case.world.usb_devices.get(case.name) or old
    if known.status.enabled or case.world.usb_claims.get(case.name) is not None:
        yield UsbDeviceClaimed(case.name)
    elif known.status.status != USB_ORPHANED:
        yield f"As long as the device is plugged in, the agent creates usbdevice {case.name} again."


RULES = rules(Parts(node_of=_node_of, delete=_delete))
